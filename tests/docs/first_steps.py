#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the documents tell a reader to type can be typed, in a fresh copy of the tree that `make` has configured.

    first_steps.py             configures a copy, and looks up what the documents' blocks of commands name: targets of make and
                               of the build, programs in build/bin, scripts; prints what is not there; exit code 1 if anything
    first_steps.py --self      shows that it would find such commands

After `make tests` a page may name the tests' programs, too. It compiles nothing. Other tests run the commands (tutorial, install, run_command).
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

TREE = pathlib.Path(__file__).resolve().parents[2]
PAGES = ["README.md", "CONTRIBUTING.md", "examples/README.md", "models/README.md", *sorted(f"docs/{p.name}" for p in (TREE / "docs").glob("*.md"))]
BLOCK = re.compile(r"^ *```\n(.*?)^ *```$|((?:^    \S.*\n)+)", re.S | re.M)
COMMAND = re.compile(r"(?:^|&& )\s*(?:\w+=\S* )*(.*?)(?=\s+#|\s&& |$)", re.M)


def commands(text):
    return [c for block in BLOCK.finditer(text) for c in COMMAND.findall(block[1] or block[2] or "") if c]


def named(command):
    """[(kind, name)] that a command needs: a target of make, a target of the build, a file of the tree."""
    words = command.split()
    found = []
    if words[0] == "make":
        found += [("make", w) for w in words[1:] if "=" not in w and not w.startswith("-")] or [("make", "all")]
    if words[:2] == ["cmake", "--build"] and "--target" in words:
        found += [("build", w) for w in words[words.index("--target") + 1:] if not w.startswith("-")]
    found += [("build", w.removeprefix("build/")) for w in words if w.startswith("build/bin/")]
    found += [("file", w.removeprefix("./")) for w in words[:1] if re.match(r"(\./|scripts/|examples/|bench/)", w)]
    return found


def missing(wanted, make, build, files):
    return [f"{page}: {command}: no {kind} {name}" for page, command in wanted for kind, name in named(command)
            if name not in {"make": make, "build": build, "file": files}[kind]
            and not (kind == "build" and "`make tests`" in (TREE / page).read_text())]


def self_test():
    text = "```\nmake foo\nA=b build/bin/x 1 && build/bin/y   # say\n```\n    scripts/no.sh --all\n"
    wanted = [("README.md", c) for c in commands(text)]
    assert missing(wanted, {"all"}, {"bin/x"}, set()) == [
        "README.md: make foo: no make foo", "README.md: build/bin/y: no build bin/y",
        "README.md: scripts/no.sh --all: no file scripts/no.sh"], wanted


def configured(copy):
    """What can be built in the copy after `make`: the build's targets."""
    env = {k: v for k, v in os.environ.items() if k not in ("BUILD", "CMAKE_FLAGS", "MAKEFLAGS", "MAKELEVEL")}  # a reader has none
    subprocess.run(["make", "-s", "build/build.ninja"], cwd=copy, check=True, stdout=subprocess.DEVNULL, env=env)
    lines = subprocess.run(["ninja", "-C", "build", "-t", "targets", "all"], cwd=copy, check=True, capture_output=True, text=True).stdout
    return {line.split(": ")[0] for line in lines.splitlines()}


if "--self" in sys.argv:
    self_test()
    sys.exit(0)
with tempfile.TemporaryDirectory() as work:
    copy = pathlib.Path(work) / "tree"
    made = shutil.ignore_patterns("build*", ".git", ".cache", "bundle*", "shared")  # at the top: a source may be named build.c
    copies = lambda folder, names: made(folder, names) if pathlib.Path(folder) == TREE else {"__pycache__"} & set(names)
    shutil.copytree(TREE, copy, ignore=copies, symlinks=True)
    build = configured(copy)
    make = set(re.findall(r"^([a-z-]+):", (TREE / "Makefile").read_text(), re.M))
    files = {p.relative_to(TREE).as_posix() for d in ("", "scripts", "examples", "bench") for p in (TREE / d).glob("*")}
    wanted = [(page, c) for page in PAGES if (TREE / page).exists() for c in commands((TREE / page).read_text())]
    lines = missing(wanted, make, build, files)
print("\n".join(lines), file=sys.stderr)
sys.exit(1 if lines or len(wanted) < 50 else 0)
