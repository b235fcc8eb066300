#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every file that a comment names is there: src/verbs/qp.c, verbs/qp.h, or qp.c of the comment's own module.

    comment_paths.py            prints what is not so; exit code 1 if there is something
    comment_paths.py --self     shows that it would find such names

A name without a folder may also stand for the only file of that name in the tree. It reads the comments of C, CUDA, Python, shell and
CMake files.
"""
import pathlib
import re
import subprocess
import sys

TREE = pathlib.Path(__file__).resolve().parents[2]
NAME = re.compile(r"(?<![\w./<>*$\"{-])(?:\./)?((?:[\w-]+/)*[\w-]+(?:\.[\w-]+)*\.(?:c|h|cu|py|sh|md))\b(?![\w*-]|\.\w|/\w)")
C_COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.S)
HASH_COMMENT = re.compile(r"(?m)(?:^|(?<=\s))#(?!!).*$")
TOPS = ("src", "softnic", "include", "tests", "bench", "examples", "python", "scripts", "models", "apps")
PLACEHOLDER = re.compile(r"[A-Z]{4}|^scripts/no\.sh$")  # NAME.h: for the reader to fill in
OTHERS = {  # names of files that are not ours, or that a reader would make
    "add_kernel.c": "the reader's", "add_kernel.cu": "the reader's",
    "providers/mlx5/mlx5dv.h": "rdma-core's", "include/linux/posix-timers_types.h": "Linux'", "mlx5dv.h": "rdma-core's", "cuda.h": "CUDA's",
    "src/uct/ib/ud/base/ud_iface.h": "UCX'",
}


def module(path):
    """src/verbs of src/verbs/qp.c; include/gpuwire/detail/verbs counts as a module, too."""
    parts = path.split("/")[:-1]
    return "/".join(parts[:4] if parts[:1] == ["include"] else parts[:2])


class Tree:
    def __init__(self, files):
        self.files = set(files)
        self.named = {}
        for f in files:
            self.named.setdefault(f.rsplit("/", 1)[-1], []).append(f)

    def has(self, name, at):
        """Does a comment in the file `at` name a file of the tree?"""
        here = at.rsplit("/", 1)[0] if "/" in at else ""
        if name in self.files or f"{here}/{name}" in self.files:
            return True
        same = self.named.get(name.rsplit("/", 1)[-1], [])
        if "/" in name:
            return any(f.endswith("/" + name) for f in same)
        return len(same) == 1 or any(module(f) == module(at) for f in same)


def comments(path, text):
    if path.endswith((".c", ".h", ".cu")):
        return C_COMMENT.finditer(text)
    return HASH_COMMENT.finditer(text)


def check(texts, tree):
    for path, text in texts:
        for comment in comments(path, text):
            for m in NAME.finditer(comment[0]):
                if m[1] not in OTHERS and not PLACEHOLDER.search(m[1]) and not tree.has(m[1], path):
                    line = text.count("\n", 0, comment.start() + m.start()) + 1
                    yield f"{path}:{line}: a comment names {m[1]}, which is not there"


def tracked():
    out = subprocess.run(["git", "-C", TREE, "ls-files", "-z"], capture_output=True, check=False).stdout.decode()
    return [f for f in out.split("\0") if f] or [str(p.relative_to(TREE)) for top in TOPS for p in (TREE / top).rglob("*") if p.is_file()]


def self_test():
    tree = Tree(["src/a/one.c", "src/a/b/two.h", "src/c/two.h", "src/c/only.c", "tests/run.sh"])
    texts = [
        ("src/a/one.c", "/* two.h, only.c, a/b/two.h,\n * gone.c, src/a/gone.h */ \"gone.c\" // b/two.h, tests/run.sh\n"),
        ("src/d/x.c", "/* two.h */"),
        ("tests/run.sh", "# src/a/one.c, src/one.c\necho gone.c\n"),
    ]
    got = [w.split(": a")[0] + " " + w.split()[4] for w in check(texts, tree)]
    should = ["src/a/one.c:2 gone.c,", "src/a/one.c:2 src/a/gone.h,", "src/d/x.c:1 two.h,", "tests/run.sh:1 src/one.c,"]
    return [] if got == should else [f"found {got} instead of {should}"]


def main():
    if sys.argv[1:] == ["--self"]:
        wrong = self_test()
    else:
        files = tracked()
        names = [f for f in files if f.endswith((".c", ".h", ".cu", ".py", ".sh", ".cmake", "CMakeLists.txt")) and (TREE / f).is_file()]
        wrong = list(check(((f, (TREE / f).read_text(encoding="utf-8", errors="replace")) for f in names), Tree(files)))
    print(*wrong, sep="\n", file=sys.stderr)
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
