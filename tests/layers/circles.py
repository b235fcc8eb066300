#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The files of a folder stand in an order: each uses only files below it. A header and the source of its name count as one
file. It uses another one if it includes its header, or if its source names a function that the other's source defines. In a
circle no file can be read or changed alone.

    circles.py            prints each circle in a folder that circles.txt lists; exit code 1 if there is one. Of the other
                          folders it says how many files stand in circles
    circles.py --self     shows that it would find such circles
    circles.py FOLDER     prints the folder's files bottom up, a row for each level; then its circles, and what makes them
"""
import pathlib
import re
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
LOOKED_AT = ("src", "softnic")
SOURCES = (".c", ".cu")
COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.S)
STRING = re.compile(r'"(?:[^"\\\n]|\\.)*"')
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*"([^"\n]+)"', re.M)
# A definition begins at the line's start, and { follows its arguments.
DEFINITION = re.compile(r"^(?![^\n(]*\b(?:static|typedef)\b)[A-Za-z_][\w \*\n]*?\b(\w+)\((?:[^()]|\([^()]*\))*\)[ \n]*\{", re.M)
# A call, or a function's address. A variable may have a function's name; one of several words hardly does.
NAME = re.compile(r"(?<![\w.>])(?<!enum )(?<!struct )(?:[A-Za-z]\w*(?=\()|[A-Za-z]\w*_\w*)")


def stem(path):
    return path.rsplit("/", 1)[-1].rsplit(".", 1)[0]


def arrows(folder, files):
    """{file: {file that it uses: why}}. files: {name: text} of one folder."""
    text = {name: COMMENT.sub(" ", t) for name, t in files.items()}
    defines = {}
    for name in text:
        for function in DEFINITION.findall(text[name]) if name.endswith(SOURCES) else ():
            defines.setdefault(function, set()).add(stem(name))
    uses = {stem(name): {} for name in files}
    for name in text:
        mine = uses[stem(name)]
        for path in INCLUDE.findall(text[name]):
            beside = path.removeprefix(folder + "/")
            if beside in files:
                mine.setdefault(stem(beside), f"includes {beside}")
        # A header declares functions that it does not use.
        for function in NAME.findall(STRING.sub("", text[name])) if name.endswith(SOURCES) else ():
            # Where two files define it, one of them is compiled: either may be meant.
            if len(defines.get(function, ())) == 1:
                mine.setdefault(*defines[function], f"uses {function}")
        mine.pop(stem(name), None)
    return uses


def circles(uses):
    """Groups of files that each reach each other."""
    reach = {}
    for one in uses:
        seen, new = set(), {one}
        while new:
            new = {other for f in new for other in uses[f]} - seen
            seen |= new
        reach[one] = seen
    groups = {frozenset(o for o in reach[one] if one in reach[o]) for one in uses if one in reach[one]}
    return sorted(sorted(g) for g in groups)


def levels(uses):
    """Rows of files, bottom up: each uses files of the rows before. Files in circles, and those above them, have no row."""
    done, rows = set(), []
    while row := sorted(f for f in uses if f not in done and set(uses[f]) <= done):
        done.update(row)
        rows.append(row)
    return rows


def folders():
    """(path, {name: text}) of each folder with sources."""
    for top in LOOKED_AT:
        for folder in sorted(p for p in (ROOT / top).rglob("*") if p.is_dir()):
            files = {f.name: f.read_text(errors="replace") for f in sorted(folder.iterdir()) if f.suffix in (*SOURCES, ".h")}
            if any(name.endswith(SOURCES) for name in files):
                yield folder.relative_to(ROOT).as_posix(), files


def listed(text):
    return [line.strip() for line in text.splitlines() if line.strip() and not line.startswith("#")]


def check(must, sources):
    """Lines that are wrong, and lines to know. sources: pairs of a folder and its files."""
    wrong, notes, seen = [], [], set()
    for path, files in sources:
        seen.add(path)
        uses = arrows(path, files)
        found = circles(uses)
        if path in must:
            wrong += [f"{path}: in a circle: {' '.join(group)}" for group in found]
        elif found:
            notes.append(f"{path}: {sum(map(len, found))} of {len(uses)} files stand in circles")
        else:
            notes.append(f"{path} has no circle, and is not in circles.txt")
    return wrong + [f"circles.txt: {path} is no folder with sources" for path in must if path not in seen], notes


def show(path):
    uses = arrows(path, dict(folders())[path])
    for row in levels(uses):
        print(" ".join(row))
    for group in circles(uses):
        print(f"\nin a circle: {' '.join(group)}")
        for one in group:
            print(*(f"  {one} -> {other}: {why}" for other, why in sorted(uses[one].items()) if other in group), sep="\n")


def self_test():
    files = {
        "a.h": "int a(void);", "a.c": '#include "src/x/a.h"\n#include "src/x/b.h"\nint a(void)\n{\n    return b();\n}\n',
        "b.h": "int b(void);", "b.c": "/* a() */\nstatic int c(void)\n{\n}\nint b(void)\n{\n    return 1; // a\n}\n",
        "c.c": "int run(int (*f)(void),\n  int n)\n{\n    return d.run;\n}\n", "d.c": "void d(void)\n{\n    run(0, 1);\n}\n",
    }
    uses = arrows("src/x", files)
    assert uses["a"] == {"b": "includes b.h"} and uses["d"] == {"c": "uses run"} and not uses["b"] and not uses["c"], uses
    assert circles(uses) == [] and levels(uses) == [["b", "c"], ["a", "d"]]
    assert check(["src/x"], [("src/x", files)]) == ([], [])
    called = {**files, "b.c": "int b(void)\n{\n    return a();\n}\n"}
    assert check(["src/x"], [("src/x", called)]) == (["src/x: in a circle: a b"], [])
    included = {**files, "b.h": '#include "d.h"', "d.h": "", "d.c": '#include "src/x/a.h"'}
    assert check(["src/x"], [("src/x", included)]) == (["src/x: in a circle: a b d"], [])
    assert check([], [("src/x", included)]) == ([], ["src/x: 3 of 4 files stand in circles"])
    assert check(["src/y"], [("src/x", files)]) == (["circles.txt: src/y is no folder with sources"], ["src/x has no circle, and is not in circles.txt"])


def main():
    if sys.argv[1:] == ["--self"]:
        return self_test()
    if sys.argv[1:]:
        return show(sys.argv[1])
    wrong, notes = check(listed((HERE / "circles.txt").read_text()), folders())
    print(*notes, *wrong, sep="\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
