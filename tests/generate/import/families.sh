#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Runs families.py with a Python that has numpy.
python=python3
"$python" -c 'import numpy' 2>/dev/null || python=/usr/bin/python3
"$python" -c 'import numpy' 2>/dev/null || { echo 'skipped: numpy is not installed'; exit 77; }
exec "$python" "$(dirname "$0")/families.py" "$@"
