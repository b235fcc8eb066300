#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every function that a public header declares is defined there or exported by the library of that part, and every
function that a library exports is declared: exported.py FOLDER LIBRARY:HEADER,…

A library with an empty list of headers offers what is in all headers that no other library has."""
import pathlib
import re
import subprocess
import sys

include = pathlib.Path(__file__).resolve().parents[2] / "include/gpuwire"
texts = {str(h.relative_to(include)): re.sub(r"/\*.*?\*/", "", h.read_text(), flags=re.S) for h in include.rglob("*.h")}
# What the software NIC has in place of libc's functions, which libc's headers declare (softnic/attach/signals.h, paths.h).
of_libc = {"sigaction", "signal", "ssignal", "sysv_signal", "__sysv_signal", "bsd_signal", "sigset", "sigignore",
           "open", "open64", "__open_2", "__open64_2", "openat", "openat64", "__openat_2", "__openat64_2", "opendir", "fopen", "fopen64",
           "fstatat", "fstatat64", "stat", "stat64", "lstat", "lstat64", "__xstat", "__xstat64", "__lxstat", "__lxstat64",
           "access", "faccessat", "euidaccess", "eaccess", "readlink", "readlinkat", "realpath", "__realpath_chk", "__fxstatat",
           "__fxstatat64", "statx", "scandir", "scandir64", "scandirat", "scandirat64", "glob", "glob64", "chdir", "freopen",
           "freopen64", "getxattr", "lgetxattr", "__readlink_chk", "__readlinkat_chk", "canonicalize_file_name", "socket", "dlmopen",
           "getcwd", "__getcwd_chk", "get_current_dir_name", "creat", "creat64", "fchdir", "fts_open", "fts64_open", "ftw", "ftw64",
           "nftw", "nftw64", "inotify_add_watch", "statfs", "statfs64", "statvfs", "statvfs64"}
parts = dict(part.split(":") for part in sys.argv[2:])
owned = {header: lib for lib, headers in parts.items() for header in headers.split(",") if header}
rest = next(lib for lib, headers in parts.items() if not headers)
# Up to its semicolon: a definition has a body first, and is inline.
DECLARATION = r"^(?:extern )?(?:GW_API|int)\b[^;{}=]*?\b((?:gw|softnic)_\w+)\s*(?:\([^;{}]*|__attribute__[^;{}]*)?;"
wrong = []
for lib in parts:
    shown = subprocess.run(["nm", "-D", "--defined-only", f"{sys.argv[1]}/{lib}"], check=True, capture_output=True, text=True)
    exported = {line.split()[-1].split("@")[0] for line in shown.stdout.splitlines() if line.split()[-2] in "TDBW"}
    declared = set()
    for header, text in texts.items():
        if owned.get(header, rest) != lib:
            continue
        # A function's declaration ends with a semicolon; a definition has a body, and is inline.
        for name in re.findall(DECLARATION, text, re.M):
            declared.add(name)
            if name not in exported:
                wrong.append(f"{header}: {name}: {lib} does not export it")
    wrong += [f"{lib}: exports {name}, which no header declares" for name in sorted(exported - declared - of_libc)]
    if not declared:
        wrong.append(f"{lib}: no header declares anything of it")
print("\n".join(wrong) or f"{len(parts)} libraries export what the headers declare")
sys.exit(1 if wrong else 0)
