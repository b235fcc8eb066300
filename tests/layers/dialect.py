#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The product's C is one dialect (CONTRIBUTING.md, "Style"). The sources are formatted, so a function begins in column 0.

    shared     two static functions of the product have no name in common. Files that compile one body header, each in its own
               way, count as one. An application's folder is a product of its own, and its NAME.c and NAME.cu count as one.
    libc       no static function has a name of the C library (libc_names.txt).
    purpose    a .c or .cu begins, after its licence, with a comment that says what it is for.
    err        an int status is called err; not rc, error or ret. Members of structs keep their names.
    bool       a static function that returns only yes or no returns bool.

    dialect.py          prints each place that breaks a rule and that dialect.txt does not list, and each line of dialect.txt
                        that holds for no place any more; exit code 1 if there is one
    dialect.py --self   shows that it would find such places
"""
import collections
import fnmatch
import pathlib
import re
import sys

from csource import blank, listed

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
LOOKED_AT = ("src", "softnic", "include", "apps")
STATIC = re.compile(r"^#define (\w+)\s+(?:static|GW_FN|INLINE)\b", re.M)
ATTRIBUTE = r"__attribute__\(\(.*?\)\)"
INCLUDE = re.compile(r'^#include "([^"]+)"', re.M)
STATUS = re.compile(r"\bint (?:\*?\w+(?:\[\w*\])?(?: = (?:[^,;()]|\([^()]*\))+)?, )*\*?(rc|error|ret)\b(?= *[,;=)])")
STRUCT = re.compile(r"^(?:typedef |static |const )*(?:struct|union)\b[^;()=]*?\{.*?^\}", re.M | re.S)
RETURN = re.compile(r"\breturn\b([^;]*);")
BOOLEAN = re.compile(r"[^=!<>]==[^=]|!=|<=|>=|&&|\|\||(?<![-<])[<>](?![<>=])")


class Static:
    def __init__(self, path, line, name, kind, body):
        self.path, self.line, self.name, self.kind, self.body = path, line, name, kind, body


def statics(sources):
    """Each static function that is defined. sources: path -> text without comments."""
    words = {"static"}
    for text in sources.values():
        words.update(STATIC.findall(text))
    head = re.compile(rf"^(?:{ATTRIBUTE} |\w+ )*?(?:{'|'.join(sorted(words))})\b((?:[\w \*\n]|{ATTRIBUTE})*?)\b(\w+)\(([^;{{}}]*?)\)\s*(?:{ATTRIBUTE}\s*)?\{{", re.M)
    for path, text in sources.items():
        for m in head.finditer(text):
            if m.group(2) != "__attribute__":
                end = text.find("\n}", m.end())
                yield Static(path, text.count("\n", 0, m.start(2)) + 1, m.group(2), m.group(1).strip(), text[m.end():end])


def twins(sources):
    """path -> the body header that it compiles in its own way, else the path itself."""
    out = {}
    for path, text in sources.items():
        bodies = [b for b in INCLUDE.findall(text) if b.endswith("_body.h")]
        alone = path.rsplit(".", 1)[0] if path.startswith("apps/") else path
        out[path] = bodies[0] if len(bodies) == 1 else alone
    return out


def product(path):
    """Files of other products may use the same names."""
    return path.rsplit("/", 1)[0] if path.startswith("apps/") else ""


def says_yes_or_no(body):
    """Every return gives a comparison, the like, 0 or 1; one at least is no number."""
    values = [v.strip() for v in RETURN.findall(body)]
    sure = False
    for v in values:
        while v.startswith("(") and v.endswith(")") and v.count("(") == 1:
            v = v[1:-1]
        if v in ("0", "1"):
            continue
        flat = v
        while re.search(r"\([^()]*\)", flat):  # what stands in parentheses is an operand
            flat = re.sub(r"\([^()]*\)", "", flat)
        if "?" in flat or not (BOOLEAN.search(f" {flat} ") or re.match(r"!\w", flat) or re.fullmatch(r"!", flat)):
            return False
        sure = True
    return bool(values) and sure


def purpose(text):
    """Does a comment follow the licence? Another form of a file, which only includes what both compile, needs none."""
    rest = re.sub(r"^/\* SPDX[^\n]*\*/\n", "", text).lstrip()
    return rest.startswith("/*") or re.fullmatch(r'#include "[^"]+"\n', rest)


def check(texts, libc):
    """(rule, path, line, name, words) of each place that breaks a rule."""
    sources = {path: blank(text) for path, text in texts.items()}
    groups, same = twins(texts), collections.defaultdict(dict)
    for s in statics(sources):
        same[product(s.path), s.name].setdefault(groups[s.path], s)
        if s.path.startswith("include/"):
            continue
        if s.name in libc:
            yield "libc", s.path, s.line, s.name, f"{s.name} is a name of the C library"
        if re.search(r"\bint$", s.kind) and says_yes_or_no(s.body):
            yield "bool", s.path, s.line, s.name, f"{s.name} returns only yes or no: make it bool"
    for (_, name), places in same.items():
        for s in places.values():
            if len(places) > 1 and not s.path.startswith("include/"):
                other = next(p.path for p in places.values() if p is not s)
                yield "shared", s.path, s.line, name, f"{name} is a static function of {other}, too: put the file's noun before it"
    for path, text in sources.items():
        if path.startswith("include/"):
            continue
        for m in STATUS.finditer(STRUCT.sub(lambda m: re.sub(r"[^\n]", " ", m.group(0)), text)):
            yield "err", path, text.count("\n", 0, m.start(1)) + 1, m.group(1), f"an int status is called err, not {m.group(1)}"
        if path.endswith((".c", ".cu")) and not purpose(texts[path]):
            yield "purpose", path, 1, path, "after the licence, a comment says what the file is for"


def wrong(texts, libc, exceptions):
    used = set()
    for rule, path, line, name, words in check(texts, libc):
        place = f"{rule}:{path}" if rule == "purpose" else f"{rule}:{path}:{name}"
        fits = [e for e in exceptions if exceptions[e] and fnmatch.fnmatchcase(place, e)]
        used.update(fits)
        if not fits:
            yield f"{path}:{line}: {words}"
    for place in sorted(set(exceptions) - used):
        yield f"dialect.txt: nothing needs {place}"


def self_test():
    start = "/* SPDX-License-Identifier: Apache-2.0 */\n/* What it is for. */\n"
    texts = {
        "src/a.c": start + "static int find(int x)\n{\n    return x;\n}\n",
        "src/b.c": start + "static struct x *find(int x,\n                      int y)\n{\n    return 0;\n}\n",
        "src/c.c": start + "static void accept(void)\n{\n}\n",
        "src/d.c": "/* SPDX-License-Identifier: Apache-2.0 */\n#include <x.h>\n",
        "src/e.c": start + "void f(void)\n{\n    int n, rc = 0;\n}\n\nint g(int error)\n{\n}\n",
        "src/f.c": start + "static int is_it(int x)\n{\n    if (x) return 0;\n    return x > 1 && !x;\n}\n",
        "src/g1.c": start + '#include "src/g_body.h"\nstatic int twin(void)\n{\n}\n',
        "src/g2.c": start + '#include "src/g_body.h"\nstatic int twin(void)\n{\n}\n',
        "src/h.c": start + "static int h_count(int x)\n{\n    return x ? 2 : 0;\n}\n\nstatic int zero(void)\n{\n    return 0;\n}\n\nstatic int f(struct gw_error *error)\n{\n}\n",
        "apps/one/a.c": start + "static int find(int x)\n{\n    return x;\n}\n",
        "apps/one/a.cu": start + "static int find(int x)\n{\n    return x;\n}\n",
        "apps/two/a.c": start + "static int look(int x)\n{\n    return x;\n}\n",
        "apps/two/b.c": start + "static int look(int x)\n{\n    return x;\n}\n",
    }
    found = sorted({p.split(": ")[0] for p in wrong(texts, {"accept"}, {})})
    expected = ["apps/two/a.c:3", "apps/two/b.c:3", "src/a.c:3", "src/b.c:3", "src/c.c:3", "src/d.c:1", "src/e.c:5", "src/e.c:8", "src/f.c:3"]
    assert found == expected, found
    left = list(wrong(texts, {"accept"}, listed("Why.\n  libc:src/c.c:accept purpose:src/d.c libc:src/c.c:send\n")))
    assert len(left) == 8 and left[-1] == "dialect.txt: nothing needs libc:src/c.c:send", left


def main():
    if sys.argv[1:] == ["--self"]:
        return self_test()
    files = (p for top in LOOKED_AT for p in sorted((ROOT / top).rglob("*")) if p.suffix in (".c", ".h", ".cu"))
    texts = {p.relative_to(ROOT).as_posix(): p.read_text() for p in files}
    libc = {name for line in (HERE / "libc_names.txt").read_text().splitlines() if line[0] != "#" for name in line.split()}
    lines = list(wrong(texts, libc, listed((HERE / "dialect.txt").read_text())))
    print("\n".join(lines), end="\n" if lines else "")
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main())
