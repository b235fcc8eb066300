#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The tracepoints of docs/debugging.md are those of the binaries, with as many arguments.

    tracepoints.py PROVIDER=FILE...   prints what differs; exit code 1 if there is something, 77 if no file is given
    tracepoints.py --self             shows that it would find such differences
"""
import pathlib
import re
import subprocess
import sys

MOST = 6  # arguments
PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs/debugging.md"


def in_page(text):
    """{"provider:name": number of arguments}, by the tables' rows. A semicolon stands between one argument and its explanation."""
    rows = re.findall(r"^\| `(\w+:\w+)` \|[^|]*\| ([^|]*) \|$", text, re.M)
    return {name: len(re.sub(r",? as in .*|;.*", "", arguments).split(",")) for name, arguments in rows}


def in_notes(text):
    """The same, by what readelf -n prints, and what differs between two places of one tracepoint."""
    note = re.compile(r"Provider: (\w+)\s+Name: (\w+)\s+Location:[^\n]*\s+Arguments:([^\n]*)")
    points, wrong = {}, []
    for provider, name, arguments in note.findall(text):
        n = len(re.findall(r"(?:^|\s)-?\d+f?@", arguments))
        if points.setdefault(f"{provider}:{name}", n) != n:
            wrong.append(f"{provider}:{name}: not everywhere with as many arguments")
        if n > MOST:
            wrong.append(f"{provider}:{name}: {n} arguments, and bpftrace reads {MOST}")
    return points, wrong


def differences(page, notes, provider):
    own = {name: n for name, n in notes.items() if name.startswith(provider + ":")}
    told = {name: n for name, n in page.items() if name.startswith(provider + ":")}
    for name in sorted(own.keys() | told.keys()):
        if name not in told:
            yield f"{name}: docs/debugging.md does not have it"
        elif name not in own:
            yield f"{name}: docs/debugging.md has it, but the binary does not"
        elif own[name] != told[name]:
            yield f"{name}: {told[name]} arguments in docs/debugging.md, but {own[name]} in the binary"


def self_test():
    page = in_page("| `a:one` | when | QP, PSN, state, as in `enum s` |\n| `a:two` | x | y; in z, too |\n| `a:four` | x | y |\n")
    note = "Provider: a\n Name: {}\n Location: 0x1, Base: 0x2\n Arguments: {}\n"
    notes, twice = in_notes(note.format("one", "8@%rax -4@8(%rdi,%rsi)") + note.format("three", "1@$5" + 6 * " 4@%eax") + note.format("two", "4@(%rax)") +
                            note.format("two", "4@(%rax) 8@%rcx"))
    found = list(differences(page, notes, "a"))
    words = ["a:four: docs/debugging.md has it", "a:one: 3 arguments", "a:three: docs/debugging.md does not"]
    return [] if len(found) == 3 and len(twice) == 2 and all(f.startswith(w) for f, w in zip(found, words)) else [f"self-test: {found} {twice}"]


def main(arguments):
    wrong = []
    if arguments == ["--self"]:
        return self_test()
    if not arguments:
        print("built without sys/sdt.h: no tracepoints")
        sys.exit(77)
    for argument in arguments:
        provider, _, file = argument.partition("=")
        notes, twice = in_notes(subprocess.run(["readelf", "-n", file], capture_output=True, text=True, check=True).stdout)
        wrong += twice + list(differences(in_page(PAGE.read_text(encoding="utf-8")), notes, provider))
    return wrong


found = main(sys.argv[1:])
for line in found:
    print(line, file=sys.stderr)
sys.exit(1 if found else 0)
