#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every file that a document names is there, and the picture of ARCHITECTURE.md has every folder of src/ and softnic/.

    places.py            prints what is not so; exit code 1 if there is something
    places.py --self     shows that it would find such places
"""
import pathlib
import re
import sys

TREE = pathlib.Path(__file__).resolve().parents[2]
PAGES = [*TREE.glob("*.md"), *(p for d in ("docs", "bench", "examples", "models", "apps") for p in (TREE / d).rglob("*.md"))]
FOLDERS = "src|apps|softnic|include|tests|bench|scripts|cmake|examples|python|models|docs|debian|completion"
PATH = re.compile(rf"`((?:{FOLDERS})/[\w./*-]+)`")

PLACEHOLDER = re.compile(r"/[A-Z_]+(/|$)")  # tests/MODULE/: for the reader to fill in


def there(path):
    return any(TREE.glob(path.rstrip("/")))


def missing_paths(text):
    """The paths in backquotes that begin with a folder of the tree, and lead nowhere."""
    return [path for path in PATH.findall(text) if not PLACEHOLDER.search(path) and not there(path)]


def missing_in_table(text):
    """What the table's right column names: a path, or a name that stands in the folder of the path before it."""
    missing = []
    for row in re.findall(r"^\|.*\|(.*)\|$", text, re.M):
        folder = pathlib.PurePosixPath("")
        for name in re.findall(r"`([^`]+)`", row):
            path = pathlib.PurePosixPath(name) if "/" in name else folder / name
            folder = path if name.endswith("/") else path.parent
            if not there(str(path)):
                missing.append(str(path))
    return missing


def missing_in_picture(text, folders):
    """The folders that the picture does not name. A line's second name may leave out the first one's parent, and a room of a
    module its `src/`."""
    picture = text.split("```")[1]
    words = re.findall(r"[\w/]+", picture)
    return [folder for folder in folders if folder not in words and not (folder.count("/") > 1 and folder.removeprefix("src/") in words) and
            not (folder.count("/") == 1 and re.search(rf"{folder.split('/')[0]}/\w+, {folder.split('/')[1]}\b", picture))]


def modules():
    """src/* and softnic/*, and the folders below them that are libraries of their own."""
    made = (p.parent.relative_to(TREE).as_posix() for top in ("src", "softnic") for p in (TREE / top).rglob("CMakeLists.txt"))
    return sorted(folder for folder in made if "/" in folder)


def self_test():
    table = "| a | `src/roce/icrc.c`, `nothing.c` |\n| b | `src/roce/`, `icrc.h`, `cm.*` |\n"
    picture = "```\n src/a  text\n softnic/b, c  more src/d\n```"
    found = [
        (missing_paths("`src/roce/icrc.c` `src/nothing.c` `docs/*.md` `tests/MODULE/`"), ["src/nothing.c"]),
        (missing_in_table(table), ["src/roce/nothing.c"]),
        (missing_in_picture(picture, ["src/a", "src/d", "softnic/b", "softnic/c", "src/b"]), ["src/b"]),
    ]
    return [f"found {is_} instead of {should}" for is_, should in found if is_ != should]


def main():
    if sys.argv[1:] == ["--self"]:
        wrong = self_test()
    else:
        wrong = [f"{page.relative_to(TREE)}: {path}: no such file" for page in PAGES
                 for path in missing_paths(page.read_text(encoding="utf-8"))]
        text = (TREE / "ARCHITECTURE.md").read_text(encoding="utf-8")
        wrong += [f"ARCHITECTURE.md: {path}: no such file" for path in missing_in_table(text)]
        wrong += [f"ARCHITECTURE.md: {folder} is not in the picture" for folder in missing_in_picture(text, modules())]
    print(*wrong, sep="\n", file=sys.stderr)
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
