#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""gpuwire app faceverify serve --rdma: clients over RDMA and over TCP at one port; some of them die.

    rdma.py [cpu|gpu [OPTION...]]      the executor, and more options for the server"""
import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time

import rig

SANITIZER = {"LD_PRELOAD": os.environ["SANITIZER"]} if os.environ.get("SANITIZER") else {}
CROWD = ["--persons", "4", "--views", "4", "--unknown", "100"]


def load(where, *more, rdma=True):
    """The load generator, over RDMA by librdmacm on the software NIC. The process."""
    tool = [rig.GPUWIRE, "app", "faceverify", "load", where, *CROWD, *more]
    # A sanitizer's runtime must come first in `env`, which is started with the NIC in it.
    tool = [rig.GPUWIRE, "run", "--", *tool, "--rdma"] if rdma else tool
    return subprocess.Popen(tool, stdout=subprocess.PIPE, text=True, start_new_session=True, env={**os.environ, **(SANITIZER if rdma else {})})


def right(what, p):
    try:
        out = p.communicate(timeout=rig.PATIENCE)[0]
    except subprocess.TimeoutExpired:
        os.killpg(p.pid, signal.SIGKILL)
        out = p.communicate()[0]
    r = json.loads(out) if out else {}
    seen = [r.get(v, 0) for v in ("match", "no_match", "unknown")]
    rig.check(what, p.returncode == 0 and r["wrong"] == 0 and all(seen), f"rc {p.returncode}: {r}")


def served(where, server):
    brief = ["--seconds", "0.5", "--warm", "0", "--json"]
    right("clients over RDMA", load(where, *brief, "--connections", "5", "--pipeline", "4"))
    right("clients over TCP at the same port", load(where, *brief, "--connections", "3", rdma=False))
    both = [load(where, *brief, rdma=rdma) for rdma in (True, False)]
    right("both at a time: RDMA", both[0])
    right("both at a time: TCP", both[1])
    right("a rate", load(where, *brief, "--rate", "200", "--connections", "2"))
    for _ in range(2):  # in mid-request, most likely
        dying = load(where, "--seconds", "60", "--connections", "6", "--pipeline", "8")
        time.sleep(1.5)
        os.killpg(dying.pid, signal.SIGKILL)
        dying.wait()
        rig.check("the server lives", server.poll() is None)
        right("others are served", load(where, *brief, "--connections", "2"))


rig.need("memcached")
executor, more = (sys.argv[1:2] or ["cpu"])[0], sys.argv[2:]
with rig.memcached() as memcached, tempfile.TemporaryDirectory() as runtime:
    # An address that no other test has.
    host = f"127.{random.randrange(20, 220)}.{random.randrange(1, 250)}.1"
    os.environ.update(GPUWIRE_NIC=f"addr={host}", XDG_RUNTIME_DIR=runtime)
    rig.run("enrol", "--memcached", f"127.0.0.1:{memcached}", "--drawn", "--persons", 4, "--views", 4)
    serve = [rig.GPUWIRE, "app", "faceverify", "serve", "--exec", executor, "-m", f"127.0.0.1:{memcached}", "-l", f"{host}:0", "--rdma",
             "--limit", "5000", *more]
    server = subprocess.Popen(serve, stdout=subprocess.PIPE, text=True)
    try:
        port = re.search(r"port (\d+)", server.stdout.readline())[1]
        served(f"{host}:{port}", server)
        last = load(f"{host}:1", "--json")
        last.wait(rig.PATIENCE)
        rig.check("a port where nothing listens", last.returncode == 1, last.returncode)
        server.send_signal(signal.SIGINT)
        rig.check("Ctrl-C ends the server", server.wait(rig.PATIENCE) == 130, server.returncode)
    finally:
        server.kill()
        server.wait()
    rig.refused("several proxies on CPU threads", "--proxies 1", "serve", "--exec", "cpu", "-m", f"127.0.0.1:{memcached}", "--rdma", "--proxies", 2,
                "--blocks", 4)
rig.end()
