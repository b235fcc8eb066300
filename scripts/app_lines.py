#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How many lines the server of each application has, and its CPU+CUDA baseline: lines that are neither blank nor comments alone.

    app_lines.py [APP...]           a table; without names: all applications that have apps/NAME/lines.txt
    app_lines.py --check [APP...]   exit code 1 where an application has no fewer lines than its baseline

apps/NAME/lines.txt is the one place that says which files count. A line is `WHAT: FILE...`, or begins with #. `ours` is what is
compared with `baseline`; other names are shown beside them."""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
# Comments and texts of C, C++ and CUDA; a text keeps what looks like a comment in it.
C = re.compile(r"/\*.*?\*/|//[^\n]*|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'", re.S)


def count(path, text):
    """Lines of code in a file."""
    if path.suffix in (".py", ".sh"):
        return sum(1 for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#"))
    text = C.sub(lambda m: m[0] if m[0][0] in "\"'" else re.sub(r"[^\n]", " ", m[0]), text)
    return sum(1 for line in text.splitlines() if line.strip())


def read(app):
    """The groups of an application's lines.txt: {WHAT: [FILE, ...]}."""
    groups = {}
    for line in (app / "lines.txt").read_text().splitlines():
        what, colon, files = line.partition(":")
        if not line.strip() or line.startswith("#"):
            continue
        if not colon or not files.split():
            raise SystemExit(f"app_lines: {app.name}/lines.txt: expected `WHAT: FILE...`: {line}")
        groups.setdefault(what.strip(), []).extend(files.split())
    return groups


def main(args):
    check = "--check" in args
    names = [a for a in args if a != "--check"]
    apps = [ROOT / "apps" / n for n in names] or sorted(p.parent for p in (ROOT / "apps").glob("*/lines.txt"))
    more = 0
    for app in apps:
        if not (app / "lines.txt").is_file():
            raise SystemExit(f"app_lines: {app.name}: there is no apps/{app.name}/lines.txt")
        groups = read(app)
        sums = {what: sum(count(app / f, (app / f).read_text()) for f in files) for what, files in groups.items()}
        print(app.name)
        for what, files in groups.items():
            print(f"  {sums[what]:5}  {what}: {' '.join(files)}")
        ratio = sums["ours"] / sums["baseline"]
        print(f"  {ratio:5.2f}  of the baseline's lines")
        more += ratio >= 1
    return check and more > 0


def self_test():
    text = '/* a\n b */\nint x; // y\n\n  // z\nchar *s = "/* no comment */";\n/* */ int y;\n#include <a.h>\n'
    assert count(pathlib.Path("a.c"), text) == 4
    assert count(pathlib.Path("a.py"), "# x\n\nx = 1 # y\n") == 1
    return 0


if __name__ == "__main__":
    sys.exit(self_test() if sys.argv[1:] == ["--self-test"] else main(sys.argv[1:]))
