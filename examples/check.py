#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the documents say of the examples is so: every line of C that docs/tutorial.md and docs/verbs.md quote is in one of them,
every call in README.md's table is made by the example beside it, every example is in the table, and every public call of the
verbs' headers is."""
import pathlib
import re
import sys

VERBS = ["verbs.h", "connect.h", "verbs_device.h", "verbs_tx.h", "verbs_op.h", "verbs_ud.h", "verbs_set.h"]
HERE = pathlib.Path(__file__).resolve().parent
SOURCES = {p.name: p.read_text() for p in sorted(HERE.glob("*.[ch]"))}
LINES = {line.strip() for text in SOURCES.values() for line in text.splitlines()}
wrong = []

for doc in ("tutorial.md", "verbs.md"):
    for block in re.findall(r"^```c\n(.*?)^```", (HERE.parent / "docs" / doc).read_text(), re.S | re.M):
        wrong += [f"{doc}: in no example: {s}" for line in block.splitlines() if (s := line.strip()) and s != "..." and s not in LINES]

shown, called = {"pingpong_ibv", "options"}, set()
for calls, places in re.findall(r"^\| (`.*?) \| (.*) \|$", (HERE / "README.md").read_text(), re.M):
    names = re.findall(r"\]\((\w+)\.[ch]\)", places)
    text = "".join(SOURCES.get(f"{n}.{e}", "") for n in names for e in "hc")
    shown.update(names)
    called.update(re.findall(r"`(\w+)`", calls))
    wrong += [f"README.md: {call}: not in {names}" for call in re.findall(r"`(\w+)`", calls) if not re.search(rf"\b{call}\b", re.sub(r"/\*.*?\*/", "", text, flags=re.S))]
wrong += [f"README.md: {name}: not in the table" for name in sorted({n.split(".")[0] for n in SOURCES} - shown)]

sys.dont_write_bytecode = True
sys.path.insert(0, str(HERE.parent / "scripts"))
import api  # noqa: E402

for header in VERBS:
    names = dict.fromkeys(name for name, _, _ in api.functions((HERE.parent / "include/gpuwire" / header).read_text()))
    wrong += [f"{header}: {name}: in no example" for name in names if name not in called]

for line in wrong:
    print(line, file=sys.stderr)
sys.exit(1 if wrong else 0)
