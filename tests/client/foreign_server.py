#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A server of the Open Inference Protocol that is not ours, for tests of the client. It prints its port.

    foreign_server.py [--cert FILE --key FILE]

Its models:
  mirror   "x" FP32 [-1, 8] -> "y" the same; "n" INT64 [-1, 3] -> "m" the same; up to 16 samples
  text     the same, but its answers are JSON numbers, as a server without binary tensors gives them
  words    "ids" INT64 [-1, -1] -> "sum" INT64 [-1, -1], ids + 1: a dimension that the client must give
  odd      "b" BOOL [3] -> "b" BOOL [3] and "d" FP64 [2]: a tensor that does not begin at a multiple of anything
  late     answers 503 "Request timeout expired"     busy   429     gone   closes the connection
  closing  503     broken   500     lies   a shape that it has not promised     long   more than its shape says
  none     an empty answer     closes   like mirror, but closes the connection after each answer
With a token "secret" in the environment variable TOKEN it wants it.
"""
import http.server
import json
import os
import re
import ssl
import struct
import sys
import threading

SIZE = {"FP32": "f", "INT64": "q", "BOOL": "?", "FP64": "d"}
MIRROR = ([("x", "FP32", [-1, 8]), ("n", "INT64", [-1, 3])], [("y", "FP32", [-1, 8]), ("m", "INT64", [-1, 3])])
MODELS = {name: MIRROR for name in "mirror text late busy gone closing broken lies long none closes".split()}
MODELS["words"] = ([("ids", "INT64", [-1, -1])], [("sum", "INT64", [-1, -1])])
MODELS["odd"] = ([("b", "BOOL", [3])], [("b", "BOOL", [3]), ("d", "FP64", [2])])
REFUSED = {"late": (503, "Request timeout expired"), "busy": (429, "too much to do"),
           "closing": (503, "the model is not ready"), "broken": (500, "it fell \x1b[31m over")}


def describe(tensors):
    return [{"name": n, "datatype": t, "shape": s} for n, t, s in tensors]


class Refuse(Exception):
    pass


def check(condition, what):
    if not condition:
        raise Refuse(what)


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def say(self, status, body, head=None):
        self.send_response(status)
        if head is not None:
            self.send_header("Inference-Header-Content-Length", str(head))
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def say_json(self, status, value):
        self.say(status, json.dumps(value).encode())

    def allowed(self):
        if "TOKEN" not in os.environ or self.headers.get("Authorization") == "Bearer " + os.environ["TOKEN"]:
            return True
        self.say_json(401, {"error": "a token is missing"})
        return False

    def do_GET(self):
        if not self.allowed():
            return
        m = re.fullmatch(r"/prefix/v2/models/(\w+)(?:/versions/3)?(/config|/stats)?", self.path)
        if not m or m[1] not in MODELS:
            self.say_json(404, {"error": "no such thing"})
        elif m[2] == "/config":
            self.say_json(200, {"name": m[1], "max_batch_size": 0 if m[1] == "odd" else 16})
        elif m[2] == "/stats":
            self.say_json(200, {"model_stats": []})
        else:
            inputs, outputs = MODELS[m[1]]
            self.say_json(200, {"name": m[1], "versions": ["3"], "inputs": describe(inputs), "outputs": describe(outputs)})

    def read_inputs(self, inputs):
        length = int(self.headers["Content-Length"])
        body, head = self.rfile.read(length), int(self.headers["Inference-Header-Content-Length"])
        request, at, values = json.loads(body[:head]), head, {}
        check(request["parameters"]["binary_data_output"] is True, "binary_data_output")
        check([i["name"] for i in request["inputs"]] == [n for n, _, _ in inputs], "names")
        for given, (name, datatype, shape) in zip(request["inputs"], inputs):
            check(given["datatype"] == datatype, "datatype")
            check(len(given["shape"]) == len(shape), "rank")
            count = 1
            for have, want in zip(given["shape"], shape):
                check(want in (-1, have), "shape")
                count *= have
            size = given["parameters"]["binary_data_size"]
            check(size == count * struct.calcsize(SIZE[datatype]), "binary_data_size")
            values[name] = (given["shape"], struct.unpack(f"<{count}{SIZE[datatype]}", body[at:at + size]))
            at += size
        check(at == length, "the body is longer than its tensors")
        return request, values

    def answer(self, outputs, text):
        entries, raw = [], b""
        for name, datatype, shape, values in outputs:
            entry = {"name": name, "datatype": datatype, "shape": shape}
            if text:
                width = shape[-1]
                entry["data"] = [list(values[i:i + width]) for i in range(0, len(values), width)]
            else:
                data = struct.pack(f"<{len(values)}{SIZE[datatype]}", *values)
                entry["parameters"] = {"binary_data_size": len(data)}
                raw += data
            entries.append(entry)
        head = json.dumps({"model_name": "m", "outputs": entries}).encode()
        self.say(200, head + raw, None if text else len(head))

    def infer(self, model):
        request, v = self.read_inputs(MODELS[model][0])
        if model in REFUSED:
            status, why = REFUSED[model]
            self.say_json(status, {"error": why})
        elif model == "gone":
            self.close_connection = True
        elif model == "none":
            self.say(200, b"")
        elif model == "words":
            self.answer([("sum", "INT64", v["ids"][0], [i + 1 for i in v["ids"][1]])], False)
        elif model == "odd":
            self.answer([("b", "BOOL", [3], v["b"][1]), ("d", "FP64", [2], [0.25, -7.5])], False)
        else:
            x, n = v["x"], v["n"]
            if "priority" in request["parameters"]: # so that a test sees what arrived
                n = (n[0], [request["parameters"]["priority"], request["parameters"]["timeout"], n[0][0]] * n[0][0])
            if model == "lies":
                x = ([x[0][0], 4], x[1][:x[0][0] * 4])
            if model == "long":
                x = (x[0], x[1] + (1.0,))
            self.close_connection |= model == "closes"
            # Not in the model's order: the client goes by names.
            self.answer([("m", "INT64", *n), ("y", "FP32", *x)], model == "text")

    def do_POST(self):
        m = re.fullmatch(r"/prefix/v2/models/(\w+)(?:/versions/3)?/infer", self.path)
        if not self.allowed():
            return
        try:
            check(m and m[1] in MODELS, "no such model")
            self.infer(m[1])
        except Refuse as why:
            self.say_json(400, {"error": str(why)})


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    # Python's own backlog is five. A connection beyond that seems to be there, and the server sees it when the client's
    # kernel has repeated its first bytes, or never: a minute passes.
    request_queue_size = 128


def main():
    server = Server(("127.0.0.1", 0), Handler)
    if "--cert" in sys.argv:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(sys.argv[sys.argv.index("--cert") + 1], sys.argv[sys.argv.index("--key") + 1])
        server.socket = context.wrap_socket(server.socket, server_side=True)
    print(server.server_address[1], flush=True)
    # It ends with the test that holds its standard input.
    threading.Thread(target=server.serve_forever, daemon=True).start()
    sys.stdin.read()


main()
