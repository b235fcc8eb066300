#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The API reference, out of the public headers: every public function and its comment.

    scripts/api.py OUT.md      writes the reference (make docs)
    scripts/api.py --check     fails when a public function has no comment, or one that leaves out who may call it, what
                               it returns, in what units, or (for kernels) what is visible to whom

A header's first comment speaks for all its functions. Who may call a function: it or the function's comment names
threads, and the warp or block for a function named so. What it returns, if an int: its comment gives values or refers to
another function's ("as gw_post_op"), or the header's says what all its functions return. Units: a parameter that is a time or a
size needs nanoseconds, or bytes, to be spoken of. Memory order: what kernels call needs a word of visibility or order,
unless the header's functions are pure.

A comment counts for the declaration that follows it, and for those that follow that one with no empty line between.
A definition of what was declared and described before it is not repeated. Names that end in _ are private. Every header is in
HEADERS or in INNER, or lies in detail/.
"""
import itertools
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
HEADERS = ["error.h", "options.h", "signals.h", "dtype.h", "exec.h", "kernel.h", "sync.h", "group.h", "loop.h", "host.h", "verbs.h", "connect.h", "verbs_device.h", "verbs_tx.h", "verbs_op.h", "verbs_ud.h", "verbs_set.h", "channel.h", "socket.h", "rsocket.h", "rsocket_datagram.h", "client.h", "generate.h", "serve.h", "model.h", "flow.h", "ranks.h", "collective.h", "moe.h", "softnic.h"]
INNER = ["fn.h", "gpunet_compat.h", "mlx5.h"]
BEGIN = re.compile(r"^(GW_API|GW_FN|GW_OPTIONS_FN|GW_DEV|GW_SLOW_FN|int softnic_\w+)\b")
NAME = re.compile(r"\b((?:gw|softnic)_\w+)\s*\(")
HEAD = re.compile(r"\A/\* SPDX[^\n]*\n/\*(.*?)\*/", re.S)
RETURNS = re.compile(r"-E[A-Z]+|\b[Rr]eturns?\b|(^|[\s(])(0|1|-1)([:;.,)]|$| when| if| or| and| at)|\b[Aa]s \w*_\w+|\b[Rr]esults? as\b", re.M)
RETURNS_ALL = re.compile(r"Results are POSIX'|([Ff]unctions|They) return 0 or a negative errno|Every kernel call returns 0 or")
UNITS = [(r"deadline|\w*_ns", r"nanosec|\bns\b|gw_clock_ns|gw_deadline|[Dd]eadlines are"), (r"size|len|length|bytes|errlen", r"[Bb]ytes|MODEL_ERR")]
FAMILY = re.compile(r"^(\w+) +(gw_\w*\{[^(]+)\((.*)\)$", re.M)  # functions that macros define, as a comment declares them
ORDER = re.compile(r"visible|[Mm]emory order|acquire|release|\border(s|ed)?\b")
PURE = re.compile(r"pure[\s*]+functions")


def words(comment):
    """A comment's text: without its marks, with its own line breaks and blank lines."""
    lines = "\n".join(comment).removeprefix("/*").removesuffix("*/").split("\n")
    return "\n".join(re.sub(r"^ \* ?", "", line).strip() if not line.startswith(" *  ") else line[3:] for line in lines).strip()


def functions(text):
    """Yields (name, declaration, comment) in the header's order."""
    comment, lines, i = "", text.split("\n"), 0
    while i < len(lines):
        line = lines[i]
        if line.startswith("/*"):
            block = [line]
            while "*/" not in block[-1]:
                i += 1
                block.append(lines[i])
            comment = "" if "----" in block[0] else words(block)
            for returns, name, arguments in FAMILY.findall(comment):
                yield name, f"{returns} {name}({arguments})", comment
        elif BEGIN.match(line):
            declaration = line
            while ";" not in declaration and not re.search(r"\)\s*(\{|$)", declaration):
                i += 1
                declaration += " " + lines[i].strip()
            if "/*" in declaration:  # said after it
                declaration, _, said = declaration.partition("/*")
                comment = said.removesuffix("*/").strip()
            name = NAME.search(declaration)
            if name and not name[1].endswith("_"):
                yield name[1], declaration.split("{")[0].strip().rstrip(";"), comment
        elif not line.strip() or line.startswith("}"):
            comment = ""
        i += 1


def lacks(head, name, declaration, comment):
    """What a function's description leaves out, given what its header's head says: a list of words for people."""
    if not comment:
        return ["not described"]
    missing, said = [], f"{head}\n{comment}"
    group = re.search(r"_(warp|block)$", name)
    if not re.search(rf"\b{group[1] if group else 'thread'}", said):
        missing.append("does not say who calls it")
    returns_int = re.match(r"(GW_\w+\s+)?int\s+" + name, declaration)
    if returns_int and not RETURNS.search(comment) and not RETURNS_ALL.search(head):
        missing.append("does not say what it returns")
    for parameter, unit in UNITS:
        if re.search(rf"\b({parameter})\b[,)\[]", declaration) and not re.search(unit, said):
            missing.append("does not say in what unit")
    if declaration.startswith("GW_") and not declaration.startswith(("GW_API", "GW_OPTIONS_FN")) and not PURE.search(head) and not ORDER.search(said):
        missing.append("does not say what is visible to whom")
    return missing


def read():
    """{header: [(name, declaration, comment)]}, and a line for each description that lacks something."""
    there = {p.name for p in (ROOT / "include/gpuwire").glob("*.h")}
    book, bare = {}, [f"{name}: is it public? api.py does not know" for name in sorted(there ^ {*HEADERS, *INNER})]
    for header in HEADERS:
        said, text = {}, (ROOT / "include/gpuwire" / header).read_text()
        head = HEAD.search(text)[1]
        for name, declaration, comment in functions(text):
            if name not in said or (comment and not said[name][1]):
                said[name] = (declaration, comment)
        book[header] = [(n, d, c) for n, (d, c) in said.items()]
        bare += [f"{header}: {n}: {what}" for n, (d, c) in said.items() for what in lacks(head, n, d, c)]
    return book, bare


def write(book, out):
    text = ["# API reference", "", "Out of the comments in `include/gpuwire`, by `make docs`.", ""]
    for header, entries in book.items():
        if not entries:
            continue
        text += [f"## gpuwire/{header}", ""]
        for comment, group in itertools.groupby(entries, key=lambda e: e[2]):
            group = list(group)
            text += ["### " + ", ".join(name for name, _, _ in group), "", "```c"]
            text += [declaration + ";" for _, declaration, _ in group]
            text += ["```", "", comment, ""]
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text("\n".join(text))
    print(f"{out}: {sum(map(len, book.values()))} functions")


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    book, bare = read()
    if sys.argv[1] != "--check":
        write(book, pathlib.Path(sys.argv[1]))
        return
    for line in bare:
        print(line, file=sys.stderr)
    sys.exit(1 if bare else 0)


if __name__ == "__main__":
    main()
