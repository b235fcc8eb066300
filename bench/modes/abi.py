# SPDX-License-Identifier: Apache-2.0
"""bench/modes/modes.h for ctypes."""
import ctypes as c
import os
import pathlib
from typing import Any

from gpuwire import _library
from gpuwire import _serve_abi as serve

KINDS = {"copy": 0, "direct": 1, "queued": 2}


class Opts(c.Structure):
    _fields_ = [
        ("size", c.c_uint32), ("kind", c.c_uint32), ("on_cpu", c.c_uint32), ("gpu", c.c_uint32), ("sessions", c.c_uint32),
        ("slots", c.c_uint32), ("port", c.c_uint32), ("timed", c.c_uint32), ("name", c.c_char_p),
    ]


class Times(c.Structure):
    _fields_ = [("requests", c.c_uint64), ("in_ns", c.c_uint64), ("run_ns", c.c_uint64), ("out_ns", c.c_uint64)]


def library() -> c.CDLL:
    """The modes' library: beside gpuwire's own, which is loaded first."""
    _library.load("gpuwire")
    folder = pathlib.Path(os.environ["GPUWIRE_LIBRARIES"])
    lib = c.CDLL(str(next(f for f in (folder / "libgpuwire-modes.so.0", folder / "libgpuwire-modes.so") if f.exists())))
    _library.declare(lib, "modes_start", c.c_int, c.POINTER(Opts), c.POINTER(serve.Captured), c.POINTER(c.c_void_p))
    _library.declare(lib, "modes_port", c.c_uint16, c.c_void_p)
    _library.declare(lib, "modes_query", None, c.c_void_p, c.POINTER(Times))
    _library.declare(lib, "modes_stop", c.c_int, c.c_void_p)
    _library.declare(lib, "modes_error", c.c_char_p)
    return lib


def check(lib: Any, result: int) -> None:
    if result < 0:
        raise SystemExit(f"modes: {lib.modes_error().decode()} (error {-result})")
