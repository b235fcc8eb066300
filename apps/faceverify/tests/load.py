#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""gpuwire app faceverify load: against a server that is right, and against ones that are wrong in several ways."""
import json
import os
import signal
import subprocess
import time

import rig
import reference

CROWD = ["--persons", 4, "--views", 4]


def load(port, *more):
    rc, out, err = rig.run("load", f"127.0.0.1:{port}", *CROWD, "--seconds", 0.3, "--warm", 0, "--patience", 1.5, "--json", *more)
    try:
        return rc, json.loads(out), err
    except ValueError:
        return rc, {}, out + err


def right(memcached):
    server = reference.Server(memcached)
    rc, r, err = load(server.port, "--connections", 3, "--pipeline", 4, "--unknown", 200)
    seen = {v: r.get(v) for v in ("match", "no_match", "unknown")}
    rig.check("a server that is right", rc == 0 and r["wrong"] == 0 and all(seen.values()), f"rc {rc}: {r} {err}")
    rig.check("it counts every reply", r["replies"] == r["sent"] == server.answered == sum(seen.values()), r)
    u = r["us"]
    rig.check("percentiles ascend", 0 < u["p50"] <= u["p90"] <= u["p99"] <= u["p99.9"] <= u["most"], u)
    rc, r, err = load(server.port, "--rate", 60, "--connections", 2)
    rig.check("a rate is kept", rc == 0 and 10 <= r["sent"] <= 60, f"rc {rc}: {r} {err}")
    rc, r, err = load(server.port, "--rate", 1000000, "--connections", 1, "--pipeline", 1)
    rig.check("a rate that is too high is told", rc == 0 and r["behind"] > 1000, f"rc {rc}: {r} {err}")
    rc, r, err = load(server.port, "--connections", 200, "--pipeline", 1, "--patience", 20)
    rig.check("200 connections", rc == 0 and r["replies"] >= 200, f"rc {rc}: {r} {err}")


def wrong(memcached):
    for fault, fine in (("disorder", True), ("lies", False), ("elsewhere", False), ("busy", True)):
        rc, r, err = load(reference.Server(memcached, fault).port, "--connections", 1, "--pipeline", 9)
        if fault == "disorder":  # the last ones wait for others
            rig.check("replies in another order", r.get("wrong") == 0 and r["replies"] > 20 and r["strange"] == 0, f"rc {rc}: {r} {err}")
        else:
            rig.check(f"a server that {fault}", (rc == 0) == fine and (r["wrong"] == 0) == fine and r["replies"] > 10, f"rc {rc}: {r} {err}")
            rig.check("busy is counted", fault != "busy" or r["busy"] > 0, r)
    for fault in ("silent", "ends", "garbage", "twice"):
        begun = time.monotonic()
        rc, r, err = load(reference.Server(memcached, fault).port, "--connections", 2)
        took = time.monotonic() - begun
        rig.check(f"a server: {fault}", rc == 1 and r["lost"] > 0, f"rc {rc}: {r} {err}")
        rig.check("and the load ends", took < rig.PATIENCE, took)
    rc, r, err = load(reference.Server(memcached, "ends").port, "--tolerate")
    rig.check("--tolerate", rc == 0 and r["gone"] > 0, f"rc {rc}: {r} {err}")


def folder(memcached):
    """The pictures of a folder, whose people are enrolled from it."""
    with rig.folder() as d:
        rig.run("faces", d, "--persons", 3, "--views", 2, "--width", 200, "--eyes")
        rig.run("enrol", "--memcached", f"127.0.0.1:{memcached}", d)
        rc, r, err = load(reference.Server(memcached).port, "--faces", d)
        rig.check("a folder's pictures", rc == 0 and r["wrong"] == 0 and r["match"] > 0 and r["no_match"] > 0, f"rc {rc}: {r} {err}")
        rig.refused("a folder that is not there", "nowhere", "load", "127.0.0.1:1", "--faces", f"{d}/nowhere")


def calls():
    rig.refused("no server", "which server?", "load", code=2)
    rig.refused("no such option", "--nothing", "load", "--nothing", code=2)
    rig.refused("a rate of 0", "--rate 0", "load", "x:1", "--rate", "0", code=2)
    rig.refused("nothing listens", "cannot connect", "load", "127.0.0.1:1", *CROWD)


def interrupt(memcached):
    server = reference.Server(memcached)
    p = subprocess.Popen([rig.GPUWIRE, "app", "faceverify", "load", f"127.0.0.1:{server.port}", "--persons", "2", "--views", "2", "--seconds", "100"],
                         stdout=subprocess.PIPE, text=True)
    while server.answered < 5 and p.poll() is None:
        time.sleep(0.02)
    os.kill(p.pid, signal.SIGINT)
    out, _ = p.communicate(timeout=rig.PATIENCE)
    rig.check("Ctrl-C ends it, with what it has seen", p.returncode == 130 and "requests/s" in out, f"rc {p.returncode}: {out}")


rig.need("memcached")
calls()
with rig.memcached() as port:
    rc, out, err = rig.run("enrol", "--memcached", f"127.0.0.1:{port}", "--drawn", *CROWD)
    rig.check("drawn people are enrolled", rc == 0 and "4 drawn people" in out, f"rc {rc}: {out}{err}")
    right(port)
    wrong(port)
    folder(port)
    rig.run("enrol", "--memcached", f"127.0.0.1:{port}", "--drawn", "--persons", 2, "--views", 2)
    interrupt(port)
rig.end()
