#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""drain_load.py HTTP [GRPC]: requests by the doors until the server has gone. Prints what became of them, as JSON.

A connection that ends without an answer is no error here: the server may never have read the request. What it has
answered shows in its own log, and the test compares the numbers."""
import http.client
import json
import sys
import threading

tensor = bytes(4 * 224 * 224)
header = json.dumps({"inputs": [{"name": "input", "shape": [1, 1, 224, 224], "datatype": "FP32",
                                 "parameters": {"binary_data_size": len(tensor)}}],
                     "outputs": [{"name": "output", "parameters": {"binary_data": True}}]}).encode()
count = {door: {"answered": 0, "refused": 0} for door in ("http", "grpc")}
lock = threading.Lock()
wrong = []


def note(door, what):
    with lock:
        count[door][what] += 1


def over_http(server):
    while True:
        connection = http.client.HTTPConnection(server, timeout=300)
        try:
            connection.request("POST", "/v2/models/superresolution/infer", header + tensor,
                               {"Inference-Header-Content-Length": str(len(header))})
        except OSError:
            return  # it listens no more, or has closed the connection before the request was whole
        try:
            answer = connection.getresponse()
            data = answer.read()
        except (OSError, http.client.HTTPException):
            return
        if answer.status == 200:
            if len(data) < 4 * 672 * 672:
                wrong.append(f"an answer of {len(data)} bytes")
            note("http", "answered")
        elif answer.status == 503:
            note("http", "refused")
        else:
            wrong.append(f"HTTP: {answer.status} {data[:200]}")
            return


def over_grpc(server):
    import numpy
    import tritonclient.grpc as grpc
    from tritonclient.utils import InferenceServerException

    client = grpc.InferenceServerClient(server)
    x = grpc.InferInput("input", [1, 1, 224, 224], "FP32")
    x.set_data_from_numpy(numpy.zeros((1, 1, 224, 224), numpy.float32))
    while True:
        try:
            y = client.infer("superresolution", [x]).as_numpy("output")
            if y.shape != (1, 1, 672, 672):
                wrong.append(f"a shape of {y.shape}")
            note("grpc", "answered")
        except InferenceServerException as e:
            if "CANCELLED" in str(e.status()):
                return  # its message was still on the way when the server ended
            if "UNAVAILABLE" not in str(e.status()):
                wrong.append(f"gRPC: {e}")
                return
            if "about to end" not in e.message():
                return  # the connection has ended
            note("grpc", "refused")


threads = [threading.Thread(target=over_http, args=(sys.argv[1],)) for _ in range(3)]
if len(sys.argv) > 2 and sys.argv[2]:
    try:
        import tritonclient.grpc  # noqa: F401

        threads += [threading.Thread(target=over_grpc, args=(sys.argv[2],)) for _ in range(2)]
    except ImportError:
        pass
for t in threads:
    t.start()
for t in threads:
    t.join()
print(json.dumps(count))
if wrong:
    sys.exit("\n".join(wrong))
