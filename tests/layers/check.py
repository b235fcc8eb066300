#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every #include of this tree is one that layers.txt allows, and the parts stand in its order. Code that is compiled
otherwise for GPUs stands in exec, and in fn.h below it: no other part asks for __CUDA_ARCH__. An application includes its own
files and the public headers, as a user's program would.

    check.py            prints each line that is not, and why; exit code 1 if there is one
    check.py --self     shows that it would find such lines
"""
import pathlib
import re
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
LOOKED_AT = ("include", "src", "softnic", "bench", "examples", "apps")
INCLUDE = re.compile(r'\s*#\s*include\s*[<"]([^>"]+)[>"]')
GPU_ONLY = re.compile(r"\s*#\s*(if|elif|ifdef|ifndef)\b.*\b__CUDA_ARCH__\b")
MAY_ASK = ("fn", "exec")
ROW = re.compile(r"([\w/]+)([*+]?):\s*(.*?)\s*->\s*(.*)")


def cut_up(files):
    """What is wrong with a part's files. A folder is a part: none is cut up file by file, and a part has one. Only the public
    headers lie together in one folder."""
    own = [f for f in files if not f.startswith("include/")]
    yield from (f"{f} is a file: a part is a folder" for f in own if pathlib.PurePosixPath(f).suffix)
    if len(own) > 1:
        yield f"{' and '.join(own)}: a part is one folder"


class Table:
    def __init__(self, text):
        self.place, self.allowed, self.wrong, for_all = {}, {}, [], set()
        for n, line in enumerate(text.splitlines(), 1):
            if not line.strip() or line.startswith("#"):
                continue
            row = ROW.fullmatch(line.strip())
            if not row:
                self.wrong.append(f"layers.txt:{n}: not PART: FILES -> PARTS")
                continue
            part, mark, files, parts = row[1], row[2], row[3].split(), row[4].split()
            self.wrong += [f"layers.txt:{n}: {part}: {why}" for why in cut_up(files)]
            for_all |= {part} if mark == "+" else set()
            if mark != "*":
                self.wrong += [f"layers.txt:{n}: {part} may not include {p}, which stands below it" for p in parts if p not in self.allowed]
            self.allowed[part] = {part, *parts, *for_all}
            self.place.update({f: part for f in files})
        known = set(self.allowed)
        self.wrong += [f"layers.txt: {part} may include {p}: no such part" for part, parts in self.allowed.items() for p in sorted(parts - known)]

    def part(self, path):
        """The part that a file belongs to; None: none."""
        fits = [f for f in self.place if path == f or path.startswith(f if f.endswith("_") else f + "/")]
        return self.place[max(fits, key=len)] if fits else None


def included(path, name):
    """A file of this tree that an #include names, seen from its root; None: it is the system's, or generated."""
    own = str(pathlib.PurePosixPath(path).parent) + "/"
    for folder in (own,) if name.startswith("../") else ("", "include/", own):  # what lies beside this tree is no part of it
        if (ROOT / folder / name).is_file():
            return folder + name
    return None


def only_for_us(path, other):
    """May an application not include this? Its own folder and what gets installed are all it has."""
    app = re.match(r"apps/\w+/", path)
    return app and not other.startswith(app[0]) and not re.fullmatch(r"include/gpuwire/\w+\.h", other)


def check(table, sources):
    """A line for each #include that is not allowed. sources: pairs of a path and a text."""
    for path, text in sources:
        part = table.part(path)
        if part is None:
            yield f"{path}: belongs to no part of layers.txt"
            continue
        for n, line in enumerate(text.splitlines(), 1):
            if GPU_ONLY.match(line) and part not in MAY_ASK:
                yield f"{path}:{n}: {part} may not ask for __CUDA_ARCH__: {' and '.join(MAY_ASK)} do"
            m = INCLUDE.match(line)
            other = m and included(path, m[1])
            if not other:
                continue
            to = table.part(other)
            if to is None:
                yield f"{path}:{n}: {m[1]} belongs to no part that may be included here"
            elif to not in table.allowed[part]:
                yield f"{path}:{n}: {part} may not include {to} ({m[1]})"
            elif only_for_us(path, other):
                yield f"{path}:{n}: an application uses the public headers alone, not {m[1]}"


def sources():
    for folder in LOOKED_AT:
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in (".c", ".h", ".cu"):
                yield path.relative_to(ROOT).as_posix(), path.read_text(errors="replace")


def self_test(table):
    bad = {
        "src/verbs/x.c": ('#include "src/socket/net.h"', "src/verbs/x.c:1: verbs may not include socket"),
        "include/gpuwire/detail/exec/x.h": ("\n#include <gpuwire/verbs.h>", "include/gpuwire/detail/exec/x.h:2: exec may not include verbs"),
        "src/exec/x.c": ('#include <gpuwire/softnic.h>', "src/exec/x.c:1: exec may not include softnic_h"),
        "softnic/wire/x.c": ('#include "src/verbs/impl.h"', "softnic/wire/x.c:1: softnic/wire may not include verbs"),
        "src/roce/x.c": ('#include "tests/rnd.h"', "src/roce/x.c:1: tests/rnd.h belongs to no part"),
        "src/loop/x.c": ("#ifdef __CUDA_ARCH__", "src/loop/x.c:1: loop may not ask for __CUDA_ARCH__"),
        "src/new/x.c": ("", "src/new/x.c: belongs to no part"),
        "apps/matmul/x.c": ("#include <gpuwire/detail/socket/calls.h>", "apps/matmul/x.c:1: an application uses the public headers alone"),
        "apps/matmul/y.c": ('#include "src/socket/net.h"', "apps/matmul/y.c:1: an application uses the public headers alone"),
    }
    found = list(check(table, [(path, text) for path, (text, _) in bad.items()]))
    missed = [want for _, want in bad.values() if not any(f.startswith(want) for f in found)]
    if not Table("a: x -> b\nb: y ->\n").wrong:
        missed.append("a row that names a part below it")
    for row in ("a: src/a/b.c ->", "a: src/a src/b ->"):
        if not Table(row).wrong:
            missed.append(f"a part that is no folder: {row}")
    if list(check(table, [("src/socket/x.c", '#include "src/verbs/impl.h"\n#include <gpuwire/kernel.h>\n#include <stdio.h>')])):
        missed.append("what is allowed")
    return [f"not found: {m}" for m in missed]


def main():
    table = Table((HERE / "layers.txt").read_text())
    wrong = self_test(table) if sys.argv[1:] == ["--self"] else table.wrong + list(check(table, sources()))
    print(*wrong, sep="\n", file=sys.stderr)
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
