#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A generator tells a load balancer of the pages that its streams use, and that it leaves. The balancer is a stand-in."""
import http.server
import json
import os
import re
import signal
import subprocess
import sys
import threading
import urllib.request

PATIENCE = float(os.environ.get("PATIENCE", 60))
beats, news = [], threading.Condition()


class Balancer(http.server.BaseHTTPRequestHandler):
    def do_PUT(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with news:
            beats.append((self.path, body))
            news.notify_all()
        self.answer()

    def answer(self):
        self.send_response(200)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"{}")

    def do_DELETE(self):
        self.answer()

    def log_message(self, *_):
        pass


def until(what, true):
    with news:
        if not news.wait_for(lambda: beats and true(beats[-1][1]), PATIENCE):
            sys.exit(f"FAILED: {what}: the last beat was {beats[-1:]}")


def ask(port, enough):
    """One answer after the other: a single one may be over between two beats."""
    body = json.dumps({"prompt": "Once upon a time", "max_tokens": 1000, "ignore_eos": True}).encode()
    while not enough.is_set():
        urllib.request.urlopen(urllib.request.Request(f"http://127.0.0.1:{port}/v1/completions", body), timeout=PATIENCE).read()


def main():
    model = sys.argv[1]
    balancer = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Balancer)
    threading.Thread(target=balancer.serve_forever, daemon=True).start()
    server = subprocess.Popen([os.environ["GPUWIRE"], "generate", model, "--exec", "cpu", "--port", "0", "--balancer",
                               f"http://127.0.0.1:{balancer.server_port}/chat"], stdout=subprocess.PIPE, text=True)
    try:
        port = next(int(m.group(1)) for m in (re.search(r"HTTP on port (\d+)", line) for line in server.stdout) if m)
        until("an idle generator", lambda b: b["port"] == port and b["queue"] == 0)
        busy = threading.Event()
        threads = [threading.Thread(target=ask, args=(port, busy)) for _ in range(4)]
        for thread in threads:
            thread.start()
        until("streams", lambda b: b["queue"] > 0)
        busy.set()
        for thread in threads:
            thread.join()
        until("the streams have gone", lambda b: b["queue"] == 0)
        server.send_signal(signal.SIGTERM)
        until("the end", lambda b: b["leaving"])
        if server.wait(PATIENCE):
            sys.exit(f"FAILED: the server ended with {server.returncode}")
    finally:
        server.kill()
        server.wait()
    print(f"{len(beats)} beats: idle, busy, idle again, leaving")


main()
