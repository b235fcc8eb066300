#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""http_load.py HOST:PORT FILE [MODEL]: asks for the model, echo or one like it, until FILE is there. Each request must be answered, and rightly."""
import http.client
import json
import os
import sys
import threading
import time
import urllib.parse

server, stop = sys.argv[1:3]
model = urllib.parse.quote((sys.argv[3:] or ["echo"])[0])
versions, count, wrong = set(), [0], []
lock = threading.Lock()


def ask(seed):
    connection = http.client.HTTPConnection(server, timeout=300)
    number = seed
    while not os.path.exists(stop) and not wrong:
        number += 1
        x = [(number + i) % 1000 for i in range(64)]
        body = json.dumps({"inputs": [{"name": "x", "shape": [1, 64], "datatype": "FP32", "data": x}]})
        connection.request("POST", f"/v2/models/{model}/infer", body)
        answer = connection.getresponse()
        data = answer.read()
        if answer.status != 200:
            wrong.append(f"{answer.status} {data[:300]}")
            return
        y = json.loads(data)
        with lock:
            count[0] += 1
            versions.add(y["model_version"])
        if y["outputs"][0]["data"] != x:
            wrong.append("a wrong answer")
        time.sleep(0.005)  # the server and the test need the processors, too


threads = [threading.Thread(target=ask, args=(1000 * i,)) for i in range(3)]
for t in threads:
    t.start()
for t in threads:
    t.join()
print(json.dumps({"answered": count[0], "versions": len(versions)}))
if wrong:
    sys.exit("\n".join(wrong))
