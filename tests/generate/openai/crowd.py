# SPDX-License-Identifier: Apache-2.0
"""64 streams come, go, are stopped and vanish: crowd.py GPUWIRE FOLDER.

Those that are read to their end have the text that they have alone. At the end nothing is left of the others."""
import http.client
import json
import os
import random
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time

PATIENCE = float(os.environ.get("PATIENCE", "120"))
CROWD, ROUNDS, TOKENS = 64, 5, 40


def body(k):
    return json.dumps({"messages": [{"role": "user", "content": f"Tell me a story about {k} foxes"}], "max_tokens": TOKENS,
                       "seed": k, "temperature": 1, "ignore_eos": True, "stream": True, "n": 1 + k % 3})


def ask(port, k):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
    connection.request("POST", "/v1/chat/completions", body(k), {"Content-Type": "application/json"})
    answer = connection.getresponse()
    assert answer.status == 200, (answer.status, answer.read())
    return connection, answer


def whole(port, k):
    """The text of each choice."""
    connection, answer = ask(port, k)
    texts, done = {}, False
    for line in answer:
        if not line.startswith(b"data: "):
            continue
        done = line == b"data: [DONE]\n"
        event = {"choices": []} if done else json.loads(line[6:])
        assert "error" not in event, event
        for choice in event["choices"]:
            texts[choice["index"]] = texts.get(choice["index"], "") + choice["delta"].get("content", "")
    connection.close()
    assert done and len(texts) == 1 + k % 3, texts
    return texts


def leave(port, k, lines, reset):
    """Reads some lines, and goes: in order, or so that the server gets a reset."""
    connection, answer = ask(port, k)
    for _ in range(lines):
        answer.readline()
    if reset:
        connection.sock and connection.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()
    answer.close()


def never_wait(port, k):
    """Asks, and goes without a look at the answer."""
    text = body(k)
    with socket.create_connection(("127.0.0.1", port)) as s:
        s.sendall(f"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(text)}\r\n\r\n{text}".encode())


def visit(port, k, alone, wrong):
    rnd = random.Random(k)
    try:
        for _ in range(ROUNDS):
            what = rnd.randrange(4)
            if what == 0:
                never_wait(port, k)
            elif what == 1:
                leave(port, k, rnd.randrange(30), rnd.random() < 0.5)
            elif whole(port, k % 8) != alone[k % 8]:
                raise AssertionError(f"request {k % 8} has another text than alone")
    except Exception as error:  # pylint: disable=broad-except  # it is told in the main thread
        wrong.append(error)


def metric(port, name):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
    connection.request("GET", "/metrics")
    text = connection.getresponse().read().decode()
    connection.close()
    return sum(float(line.rsplit(" ", 1)[1]) for line in text.splitlines() if line.startswith(name + "{"))


def crowd(port):
    alone = [whole(port, k) for k in range(8)]
    wrong = []
    visitors = [threading.Thread(target=visit, args=(port, k, alone, wrong)) for k in range(CROWD)]
    for v in visitors:
        v.start()
    for v in visitors:
        v.join(PATIENCE)
        assert not v.is_alive(), "a stream has no end"
    assert not wrong, wrong[:3]
    end = time.monotonic() + PATIENCE
    left = ["vllm:num_requests_running", "vllm:num_requests_waiting"]
    while any(metric(port, name) for name in left):
        assert time.monotonic() < end, {name: metric(port, name) for name in left}
        time.sleep(0.05)
    assert all(whole(port, k) == alone[k] for k in range(8))


def main():
    with tempfile.TemporaryDirectory() as folder:
        env = {**os.environ, "XDG_RUNTIME_DIR": folder, "GPUWIRE_NIC": "addr=127.0.0.1"}
        server = subprocess.Popen([sys.argv[1], "generate", "--exec", "cpu", "--port", "0", "--connections-per-client", "200",
                                   sys.argv[2]], stdout=subprocess.PIPE, text=True, env=env)
        try:
            port = int(next(line.split("HTTP on port ")[1] for line in server.stdout if "HTTP on port " in line))
            crowd(port)
        finally:
            server.terminate()
            code = server.wait(PATIENCE)
    assert code == 0, code
    print(f"{CROWD} streams come and go, and nothing is left of them")


main()
