#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The page of gpuwire app faceverify serve: its numbers are those of the requests, names are harmless, and no stranger's page may ask."""
import contextlib
import http.client
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time

import rig
import reference

HOSTILE = b"<img/src=x/onerror=alert(1)>\"\\&"
NO_UTF8 = b"a\xff\xc0\x80b"


@contextlib.contextmanager
def serving(memcached, *more):
    """A server with a page: the process, the port of the server, and the page's."""
    p = subprocess.Popen([rig.GPUWIRE, "app", "faceverify", "serve", "--exec", "cpu", "-m", f"127.0.0.1:{memcached}", "-l", "127.0.0.1:0",
                          "--page", "0", *more], stdout=subprocess.PIPE, text=True)
    try:
        port = int(re.search(r"port (\d+)", p.stdout.readline())[1])
        page = int(re.fullmatch(r"page: http://127\.0\.0\.1:(\d+)/\n", p.stdout.readline())[1])
        yield p, port, page
    finally:
        if p.poll() is None:
            p.kill()
        p.wait()


def ask(port, name, pixels):
    with socket.create_connection(("127.0.0.1", port), 20) as s:
        s.sendall(struct.pack("<IBBHQ", reference.REQUEST, 1, len(name), 0, 7) + name.ljust((len(name) + 15) // 16 * 16, b"\0") + pixels)
        return s.makefile("rb").read(64)[5]


def get(page, path, method="GET", source=None, **headers):
    c = http.client.HTTPConnection("127.0.0.1", page, timeout=20, source_address=source)
    c.request(method, path, headers={k.replace("_", "-"): v for k, v in headers.items()})
    r = c.getresponse()
    return r.status, r.read(), r


def until(page, done, source=None):
    end = time.monotonic() + rig.PATIENCE
    while True:
        state = json.loads(get(page, "/state", source=source)[1])
        if done(state) or time.monotonic() > end:
            return state
        time.sleep(0.1)


def numbers(port, page):
    pixels = bytes(i * 7 % 251 for i in range(reference.PIXELS))
    verdicts = [ask(port, name, pixels) for name in (b"person-0001", HOSTILE, NO_UTF8, HOSTILE)]
    rig.check("verdicts", verdicts[0] == reference.NO_MATCH and verdicts[1:] == [reference.UNKNOWN] * 3, verdicts)
    s = until(page, lambda s: s["requests"] >= 4 and len(s["last"]) >= 4)
    rig.check("counts", s["requests"] == 4 and s["verdicts"] == [0, 1, 3, 0, 0, 0], s)
    names = [r["name"] for r in s["last"]]
    rig.check("the newest first; what is no UTF-8 is a question mark", names == [HOSTILE.decode(), "a???b", HOSTILE.decode(), "person-0001"], names)
    first = s["last"][3]
    d = reference.distance(reference.fetch(rig_port, b"person-0001"), reference.histogram(pixels))
    rig.check("a distance", abs(first["distance"] - d) < 1e-5, (first, d))
    rig.check("times", all(v >= 0 for v in first["us"]) and first["us"][1] > 0 and s["spans"][1]["median"] > 0 and s["spans"][4]["samples"] == 4, s)
    rig.check("raw bytes carry no markup", b"<img" not in get(page, "/state")[1])


def under_load(port, page):
    rc, out, err = rig.run("load", f"127.0.0.1:{port}", "--persons", 2, "--views", 2, "--seconds", 1, "--warm", 0, "--unknown", 100)
    rig.check("a load", rc == 0, out + err)
    s = until(page, lambda s: s["history"] and max(s["history"]) > 100 and sum(s["verdicts"]) == s["requests"])
    rig.check("a load shows", s["requests"] > 100 and max(s["history"]) > 100 and s["spans"][4]["samples"] > 10 and sum(s["verdicts"]) == s["requests"], s)


def strangers(page):
    for host, status in (("evil.example", 403), ("localhost", 200), (f"127.0.0.1:{page}", 200), ("[::1]", 200), ("[::1", 403), ("127.0.0.1.evil.example", 403)):
        rig.check(f"Host: {host}", get(page, "/state", Host=host)[0] == status)
    rig.check("only GET", get(page, "/state", "POST")[0] == 405 and get(page, "/", "DELETE")[0] == 405)
    rig.check("HEAD", get(page, "/", "HEAD")[0] == 200)
    rig.check("nothing else", get(page, "/../../etc/passwd")[0] == 404)
    for path in ("/", "/page.css", "/page.js", "/common.css", "/common.js", "/state"):
        status, body, r = get(page, path)
        rig.check(f"{path}: for this page alone", status == 200 and body and "default-src 'self'" in r.getheader("Content-Security-Policy") and
                  r.getheader("Access-Control-Allow-Origin") is None and r.getheader("X-Content-Type-Options") == "nosniff")
    silent = [socket.create_connection(("127.0.0.1", page)) for _ in range(40)]
    rig.check("silent connections keep no other client out", get(page, "/", source=("127.0.0.2", 0))[0] == 200)
    for s in silent:
        s.close()


def browser(page):
    if not shutil.which("chromium"):
        print("     no chromium: the page is not looked at")
        return
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "tests" / "integration"))
    from browser import Browser
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as d:
        b = Browser(d)
        try:
            b.call("Page.navigate", url=f"http://127.0.0.1:{page}/")
            b.until("document.querySelectorAll('#last tbody tr').length >= 4", "the last requests")
            text = b.run("document.body.innerText")
            rig.check("the page shows names as text", HOSTILE.decode() in text and "unknown person" in text, text)
            rig.check("and has no element of theirs", b.run("document.images.length") == 0)
            rig.check("a request's way", b.run("document.querySelectorAll('#way li').length") == 6 and "memcached" in text, text)
            for width in (1200, 360):
                b.call("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=False)
                rig.check(f"{width} pixels wide: nothing sticks out", b.run("document.documentElement.scrollWidth") <= width)
            rig.check("no errors", not b.said, b.said)
        finally:
            b.end()


rig.need("memcached")
with rig.memcached() as rig_port:
    rig.run("enrol", "--memcached", f"127.0.0.1:{rig_port}", "--drawn", "--persons", 2, "--views", 2)
    with serving(rig_port) as (process, port, page):
        numbers(port, page)
        strangers(page)
        browser(page)
        under_load(port, page)
        held = socket.create_connection(("127.0.0.1", page))
        os.kill(process.pid, signal.SIGINT)
        rig.check("Ctrl-C ends server and page", process.wait(rig.PATIENCE) == 130, process.returncode)
        held.close()
    with socket.create_server(("127.0.0.1", 0)) as taken:
        rc, out, err = rig.run("serve", "--exec", "cpu", "-m", f"127.0.0.1:{rig_port}", "-l", "127.0.0.1:0", "--page", taken.getsockname()[1])
        rig.check("a port that is taken", rc == 1 and "cannot listen for the page" in err and err.count("\n") == 1, out + err)
rig.end()
