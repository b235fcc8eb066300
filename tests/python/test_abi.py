#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The structs and numbers that the package writes down for ctypes are the headers': a C compiler is asked where each field lies.

    test_abi.py SOURCES [COMPILER]        exit code 77: there is no C compiler
"""
import ctypes
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

from gpuwire import _client_abi, _collective_abi, _serve_abi

HEADERS = ("client.h", "collective.h", "exec.h", "ranks.h", "serve.h")
STRUCTS = {
    "gw_serving_opts": _serve_abi.Opts, "gw_serving_model": _serve_abi.Model,
    "gw_serving_generator": _serve_abi.Generator, "gw_serving_tensor": _serve_abi.Tensor,
    "gw_serving_graph": _serve_abi.Graph, "gw_serving_captured": _serve_abi.Captured, "gw_serving_stats": _serve_abi.Stats,
    "gw_client_shape": _client_abi.Shape, "gw_client_opts": _client_abi.Opts, "gw_client_tensor": _client_abi.Tensor,
    "gw_client_request": _client_abi.Request, "gw_client_times": _client_abi.Times, "gw_client_output": _client_abi.Output,
    "gw_client_reply": _client_abi.Reply, "gw_client_stats": _client_abi.Stats, "gw_exec_opts": _collective_abi.ExecOpts,
    "gw_ranks_attr": _collective_abi.RanksAttr, "gw_comm_attr": _collective_abi.CommAttr, "gw_parts": _collective_abi.Parts,
}
# `in` is a word of Python's.
FIELDS = {"gw_serving_graph.inputs": "in", "gw_serving_graph.outputs": "out"}
NUMBERS = {
    "GW_RANKS_PLAIN": _collective_abi.RANKS_PLAIN, "GW_DTYPE_U8": _collective_abi.BYTE, "GW_SUM": _collective_abi.OPS["SUM"],
    "GW_PROD": _collective_abi.OPS["PRODUCT"], "GW_MAX": _collective_abi.OPS["MAX"], "GW_MIN": _collective_abi.OPS["MIN"],
    "GW_AVG": _collective_abi.OPS["AVG"],
}


def expected():
    """What is asked of the compiler, and what the package says."""
    for name, struct in STRUCTS.items():
        yield f"sizeof(struct {name})", ctypes.sizeof(struct)
        for field, *_ in struct._fields_:
            in_c, place = FIELDS.get(f"{name}.{field}", field), getattr(struct, field)
            yield f"offsetof(struct {name}, {in_c})", place.offset
            yield f"sizeof(((struct {name} *)0)->{in_c})", place.size
    yield from NUMBERS.items()


def main():
    sources = pathlib.Path(sys.argv[1])
    compiler = sys.argv[2] if len(sys.argv) > 2 else "cc"
    if not shutil.which(compiler):
        print("skipped: there is no C compiler")
        sys.exit(77)
    asked = list(expected())
    lines = [*(f"#include <gpuwire/{header}>" for header in HEADERS), "#include <stddef.h>", "#include <stdio.h>"]
    lines += ["int main(void)", "{"]
    lines += [f'    printf("%llu\\n", (unsigned long long)({what}));' for what, _ in asked] + ["}", ""]
    with tempfile.TemporaryDirectory() as folder:
        (pathlib.Path(folder) / "abi.c").write_text("\n".join(lines))
        program = os.path.join(folder, "abi")
        # The headers have inline functions that call the library. This program calls none of them.
        subprocess.run([compiler, "-std=gnu11", "-w", "-O1", f"-I{sources / 'include'}", "-o", program, program + ".c"], check=True)
        found = subprocess.run([program], check=True, capture_output=True, text=True).stdout.split()
    wrong = [f"{what} is {int(is_)}, the package says {says}" for (what, says), is_ in zip(asked, found) if int(is_) != says]
    if wrong or len(found) != len(asked):
        sys.exit("\n".join(["FAILED:", *wrong]))
    print(f"{len(asked)} sizes, places and numbers agree")


main()
