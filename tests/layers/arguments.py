#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""No function of headers, sources and examples takes more than six arguments, but for those that arguments.txt lists, each
with its reason. A name in the list may have its file in front: src/model/onnx.c:load_in.

    arguments.py          prints each function that does and is not listed, and each line of the list that no function
                          needs any more; exit code 1 if there is one
    arguments.py --self   shows that it would find such functions
"""
import fnmatch
import pathlib
import re
import sys

from csource import blank, listed

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
LOOKED_AT = ("include", "src", "softnic", "examples", "apps")
MOST = 6
# A declaration or definition: it begins at the line's start, and ; or { follows its arguments.
FUNCTION = re.compile(r"^[A-Za-z_][\w \*\n]*?\b(\w+)\(((?:[^()]|\([^()]*\))*)\)\s*[;{]", re.M)


def count(arguments):
    """How many there are; commas within parentheses do not separate them."""
    return re.sub(r"\([^()]*\)", "", arguments).count(",") + 1


def long_ones(sources):
    """(path, line, name, how many) of each function with too many. sources: pairs of a path and a text."""
    for path, text in sources:
        text = blank(text)
        for m in FUNCTION.finditer(text):
            n = count(m.group(2))
            if n > MOST:
                yield path, text.count("\n", 0, m.start(1)) + 1, m.group(1), n


def check(patterns, sources):
    used = set()
    for path, line, name, n in long_ones(sources):
        fits = [p for p in patterns if patterns[p] and fnmatch.fnmatchcase(f"{path}:{name}" if ":" in p else name, p)]
        used.update(fits)
        if not fits:
            yield f"{path}:{line}: {name} takes {n} arguments; more than {MOST} need a reason in arguments.txt"
    for p in sorted(set(patterns) - used):
        yield f"arguments.txt: no function of more than {MOST} arguments is named {p}"


def self_test():
    patterns = listed("Why.\n  many_* other\n")
    source = "int many_of(int a, int b, int c,\n  int d, int e, int f, int g);\nint few(int (*f)(int, int, int), int a, int b, int c, int d, int e);\n"
    more = "/* x */\nstatic int odd(int a, int b, int c, int d, int e, int f, int g)\n{\n}\n"
    found = list(check(patterns, [("a.h", source), ("b.c", more)]))
    assert len(found) == 2 and found[0].startswith("b.c:2: odd takes 7") and found[1].endswith("named other"), found
    assert not list(check(listed("Why.\n  many_* b.c:odd\n"), [("a.h", source), ("b.c", more)]))
    assert len(list(check(listed("Why.\n  many_* a.h:odd\n"), [("a.h", source), ("b.c", more)]))) == 2


def main():
    if sys.argv[1:] == ["--self"]:
        return self_test()
    files = (p for top in LOOKED_AT for p in sorted((ROOT / top).rglob("*")) if p.suffix in (".c", ".h", ".cu"))
    sources = ((str(p.relative_to(ROOT)), p.read_text()) for p in files)
    wrong = list(check(listed((HERE / "arguments.txt").read_text()), sources))
    print("\n".join(wrong), end="\n" if wrong else "")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
