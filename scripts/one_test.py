#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""scripts/one_test.py BUILD NAME [--build-only]: builds what the test NAME needs and runs it. NAME may be a regular expression, which
then names every test that it matches as a whole. What a test needs is in its command and its environment: a file of the
build tree is built; the build tree as a whole stands for all of it."""
import difflib
import json
import pathlib
import re
import subprocess
import sys

build_only = sys.argv[3:] == ["--build-only"]
if len(sys.argv) != 3 + build_only or not sys.argv[2]:
    sys.exit("usage: make test T=NAME (ctest -N in the build folder lists the names)")
build, wanted = pathlib.Path(sys.argv[1]).resolve(), sys.argv[2]
shown = subprocess.run(["ctest", "--show-only=json-v1"], cwd=build, check=True, capture_output=True, text=True).stdout
tests = {test["name"]: test for test in json.loads(shown)["tests"]}
try:
    chosen = [test for name, test in tests.items() if name == wanted or re.fullmatch(wanted, name)]
except re.error as e:
    sys.exit(f"{wanted}: not a name, and no regular expression: {e}")
if not chosen:
    near = difflib.get_close_matches(wanted, tests, 3) or [name for name in tests if wanted in name][:3]
    sys.exit(f"{wanted}: no test of this name" + (f"; there is {', '.join(near)}" if near else ""))

outputs = subprocess.run(["ninja", "-t", "targets", "all"], cwd=build, check=True, capture_output=True, text=True).stdout
outputs = {line.rpartition(": ")[0] for line in outputs.splitlines()}
needed = set()
for test in chosen:
    words = test.get("command", [])
    if not words:  # ctest does not tell the command of a test whose program is not built yet
        program = f"bin/{test['name']}"
        needed.add(program if program in outputs else "all")
    environment = [p["value"] for p in test["properties"] if p["name"] == "ENVIRONMENT"]
    words = words + [value.partition("=")[2] for values in environment for value in values]
    for word in words:
        if word == str(build):
            needed.add("all")
        elif word.startswith(f"{build}/") and (name := str(pathlib.PurePath(word).relative_to(build))) in outputs:
            needed.add(name)
if needed:
    subprocess.run(["ninja", *sorted(needed)], cwd=build, check=True)
if build_only:
    sys.exit(0)
names = "|".join(re.escape(test["name"]) for test in chosen)
sys.exit(subprocess.run(["ctest", "--output-on-failure", "-R", f"^({names})$"], cwd=build).returncode)
