# SPDX-License-Identifier: Apache-2.0
"""<gpuwire/ranks.h> and <gpuwire/collective.h> for ctypes: the same structs, in the same order."""
import ctypes as c

from . import errors
from ._library import declare, load
from .tensors import DTYPES

RANKS_PLAIN = 2
BYTE = next(d.number for d in DTYPES if d.name == "UINT8")
# PyTorch's name of a reduction: enum gw_reduce_op.
OPS = {"SUM": 0, "PRODUCT": 1, "MAX": 2, "MIN": 3, "AVG": 4}


class ExecOpts(c.Structure):
    _fields_ = [("lanes", c.c_uint32), ("blocks", c.c_uint32), ("device", c.c_uint32), ("cpu_pin", c.c_uint32)]


class RanksAttr(c.Structure):
    _fields_ = [
        ("how", c.c_uint32), ("rank", c.c_uint32), ("size", c.c_uint32), ("rendezvous", c.c_char_p), ("secret", c.c_char_p),
        ("listener", c.c_uint32),
    ]


class CommAttr(c.Structure):
    _fields_ = [
        ("blocks", c.c_uint32), ("threads", c.c_uint32), ("staging", c.c_uint64), ("way", c.c_uint32), ("immediate", c.c_uint32),
        ("members", c.POINTER(c.c_uint32)), ("size", c.c_uint32), ("name", c.c_char_p),
    ]


class Parts(c.Structure):
    _fields_ = [("base", c.c_void_p), ("count", c.POINTER(c.c_uint64)), ("at", c.POINTER(c.c_uint64))]


def base_library() -> c.CDLL:
    """The library of executors and devices."""
    lib = load("gpuwire")
    pointer = c.c_void_p
    declare(lib, "gw_exec_create", c.c_int, c.c_char_p, c.POINTER(ExecOpts), c.POINTER(pointer))
    declare(lib, "gw_exec_destroy", c.c_int, pointer)
    declare(lib, "gw_exec_stream", pointer, pointer)
    declare(lib, "gw_device_open", c.c_int, c.c_char_p, pointer, c.POINTER(pointer))
    declare(lib, "gw_device_close", c.c_int, pointer)
    return lib


def library() -> c.CDLL:
    try:
        lib = load("gpuwire-collective")
    except errors.NotFound as error:
        raise errors.NotFound(f"{error}; it is a part of gpuwire of its own") from None
    pointer, size, number, deadline = c.c_void_p, c.c_uint64, c.c_uint32, c.c_uint64
    declare(lib, "gw_ranks_join", c.c_int, c.POINTER(RanksAttr), deadline, c.POINTER(pointer))
    declare(lib, "gw_ranks_leave", c.c_int, pointer, deadline)
    declare(lib, "gw_comm_create", c.c_int, pointer, pointer, c.POINTER(CommAttr), deadline, c.POINTER(pointer))
    declare(lib, "gw_comm_destroy", c.c_int, pointer)
    declare(lib, "gw_barrier", c.c_int, pointer, deadline)
    declare(lib, "gw_broadcast", c.c_int, pointer, pointer, pointer, size, number, number, deadline)
    declare(lib, "gw_allreduce", c.c_int, pointer, pointer, pointer, size, number, number, deadline)
    declare(lib, "gw_reduce_scatter", c.c_int, pointer, pointer, pointer, size, number, number, deadline)
    declare(lib, "gw_allgather", c.c_int, pointer, pointer, pointer, size, number, deadline)
    declare(lib, "gw_alltoall", c.c_int, pointer, pointer, pointer, size, number, deadline)
    declare(lib, "gw_alltoallv", c.c_int, pointer, c.POINTER(Parts), c.POINTER(Parts), number, deadline)
    return lib
