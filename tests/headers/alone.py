#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Each public header compiles alone, without a warning; in C those of detail/, too: alone.py c|c++|nvcc COMPILER

The flags are those that pkg-config gives, and -Wall -Wextra -pedantic."""
import concurrent.futures
import pathlib
import re
import subprocess
import sys
import tempfile

language, compiler = sys.argv[1:]
include = pathlib.Path(__file__).resolve().parents[2] / "include"
warnings = ["-Wall", "-Wextra", "-pedantic"]
ways = {
    "c": ["-std=c11", "-fsyntax-only", "-x", "c", *warnings],
    "c++": ["-std=c++17", "-fsyntax-only", "-x", "c++", *warnings],
    "nvcc": ["-std=c++17", "-arch=compute_75", "-c", "-Xcompiler", ",".join(warnings)],
}
# What nvcc hands to the host's compiler begins each line with a directive of a style that -pedantic does not like.
of_nvcc = "style of line directive is a GCC extension"
complaint = re.compile(r"(: (warning|error): |\(\d+\): (warning|error|catastrophic))")


def complaints(header, folder):
    name = header.relative_to(include)
    source = folder / f"{'_'.join(name.with_suffix('').parts)}{'.cu' if language == 'nvcc' else '.c'}"
    source.write_text(f"#include <{name}>\ntypedef int not_empty;\n")
    # Not to /dev/null: a compiler that is interrupted removes its output, and as root it can.
    output = ["-o", f"{source}.o"] if language == "nvcc" else []
    command = [compiler, *ways[language], *output, "-D_DEFAULT_SOURCE", f"-I{include}", str(source)]
    done = subprocess.run(command, capture_output=True, text=True)
    lines = [line for line in done.stderr.splitlines() if complaint.search(line) and of_nvcc not in line]
    if done.returncode and not lines:
        lines = [f"exit code {done.returncode}: {done.stderr[-500:]}"]
    return [f"{name}: {line}" for line in lines]


headers = sorted((include / "gpuwire").glob("**/*.h" if language == "c" else "*.h"))
if language == "nvcc":  # two seconds for each; what other headers are made of is compiled with those
    whole = re.compile(r"^#include <gpuwire/\w+\.h> /\* which includes this file", re.M)
    headers = [header for header in headers if not whole.search(header.read_text())]
with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor(2) as pool:
    wrong = [line for lines in pool.map(lambda h: complaints(h, pathlib.Path(folder)), headers) for line in lines]
print("\n".join(wrong) or f"{len(headers)} headers, each alone: no warning")
sys.exit(1 if wrong or not headers else 0)
