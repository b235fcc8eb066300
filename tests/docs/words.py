#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Words that stop a reader stay out of documents, comments, messages and the texts of tests.

    words.py            prints each place, with a better word; exit code 1 if there is one
    words.py --self     shows that it would find such words

Of C and CUDA it reads comments and strings; of all else the whole text. The user "nobody" is none of these words. A word that is
right in its place has a line in tests/docs/words.txt, with the reason.
"""
import pathlib
import re
import subprocess
import sys

TREE = pathlib.Path(__file__).resolve().parents[2]
ALLOWED = TREE / "tests/docs/words.txt"

# pattern, better words, why
WORDS = [
    (r"(?:is|are) wanted", "must be, expected, is missing", "a message says what the program expects, not what somebody wishes"),
    (r"so (?:many|long|much)(?! (?:that|as)\b)", "N, this number, how long", "a placeholder for a number reads like an exclamation"),
    (r"so many-th", "every Nth", "no English word"),
    (r"(?<![/\"'`=])(?<!user )nobody(?![=\"`]|'(?!s)|\.\w)", "no client, no thread, no other user, no one", "it hides who does not act"),
    (r"(?<!\")somebody(?!\")", "a client, a thread, another process", "it hides who acts"),
    (r"whoever", "the client that, any thread that", "it hides who acts"),
    (r"(?<!`)meanwhile", "at the same time, during the call, since", "it does not say during what"),
    (r"for ever", "forever", "one word, in the spelling of these pages"),
    (r"anew", "again", "not used in technical prose"),
    (r"in vain", "without result, for nothing", "a figure of speech"),
    (r"(?:has|have) to say(?! that)", "reports", "an idiom of speech"),
    (r"as there may be", "the limit is reached", "it does not name the limit"),
    (r"takes? leave", "deregisters", "an idiom of speech"),
    (r"keeps? the house", "does the housekeeping", "no English phrase"),
    (r"behind (?:it|them|that|those|each other|one another|the others?)", "after", "behind is a place; an order has after"),
    (r"(?:one|lie|lies|right|posted|comes?) behind", "after", "behind is a place; an order has after"),
    (r"not a sound", "not a valid", "sound is a noise first"),
    (r"it is %\w+ at most", "must be at most", "a message says what to do"),
]
ONE = re.compile("|".join(rf"(?P<w{i}>\b{p}\b)" for i, (p, _, _) in enumerate(WORDS)), re.I)
KEYS = ("wanted", "so many", "so long", "so much", "nobody", "somebody", "whoever", "meanwhile", "for ever", "anew", "in vain",  # of WORDS:
        "to say", "as there may be", "leave", "the house", "behind", "a sound", "it is %")  # most files have none of them
PROSE = re.compile(r"/\*.*?\*/|//[^\n]*|\"(?:[^\"\\\n]|\\.)*\"|'(?:[^'\\\n]|\\.)'", re.S)
BREAK = re.compile(r"[ \t]*\n[ \t]*(?:\*(?!/)|//|#|>)?[ \t]*")
KINDS = ["*.md", "*.c", "*.h", "*.cu", "*.py", "*.sh", "*.toml", "*.txt", "*.cmake", "*.html", "*.conf", "Makefile", "Containerfile", "debian/*",
         ".ci/*"]
LEFT_OUT = ("CHANGELOG.md", "tests/docs/words.", "docs/man/gpuwire", "completion/")  # history; this check; made files


def prose(path, text):
    """The parts of a file that a person reads, as (offset, text)."""
    if path.endswith((".c", ".h", ".cu")):
        return ((m.start(), m[0]) for m in PROSE.finditer(text))
    return ((0, text),)


def flat(text):
    """The text with each line break, and what leads the next line, as one space; and where each character was."""
    out, at, last = [], [], 0
    for m in BREAK.finditer(text):
        out.append(text[last:m.start()] + " ")
        at.extend(range(last, m.start() + 1))
        last = m.end()
    out.append(text[last:])
    at.extend(range(last, len(text)))
    return "".join(out), at


def found(path, text):
    """The places, as (line, the words around it, index of the pattern)."""
    words = BREAK.sub(" ", text).lower()
    if not any(key in words for key in KEYS):
        return
    for offset, part in prose(path, text):
        line, at = flat(part)
        for m in ONE.finditer(line):
            if m[0].isupper():  # a name of the code
                continue
            around = line[max(0, m.start() - 40):m.end() + 30]
            yield text.count("\n", 0, offset + at[m.start()]) + 1, around, int(m.lastgroup[1:])


def allowed(lines):
    """path: text: reason. The text is a part of the place."""
    rules, wrong = {}, []
    for n, line in enumerate(lines, 1):
        if not line.strip() or line.startswith("#"):
            continue
        parts = line.split(" | ")
        if len(parts) != 3 or not parts[2].strip():
            wrong.append(f"tests/docs/words.txt:{n}: expected PATH | TEXT | REASON")
        else:
            rules.setdefault(parts[0].strip(), []).append([parts[1].strip(), n, False])
    return rules, wrong


def check(files, rules):
    for path, text in files:
        for line, around, i in found(path, text):
            rule = next((r for r in rules.get(path, []) if r[0] in around), None)
            if rule:
                rule[2] = True
            else:
                yield f"{path}:{line}: …{around}…: better: {WORDS[i][1]} ({WORDS[i][2]})"
    for path, of in rules.items():
        for text, n, used in of:
            if not used:
                yield f"tests/docs/words.txt:{n}: {path} has no \"{text}\" any more"


def tracked():
    names = subprocess.run(["git", "-C", TREE, "ls-files", "-z", *KINDS], capture_output=True, check=False).stdout.decode().split("\0")
    if len(names) < 2:  # no repository, as in an archive
        names = sorted({str(p.relative_to(TREE)) for top in ("docs", "include", "src", "softnic", "tests", "bench", "examples", "python", "scripts", "apps")
                        for kind in KINDS for p in (TREE / top).rglob(kind)})
    for name in names:
        if name and not name.startswith(LEFT_OUT) and (TREE / name).is_file():
            yield name, (TREE / name).read_text(encoding="utf-8", errors="replace")


def self_test():
    rules = {"b.c": [["nobody user", 1, False]], "d.c": [["gone", 2, False]]}
    files = [
        ("a.c", "int nobody; /* waits for\n * ever, so many */\nputs(\"a number is wanted\");"),
        ("b.c", "/* the nobody user */"),
        ("c.md", "Somebody waits\nin vain. So long as it runs, it is so. Behind a proxy."),
        ("d.c", "int anew;"),
        ("e.sh", "# one behind\n# the other"),
    ]
    got = [w.split(": better")[0].split(":")[0] + ":" + w.split(":")[1] for w in check(files, rules)]
    should = ["a.c:1", "a.c:2", "a.c:3", "c.md:1", "c.md:2", "e.sh:1", "tests/docs/words.txt:2"]
    return [] if sorted(got) == sorted(should) else [f"found {got} instead of {should}"]


def main():
    if sys.argv[1:] == ["--self"]:
        wrong = self_test()
    else:
        rules, wrong = allowed(ALLOWED.read_text(encoding="utf-8").split("\n"))
        wrong += check(tracked(), rules)
    print(*wrong, sep="\n", file=sys.stderr)
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
