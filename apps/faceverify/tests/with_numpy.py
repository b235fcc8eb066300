# SPDX-License-Identifier: Apache-2.0
"""Importing this makes sure of numpy: it begins again with the system's own Python, if another one comes first, or skips the test."""
import importlib.util
import os
import sys

if not importlib.util.find_spec("numpy"):
    if sys.executable == "/usr/bin/python3" or not os.path.exists("/usr/bin/python3"):
        print("numpy is not here")
        sys.exit(77)
    os.execv("/usr/bin/python3", ["/usr/bin/python3", *sys.argv])  # the system's own, if another Python comes first
