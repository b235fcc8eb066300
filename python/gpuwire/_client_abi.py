# SPDX-License-Identifier: Apache-2.0
"""<gpuwire/client.h> for ctypes: the same structs, in the same order."""
import ctypes as c
from typing import Any, ClassVar

from ._library import declare, load

MAX_RANK, MAX_IO, NAME = 8, 16, 128
GIVE_UP = c.CFUNCTYPE(c.c_int)


class Shape(c.Structure):
    _fields_ = [("name", c.c_char_p), ("rank", c.c_uint32), ("dims", c.c_int64 * MAX_RANK)]


class Opts(c.Structure):
    _fields_ = [
        ("server", c.c_char_p), ("model", c.c_char_p), ("version", c.c_char_p), ("token", c.c_char_p),
        ("ca_file", c.c_char_p), ("slots", c.c_uint32), ("rows", c.c_uint32), ("timeout_ns", c.c_uint64),
        ("give_up", GIVE_UP), ("shapes", c.POINTER(Shape)), ("shape_count", c.c_uint32),
    ]


class Tensor(c.Structure):
    _fields_ = [
        ("name", c.c_char * NAME), ("dtype", c.c_uint32), ("rank", c.c_uint32), ("dims", c.c_int64 * MAX_RANK),
        ("bytes", c.c_uint64), ("batched", c.c_uint32),
    ]


class Request(c.Structure):
    _fields_ = [("id", c.c_uint64), ("rows", c.c_uint32), ("priority", c.c_uint32), ("budget_ns", c.c_uint64)]


class Times(c.Structure):
    _fields_ = [(name, c.c_int64) for name in ("total", "net_in", "wait", "model", "post", "net_out")]


class Output(c.Structure):
    _fields_ = [
        ("data", c.c_void_p), ("bytes", c.c_uint64), ("dtype", c.c_uint32), ("rank", c.c_uint32),
        ("dims", c.c_int64 * MAX_RANK),
    ]


class Reply(c.Structure):
    _fields_ = [
        ("id", c.c_uint64), ("slot", c.c_uint32), ("error", c.c_int), ("why", c.c_char_p), ("rows", c.c_uint32),
        ("batch", c.c_uint32), ("outputs", c.c_uint32), ("out", Output * MAX_IO), ("times", Times),
        ("retry_ns", c.c_uint64),
    ]


class Stats(c.Structure):
    _fields_: ClassVar[Any] = [(name, c.c_uint64) for name in ("success", "fail", "inferences", "executions", "success_ns", "queue_ns",
                                                "input_ns", "infer_ns", "output_ns")] + [
        ("batches", c.c_uint32), ("batch", c.c_uint32 * 32), ("batch_count", c.c_uint64 * 32),
    ]


def library() -> c.CDLL:
    lib = load("gpuwire-client")
    client, index = c.c_void_p, c.c_uint32
    declare(lib, "gw_client_open", c.c_int, c.POINTER(Opts), c.POINTER(client))
    declare(lib, "gw_client_close", None, client)
    for name in ("inputs", "outputs", "slots", "rows"):
        declare(lib, "gw_client_" + name, c.c_uint32, client)
    declare(lib, "gw_client_door", c.c_char_p, client)
    for name in ("input", "output"):
        declare(lib, "gw_client_" + name, c.POINTER(Tensor), client, index)
    declare(lib, "gw_client_slot_input", c.c_void_p, client, index, index, index)
    declare(lib, "gw_client_submit", c.c_int, client, index, c.POINTER(Request))
    declare(lib, "gw_client_submit_from", c.c_int, client, index, c.POINTER(Request), c.POINTER(c.c_void_p))
    declare(lib, "gw_client_register", c.c_int, client, c.c_void_p, c.c_size_t)
    declare(lib, "gw_client_unregister", c.c_int, client, c.c_void_p)
    declare(lib, "gw_client_wait", c.c_int, client, c.c_uint64, c.POINTER(Reply))
    declare(lib, "gw_client_stats", c.c_int, client, c.POINTER(Stats))
    return lib
