#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""triton_door.py OURS THEIRS ROUNDS REQUESTS: what triton.sh measures. OURS and THEIRS are HTTP and gRPC ports, as 8000:8001.
triton_door.py --write-models OURS THEIRS: the repositories, identities of 4 KB and 600 KB."""
import json
import os
import pathlib
import statistics
import sys
import time

import http_door

SHAPES = {"identity4k": [1, 1024], "identity600k": [1, 3, 224, 224]}
# Triton's wheel has the backend for Python alone.
CONFIG = """backend: "python"
max_batch_size: 0
input [ {{ name: "x" data_type: TYPE_FP32 dims: {0} }} ]
output [ {{ name: "y" data_type: TYPE_FP32 dims: {0} }} ]
instance_group [ {{ kind: KIND_CPU count: 1 }} ]
"""
MODEL = """import triton_python_backend_utils as pb


class TritonPythonModel:
    def execute(self, requests):
        return [pb.InferenceResponse([pb.Tensor("y", pb.get_input_tensor_by_name(r, "x").as_numpy())]) for r in requests]
"""


def write_models(ours, theirs):
    for name, shape in SHAPES.items():
        http_door.write_model(f"{ours}/{name}/1", shape)
        folder = pathlib.Path(theirs) / name / "1"
        folder.mkdir(parents=True)
        (folder / "model.py").write_text(MODEL)
        (folder.parent / "config.pbtxt").write_text(CONFIG.format(shape))


def http(port, name, tensor):
    head = json.dumps({"inputs": [{"name": "x", "shape": SHAPES[name], "datatype": "FP32",
                                   "parameters": {"binary_data_size": len(tensor)}}],
                       "parameters": {"binary_data_output": True}}).encode()
    c = http_door.Connection(port, f"/v2/models/{name}/infer", [f"Inference-Header-Content-Length: {len(head)}"],
                             head + tensor, len(tensor))
    return lambda: c.call()


def grpc(port, name, tensor):
    import numpy
    import tritonclient.grpc

    client = tritonclient.grpc.InferenceServerClient(f"127.0.0.1:{port}")
    x = tritonclient.grpc.InferInput("x", SHAPES[name], "FP32")
    x.set_data_from_numpy(numpy.frombuffer(tensor, dtype=numpy.float32).reshape(SHAPES[name]))
    return lambda: client.infer(name, [x]).get_response().raw_output_contents[0]


def median_of(call, tensor, requests):
    times = []
    for i in range(requests + 20):  # the first ones warm up
        start = time.perf_counter_ns()
        answer = call()
        times.append(time.perf_counter_ns() - start)
        if answer != tensor:
            raise SystemExit("triton_door: something else was answered")
    return statistics.median(times[20:]) / 1000


def main(ours, theirs, rounds, requests):
    print(f"one connection, medians of {rounds} rounds of {requests} requests, in us")
    print(f"{'door':6}{'model':14}{'gpuwire':>10}{'Triton':>10}{'ratio':>8}")
    for door, make in ((0, http), (1, grpc)):
        for name, shape in SHAPES.items():
            tensor = os.urandom(4 * shape[1] if len(shape) == 2 else http_door.BYTES)
            calls = [make(int(ports.split(":")[door]), name, tensor) for ports in (ours, theirs)]
            seen = [[median_of(call, tensor, requests) for call in calls] for _ in range(rounds)]
            a, b = (statistics.median(r[i] for r in seen) for i in (0, 1))
            print(f"{('HTTP', 'gRPC')[door]:6}{name:14}{a:10.0f}{b:10.0f}{a / b:8.2f}")


if sys.argv[1] == "--write-models":
    write_models(*sys.argv[2:])
else:
    main(*sys.argv[1:3], *map(int, sys.argv[3:]))
