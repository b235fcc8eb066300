#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every relative link of the documents leads to a file of the tree and, where it names one, to a heading of it."""
import pathlib
import re
import sys

TREE = pathlib.Path(__file__).resolve().parents[2]
PAGES = [*TREE.glob("*.md"), *(p for d in ("docs", "bench", "examples", "models", "apps") for p in (TREE / d).rglob("*.md"))]


def without_code(text):
    return re.sub(r"^```.*?^```$", "", text, flags=re.S | re.M)


def anchors(page):
    """What GitHub makes of headings: lower case, no punctuation, dashes for spaces; the second of a name ends in -1."""
    seen, made = {}, set()
    for heading in re.findall(r"^#+ +(.*)$", without_code(page.read_text(encoding="utf-8")), re.M):
        name = re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
        made.add(name if name not in seen else f"{name}-{seen[name]}")
        seen[name] = seen.get(name, 0) + 1
    return made


wrong = []
for page in PAGES:
    for target in re.findall(r"\]\(([^)\s]+)\)", without_code(page.read_text(encoding="utf-8"))):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        file = (page.parent / path).resolve() if path else page
        if not file.exists():
            wrong.append(f"{page.relative_to(TREE)}: {target}: no such file")
        elif anchor and anchor not in anchors(file):
            wrong.append(f"{page.relative_to(TREE)}: {target}: no such heading")
for line in wrong:
    print(line, file=sys.stderr)
sys.exit(1 if wrong or not PAGES else 0)
