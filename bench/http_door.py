#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""http_door.py OUR_PORT NGINX_PORT ROUNDS REQUESTS: what http_door.sh measures. Every answer is compared.
http_door.py --write-model DIR: the model it uses, an identity of 1x3x224x224 floats."""
import json
import os
import pathlib
import socket
import statistics
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "tests/security"))
SHAPE = [1, 3, 224, 224]
BYTES = 4 * 3 * 224 * 224


def write_model(folder, shape=SHAPE):
    sys.argv[1:] = ["slots"]  # the writer is a program; what it would print is not wanted
    sys.stdout = open(os.devnull, "w")
    import onnx_bytes

    folder = pathlib.Path(folder)
    folder.mkdir(parents=True)
    (folder / "model.onnx").write_bytes(onnx_bytes.model(onnx_bytes.node("Identity", ["x"], "y"), b"", shape, shape))


class Connection:
    def __init__(self, port, path, headers, body, tensor=BYTES):
        self.bytes = tensor
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        lines = [f"POST {path} HTTP/1.1", "Host: bench", f"Content-Length: {len(body)}"] + headers
        self.request = "\r\n".join(lines).encode() + b"\r\n\r\n" + body
        self.buffer = memoryview(bytearray(4 << 20))
        self.times = []

    def call(self):
        """One request; returns the answer's last bytes, as many as the request's tensor has."""
        start = time.perf_counter_ns()
        self.socket.sendall(self.request)
        have = end = 0
        while not end or have < end:
            n = self.socket.recv_into(self.buffer[have:])
            if not n:
                raise SystemExit("http_door: the server has closed the connection")
            have += n
            if not end:
                head = bytes(self.buffer[: min(have, 4096)]).partition(b"\r\n\r\n")
                if head[1]:
                    if b" 200 " not in head[0].split(b"\r\n")[0]:
                        raise SystemExit(f"http_door: {bytes(self.buffer[:have])[:500]!r}")
                    length = [l for l in head[0].lower().split(b"\r\n") if l.startswith(b"content-length:")][0]
                    end = len(head[0]) + 4 + int(length.split(b":")[1])
        self.times.append(time.perf_counter_ns() - start)
        return self.buffer[end - self.bytes : end]


def percentile(times, part):
    return sorted(times)[min(len(times) - 1, int(len(times) * part))] / 1000


def main(ours, nginx, rounds, requests):
    tensor = os.urandom(BYTES)
    head = json.dumps({"inputs": [{"name": "x", "shape": SHAPE, "datatype": "FP32", "parameters": {"binary_data_size": BYTES}}],
                       "parameters": {"binary_data_output": True}}).encode()
    both = {
        "gpuwire": Connection(ours, "/v2/models/identity600/infer", [f"Inference-Header-Content-Length: {len(head)}"], head + tensor),
        "nginx": Connection(nginx, "/echo", [], tensor),
    }
    marks = {"p10": 0.1, "p50": 0.5, "p99": 0.99}
    seen = {name: {mark: [] for mark in marks} for name in both}
    for _ in range(rounds):
        for name, connection in both.items():
            for i in range(requests + 20):
                if i == 20:  # the first ones warm up
                    connection.times.clear()
                if connection.call() != tensor:
                    raise SystemExit(f"http_door: {name} answered something else")
            for mark, part in marks.items():
                seen[name][mark].append(percentile(connection.times, part))
    print(f"{BYTES} bytes there and back, one connection, medians of {rounds} rounds of {requests} requests, in us")
    print(f"{'':8}" + "".join(f"{mark:>10}" for mark in marks))
    median = {name: [statistics.median(seen[name][mark]) for mark in marks] for name in both}
    for name in both:
        print(f"{name:8}" + "".join(f"{us:10.0f}" for us in median[name]))
    print(f"{'ratio':8}" + "".join(f"{a / b:10.2f}" for a, b in zip(median["gpuwire"], median["nginx"])))


if __name__ == "__main__":
    if sys.argv[1] == "--write-model":
        write_model(sys.argv[2])
    else:
        main(*map(int, sys.argv[1:]))
