# SPDX-License-Identifier: Apache-2.0
"""<gpuwire/serve.h> for ctypes: the same structs, in the same order."""
import ctypes as c
from typing import Any, ClassVar

from ._library import declare, load

MAX_RANK, MAX_IO, MAX_BATCHES, MAX_ROWS = 8, 16, 16, 256


class Opts(c.Structure):
    _fields_ = [
        ("size", c.c_uint32), ("port", c.c_uint32), ("host", c.c_char_p), ("exec", c.c_char_p), ("device", c.c_char_p),
        ("gpu", c.c_uint32), ("threads", c.c_uint32), ("sessions", c.c_uint32), ("sessions_each", c.c_uint32),
        ("slots", c.c_uint32), ("reserved", c.c_uint32), ("idle_ns", c.c_uint64), ("model_memory", c.c_uint64),
        ("grpc", c.c_uint32), ("grpc_port", c.c_uint32), ("metrics_port", c.c_uint32), ("open_health", c.c_uint32),
        ("tls_cert", c.c_char_p), ("tls_key", c.c_char_p), ("token", c.c_char_p), ("token_file", c.c_char_p),
        ("max_body", c.c_uint64), ("models", c.c_char_p), ("model_control", c.c_uint32), ("max_batch", c.c_uint32),
        ("batch_delay_ns", c.c_uint64), ("model", c.c_char_p), ("watch", c.c_uint32), ("resident", c.c_uint32),
        ("access_log", c.c_char_p), ("log_level", c.c_char_p), ("drain_ns", c.c_uint64),
        ("connections_each", c.c_uint32), ("reserved_too", c.c_uint32), ("host_names", c.c_char_p),
        ("trusted_proxies", c.c_char_p),
    ]


class Model(c.Structure):
    _fields_ = [
        ("size", c.c_uint32), ("version", c.c_uint32), ("name", c.c_char_p), ("replace", c.c_uint32),
        ("batches", c.c_uint32), ("batch_sizes", c.c_uint32 * MAX_BATCHES), ("max_delay_ns", c.c_uint64),
    ]


class Tensor(c.Structure):
    _fields_ = [("name", c.c_char_p), ("dtype", c.c_uint32), ("rank", c.c_uint32), ("dims", c.c_uint64 * MAX_RANK)]


class Graph(c.Structure):
    _fields_ = [
        ("rows", c.c_uint32), ("reserved", c.c_uint32), ("graph", c.c_void_p), ("inputs", c.c_void_p * MAX_IO),
        ("outputs", c.c_void_p * MAX_IO),
    ]


class Captured(c.Structure):
    _fields_ = [
        ("inputs", c.c_uint32), ("outputs", c.c_uint32), ("graphs", c.c_uint32), ("reserved", c.c_uint32),
        ("input", c.POINTER(Tensor)), ("output", c.POINTER(Tensor)), ("graph", c.POINTER(Graph)),
    ]


class Batch(c.Structure):
    _fields_ = [
        ("rows", c.c_uint32), ("reserved", c.c_uint32), ("executions", c.c_uint64), ("compute_infer_ns", c.c_uint64),
        ("p99_ns", c.c_uint64),
    ]


class Stats(c.Structure):
    _fields_: ClassVar[Any] = [(name, c.c_uint64) for name in (
        "successes", "failures", "refused", "late", "inferences", "executions", "waiting", "queue_ns", "compute_input_ns",
        "compute_infer_ns", "compute_output_ns")] + [
        ("batches", c.c_uint32), ("reserved", c.c_uint32), ("batch", Batch * MAX_BATCHES),
    ]


class Generator(c.Structure):
    _fields_ = [
        ("size", c.c_uint32), ("lanes", c.c_uint32), ("folder", c.c_char_p), ("name", c.c_char_p),
        ("context", c.c_uint32), ("max_tokens", c.c_uint32), ("threads", c.c_uint32), ("cache_type", c.c_uint32),
        ("cache_bytes", c.c_uint64),
    ]


def library() -> c.CDLL:
    lib = load("gpuwire-serve")
    serving, model = c.c_void_p, c.POINTER(Model)
    declare(lib, "gw_serving_start", c.c_int, c.POINTER(Opts), c.POINTER(serving))
    declare(lib, "gw_serving_port", c.c_uint16, serving)
    declare(lib, "gw_serving_grpc_port", c.c_uint16, serving)
    declare(lib, "gw_serving_on_gpu", c.c_int, serving)
    declare(lib, "gw_serving_add_file", c.c_int, serving, model, c.c_char_p)
    declare(lib, "gw_serving_add_graphs", c.c_int, serving, model, c.POINTER(Captured))
    declare(lib, "gw_serving_add_generator", c.c_int, serving, c.POINTER(Generator))
    declare(lib, "gw_serving_remove", c.c_int, serving, c.c_char_p)
    declare(lib, "gw_serving_query", c.c_int, serving, c.c_char_p, c.POINTER(Stats))
    declare(lib, "gw_serving_pause", c.c_int, serving)
    declare(lib, "gw_serving_resume", c.c_int, serving)
    declare(lib, "gw_serving_wait", c.c_int, serving, c.c_uint64)
    declare(lib, "gw_serving_wake", None, serving)
    declare(lib, "gw_serving_reopen_log", c.c_int, serving)
    declare(lib, "gw_serving_stop", c.c_int, serving)
    return lib
