#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""triton_http.py HOST:PORT: uses a server of tests/server/models through tritonclient.http, as it comes from PyPI."""
import base64
import sys

import numpy as np
import tritonclient.http as http
import tritonclient.utils.shared_memory as shm
from tritonclient.utils import InferenceServerException

server = sys.argv[1]
client = http.InferenceServerClient(server, concurrency=4)
x = np.random.default_rng(7).standard_normal((1, 64)).astype(np.float32)


def tensor(data, binary=True, name="x", shape=None, datatype="FP32"):
    t = http.InferInput(name, shape or list(data.shape), datatype)
    t.set_data_from_numpy(data, binary_data=binary)
    return t


def refused(status, call, *args, **kwargs):
    try:
        call(*args, **kwargs)
    except InferenceServerException as error:
        assert error.status() == str(status), f"{error.status()} instead of {status}: {error.message()}"
        assert error.message()
        return error.message()
    raise AssertionError(f"{call} was answered, {status} was expected")


def same(result, name="y"):
    assert np.array_equal(result.as_numpy(name), x), "the answer is not the request"


# ---- what the server says of itself
assert client.is_server_live() and client.is_server_ready() and client.is_model_ready("echo")
assert client.is_model_ready("echo", "1") and not client.is_model_ready("echo", "2") and not client.is_model_ready("none")
assert client.get_server_metadata()["name"] == "gpuwire"
meta = client.get_model_metadata("echo")
assert meta["inputs"] == [{"name": "x", "datatype": "FP32", "shape": [1, 64]}], meta
config = client.get_model_config("echo")
assert config["input"][0]["data_type"] == "TYPE_FP32" and config["max_batch_size"] == 0, config
assert {m["name"]: m["state"] for m in client.get_model_repository_index()}["echo"] == "READY"
refused(404, client.get_model_metadata, "none")
refused(503, client.load_model, "echo")
refused(503, client.unload_model, "echo")

# ---- inferences: JSON and binary, in both directions
for binary_in in (True, False):
    same(client.infer("echo", [tensor(x, binary_in)]))
    for binary_out in (True, False):
        wanted = [http.InferRequestedOutput("y", binary_data=binary_out)]
        result = client.infer("echo", [tensor(x, binary_in)], outputs=wanted, request_id="7", model_version="1")
        same(result)
        assert result.get_response()["id"] == "7" and result.get_response()["model_version"] == "1"
for packing in ("gzip", "deflate"):
    same(client.infer("echo", [tensor(x)], request_compression_algorithm=packing))
    same(client.infer("echo", [tensor(x, False)], request_compression_algorithm=packing,
                      response_compression_algorithm=packing))
same(client.infer("echo", [tensor(x)], priority=1, timeout=10_000_000))
pending = [client.async_infer("echo", [tensor(x)]) for _ in range(32)]
for one in pending:
    same(one.get_result())

y = np.arange(64, dtype=np.float32).reshape(1, 64)
for binary_a in (True, False):
    for binary_b in (True, False):
        for order in (1, -1):  # inputs are named: any order will do
            result = client.infer("sum", [tensor(x, binary_a, "a"), tensor(y, binary_b, "b")][::order])
            assert np.array_equal(result.as_numpy("y"), x + y)
refused(400, client.infer, "sum", [tensor(x, name="a")])

# ---- what cannot be
refused(404, client.infer, "none", [tensor(x)])
refused(404, client.infer, "echo", [tensor(x)], model_version="9")
refused(400, client.infer, "echo", [tensor(x, name="z")])
refused(400, client.infer, "echo", [tensor(x.reshape(64))])
refused(400, client.infer, "echo", [tensor(x.astype(np.int32), datatype="INT32")])
refused(400, client.infer, "echo", [tensor(x), tensor(x)])
refused(400, client.infer, "echo", [tensor(x)], outputs=[http.InferRequestedOutput("z")])
refused(501, client.infer, "echo", [tensor(x)], outputs=[http.InferRequestedOutput("y", class_count=3)])
refused(501, client.infer, "echo", [tensor(x)], sequence_id=5)
words = http.InferInput("x", [1], "BYTES")
words.set_data_from_numpy(np.array([b"word"], dtype=np.object_))
assert "BYTES" in refused(501, client.infer, "echo", [words])
same(client.infer("echo", [tensor(x)]))  # the connection goes on

# ---- shared memory
key = f"/gw-triton-{server.rpartition(':')[2]}"
region = shm.create_shared_memory_region("both", key, 2 * x.nbytes)
try:
    shm.set_shared_memory_region(region, [x])
    client.register_system_shared_memory("both", key, 2 * x.nbytes)
    assert "already" in refused(400, client.register_system_shared_memory, "both", key, x.nbytes)
    refused(400, client.register_system_shared_memory, "none", key + "-none", x.nbytes)
    refused(400, client.register_system_shared_memory, "long", key, 2 * x.nbytes + 1)
    assert [r["name"] for r in client.get_system_shared_memory_status()] == ["both"]
    given = http.InferInput("x", [1, 64], "FP32")
    given.set_shared_memory("both", x.nbytes)
    wanted = http.InferRequestedOutput("y")
    wanted.set_shared_memory("both", x.nbytes, offset=x.nbytes)
    result = client.infer("echo", [given], outputs=[wanted])
    assert result.get_output("y")["parameters"]["shared_memory_region"] == "both"
    assert np.array_equal(shm.get_contents_as_numpy(region, np.float32, [1, 64], offset=x.nbytes), x)
    given.set_shared_memory("both", x.nbytes, offset=2 * x.nbytes)
    refused(400, client.infer, "echo", [given])
    client.unregister_system_shared_memory("both")
    assert not client.get_system_shared_memory_status()
    given.set_shared_memory("both", x.nbytes)
    refused(400, client.infer, "echo", [given])
finally:
    shm.destroy_shared_memory_region(region)
assert client.get_cuda_shared_memory_status() == []
# A server on CPU threads has no such memory. A handle has 64 bytes.
refused(400, client.register_cuda_shared_memory, "gpu", base64.b64encode(bytes(63)), 0, 64)
refused(400, client.register_cuda_shared_memory, "gpu", b"!" * 88, 0, 64)
refused(501, client.register_cuda_shared_memory, "gpu", base64.b64encode(bytes(64)), 0, 64)
client.unregister_cuda_shared_memory()

# ---- what was counted
stats = client.get_inference_statistics("echo")["model_stats"][0]
assert stats["inference_count"] >= 43 and stats["inference_stats"]["success"]["count"] >= 43, stats
assert {m["name"] for m in client.get_inference_statistics()["model_stats"]} == {"echo", "pair", "sum"}
client.close()
