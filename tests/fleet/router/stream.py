#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Requests without a pause: stream.py HOST:PORT CLIENTS SECONDS MODEL... One that the fleet refuses for now (503 with
Retry-After) is sent again. Each must be answered within 10 seconds."""
import http.client
import sys
import threading
import time

SERVER, CLIENTS, END, MODELS = sys.argv[1], int(sys.argv[2]), time.monotonic() + float(sys.argv[3]), sys.argv[4:]
BODY = bytes(602112)
answered, refused, wrong = [], [], []


def run(number):
    server = http.client.HTTPConnection(SERVER, timeout=60)
    while time.monotonic() < END:
        began = time.monotonic()
        while True:
            server.request("POST", f"/v2/models/{MODELS[number % len(MODELS)]}/infer", BODY, {"Inference-Header-Content-Length": "0"})
            answer = server.getresponse()
            text = answer.read()
            if answer.status != 503 or not answer.getheader("Retry-After") or time.monotonic() - began > 10:
                break
            refused.append(text)
            time.sleep(0.05)
        if answer.status == 200 and len(text) > 4000:
            answered.append(time.monotonic() - began)
        else:
            wrong.append(f"{answer.status} {text[:160]}")


threads = [threading.Thread(target=run, args=(i,)) for i in range(CLIENTS)]
for t in threads:
    t.start()
for t in threads:
    t.join()
print(f"{len(answered)} answered, the slowest in {max(answered, default=0) * 1000:.0f} ms; {len(refused)} refusals; {len(wrong)} not: {wrong[:2]}")
sys.exit(bool(wrong) or not answered)
