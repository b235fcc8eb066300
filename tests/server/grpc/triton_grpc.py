#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""triton_grpc.py HOST:PORT [--ca FILE] [--token TOKEN] [--control]: uses a server of tests/server/models through tritonclient.grpc, as it
comes from PyPI."""
import argparse
import base64
import queue
import sys

import numpy as np
import tritonclient.grpc as grpc
import tritonclient.utils.shared_memory as shm
from tritonclient.utils import InferenceServerException

parser = argparse.ArgumentParser()
parser.add_argument("server")
parser.add_argument("--ca")
parser.add_argument("--token")
parser.add_argument("--control", action="store_true", help="models may be loaded and unloaded")
args = parser.parse_args()
server = args.server
headers = {"authorization": f"Bearer {args.token}"} if args.token else None
client = grpc.InferenceServerClient(server, ssl=bool(args.ca), root_certificates=args.ca)
x = np.random.default_rng(7).standard_normal((1, 64)).astype(np.float32)


def tensor(data, name="x", shape=None, datatype="FP32"):
    t = grpc.InferInput(name, shape or list(data.shape), datatype)
    t.set_data_from_numpy(data)
    return t


def infer(model, inputs, **kwargs):
    return client.infer(model, inputs, headers=headers, **kwargs)


def refused(status, call, *args, **kwargs):
    try:
        call(*args, **kwargs)
    except InferenceServerException as error:
        assert error.status() == f"StatusCode.{status}", f"{error.status()} instead of {status}: {error.message()}"
        assert error.message()
        return error.message()
    raise AssertionError(f"{call} was answered, {status} was expected")


def same(result, name="y"):
    assert np.array_equal(result.as_numpy(name), x), "the answer is not the request"


# ---- without the token
if args.token:
    refused("UNAUTHENTICATED", client.infer, "echo", [tensor(x)])
    refused("UNAUTHENTICATED", client.infer, "echo", [tensor(x)], headers={"authorization": "Bearer " + args.token[:-1] + "?"})
    refused("UNAUTHENTICATED", client.is_server_live)

# ---- what the server says of itself
assert client.is_server_live(headers=headers) and client.is_server_ready(headers=headers)
assert client.is_model_ready("echo", headers=headers) and client.is_model_ready("echo", "1", headers=headers)
assert not client.is_model_ready("echo", "2", headers=headers) and not client.is_model_ready("none", headers=headers)
assert client.get_server_metadata(headers=headers).name == "gpuwire"
meta = client.get_model_metadata("echo", headers=headers, as_json=True)
assert meta["inputs"] == [{"name": "x", "datatype": "FP32", "shape": ["1", "64"]}], meta
config = client.get_model_config("echo", headers=headers).config
assert config.input[0].name == "x" and list(config.output[0].dims) == [1, 64] and config.max_batch_size == 0, config
index = client.get_model_repository_index(headers=headers).models
assert {m.name: m.state for m in index} == {"echo": "READY", "pair": "READY", "sum": "READY"}
refused("NOT_FOUND", client.get_model_metadata, "none", headers=headers)
refused("NOT_FOUND", client.get_model_config, "echo", "9", headers=headers)
if not args.control:
    refused("UNAVAILABLE", client.load_model, "echo", headers=headers)
    refused("UNAVAILABLE", client.unload_model, "echo", headers=headers)
refused("UNIMPLEMENTED", client.get_trace_settings, headers=headers)
refused("UNIMPLEMENTED", client.get_log_settings, headers=headers)

# ---- inferences
result = infer("echo", [tensor(x)], request_id="an id")
same(result)
assert result.get_response().id == "an id" and result.get_response().model_version == "1"
same(infer("echo", [tensor(x)], outputs=[grpc.InferRequestedOutput("y")], priority=1, timeout=10_000_000))
same(infer("echo", [tensor(x)], client_timeout=20))
total = infer("sum", [tensor(x, name="b"), tensor(x, name="a")]).as_numpy("y")
assert np.array_equal(total, x + x)
answers = queue.Queue()
for _ in range(64):
    client.async_infer("echo", [tensor(x)], lambda result, error: answers.put((result, error)), headers=headers)
for _ in range(64):
    result, error = answers.get(timeout=60)
    assert error is None, error
    same(result)

# ---- a stream: answers in order, the wrong requests among them
client.start_stream(lambda result, error: answers.put((result, error)), headers=headers)
for i in range(50):
    client.async_stream_infer("none" if i == 20 else "echo", [tensor(x)], request_id=str(i), enable_empty_final_response=True)
for i in range(50):
    result, error = answers.get(timeout=60)
    if i == 20:
        assert "none" in error.message(), error
        continue
    assert error is None, error
    same(result)
    assert result.get_response().id == str(i), (result.get_response().id, i)
    assert result.get_response().parameters["triton_final_response"].bool_param
client.stop_stream()

# ---- what cannot be
refused("NOT_FOUND", infer, "none", [tensor(x)])
refused("NOT_FOUND", infer, "echo", [tensor(x)], model_version="9")
refused("INVALID_ARGUMENT", infer, "echo", [tensor(x, name="z")])
refused("INVALID_ARGUMENT", infer, "echo", [tensor(x.reshape(64))])
refused("INVALID_ARGUMENT", infer, "echo", [tensor(x.astype(np.int32), datatype="INT32")])
refused("INVALID_ARGUMENT", infer, "echo", [tensor(x), tensor(x)])
refused("INVALID_ARGUMENT", infer, "echo", [tensor(x)], outputs=[grpc.InferRequestedOutput("z")])
refused("UNIMPLEMENTED", infer, "echo", [tensor(x)], outputs=[grpc.InferRequestedOutput("y", class_count=3)])
refused("UNIMPLEMENTED", infer, "echo", [tensor(x)], sequence_id=5)
refused("UNIMPLEMENTED", infer, "echo", [tensor(x)], compression_algorithm="gzip")
words = grpc.InferInput("x", [1], "BYTES")
words.set_data_from_numpy(np.array([b"word"], dtype=np.object_))
assert "BYTES" in refused("UNIMPLEMENTED", infer, "echo", [words])
same(infer("echo", [tensor(x)]))  # the connection goes on

# ---- shared memory
key = f"/gw-triton-{server.rpartition(':')[2]}"
region = shm.create_shared_memory_region("both", key, 2 * x.nbytes)
try:
    shm.set_shared_memory_region(region, [x])
    client.register_system_shared_memory("both", key, 2 * x.nbytes, headers=headers)
    refused("ALREADY_EXISTS", client.register_system_shared_memory, "both", key, x.nbytes, headers=headers)
    refused("INVALID_ARGUMENT", client.register_system_shared_memory, "none", key + "-none", x.nbytes, headers=headers)
    refused("INVALID_ARGUMENT", client.register_system_shared_memory, "long", key, 2 * x.nbytes + 1, headers=headers)
    assert list(client.get_system_shared_memory_status(headers=headers).regions) == ["both"]
    given = grpc.InferInput("x", [1, 64], "FP32")
    given.set_shared_memory("both", x.nbytes)
    wanted = grpc.InferRequestedOutput("y")
    wanted.set_shared_memory("both", x.nbytes, offset=x.nbytes)
    result = infer("echo", [given], outputs=[wanted])
    assert result.get_output("y").parameters["shared_memory_region"].string_param == "both"
    assert np.array_equal(shm.get_contents_as_numpy(region, np.float32, [1, 64], offset=x.nbytes), x)
    given.set_shared_memory("both", x.nbytes, offset=2 * x.nbytes)
    refused("INVALID_ARGUMENT", infer, "echo", [given])
    client.unregister_system_shared_memory("both", headers=headers)
    assert not client.get_system_shared_memory_status(headers=headers).regions
finally:
    shm.destroy_shared_memory_region(region)
assert not client.get_cuda_shared_memory_status(headers=headers).regions
refused("INVALID_ARGUMENT", client.register_cuda_shared_memory, "gpu", base64.b64encode(bytes(63)), 0, 64, headers=headers)
refused("UNIMPLEMENTED", client.register_cuda_shared_memory, "gpu", base64.b64encode(bytes(64)), 0, 64, headers=headers)
client.unregister_cuda_shared_memory(headers=headers)

# ---- what was counted
stats = client.get_inference_statistics("echo", headers=headers).model_stats[0]
assert stats.inference_count >= 115 and stats.inference_stats.success.count >= 115, stats
assert {m.name for m in client.get_inference_statistics(headers=headers).model_stats} == {"echo", "pair", "sum"}
client.close()

# ---- models that come and go, while another one is used
if args.control:
    client = grpc.InferenceServerClient(server)
    answers = queue.Queue()
    for i in range(40):
        client.async_infer("echo", [tensor(x)], lambda result, error: answers.put((result, error)))
        if i % 8 == 0:
            client.unload_model("sum")
            assert not client.is_model_ready("sum")
            client.load_model("sum")
            assert client.is_model_ready("sum")
    for _ in range(40):
        result, error = answers.get(timeout=60)
        assert not error, error
        same(result)
    client.load_model("echo")
    same(infer("echo", [tensor(x)]))
    refused("NOT_FOUND", client.unload_model, "none")
    refused("UNIMPLEMENTED", client.load_model, "sum", config="{}")
    client.close()
