#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""slow_request.py HOST:PORT FILE: an inference of superresolution whose last byte is sent when FILE is there."""
import http.client
import json
import os
import sys
import time

server, go = sys.argv[1:]
tensor = bytes(4 * 224 * 224)
header = json.dumps({"inputs": [{"name": "input", "shape": [1, 1, 224, 224], "datatype": "FP32",
                                 "parameters": {"binary_data_size": len(tensor)}}],
                     "outputs": [{"name": "output", "parameters": {"binary_data": True}}]}).encode()
body = header + tensor
connection = http.client.HTTPConnection(server, timeout=120)
connection.putrequest("POST", "/v2/models/superresolution/infer")
connection.putheader("Content-Length", str(len(body)))
connection.putheader("Inference-Header-Content-Length", str(len(header)))
connection.endheaders()
connection.send(body[:-1])
while not os.path.exists(go):
    time.sleep(0.05)
connection.send(body[-1:])
answer = connection.getresponse()
data = answer.read()
assert answer.status == 200 and len(data) > 4 * 672 * 672, (answer.status, data[:300])
