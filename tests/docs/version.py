#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The version that CMake builds is the first one of CHANGELOG.md and of Debian's changelog."""
import pathlib
import re
import sys

TREE = pathlib.Path(__file__).resolve().parents[2]
PLACES = {
    "CMakeLists.txt": r"^project\(gpuwire VERSION ([\d.]+)",
    "CHANGELOG.md": r"^## (?:Unreleased \()?([\d.]+)",
    "debian/changelog": r"^gpuwire \(([\d.]+)\)",
}

found = {}
for name, line in PLACES.items():
    match = re.search(line, (TREE / name).read_text(encoding="utf-8"), re.M)
    found[name] = match[1] if match else "no version"
if len(set(found.values())) != 1 or "no version" in found.values():
    sys.exit("the versions differ: " + ", ".join(f"{name}: {version}" for name, version in found.items()))
