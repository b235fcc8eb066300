#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""faceverify against two real memcacheds: every reply equals the reference's. Arguments are options of the server."""
import os
import subprocess
import sys
import tempfile

from serve_rig import *

NAMES = [b"ann", "Björn-Ünal".encode(), b"x", b"n" * 200] + [b"person%d" % i for i in range(20)]


def check(r, name, stored, shown):
    want = distance(histogram(stored), histogram(shown))
    assert r.distance == want, (name, r.distance, want)
    assert r.verdict == (MATCH if want <= r.threshold else NO_MATCH), (name, r.verdict, want)
    assert abs(r.threshold - 0.134) < 1e-6
    points = r.ns
    assert 0 < points[0] <= points[1] <= points[3] <= points[4] and points[2] <= points[3], points


def fill(memcacheds, server, spread, seed=0):
    """Stores each person where libmemcached would; by libmemcached itself, where it is asked in the default way."""
    pictures = {name: picture(seed + i) for i, name in enumerate(NAMES)}
    by_port = {m.port: m for m in memcacheds}
    for name, port in zip(NAMES, server.where(NAMES, list(by_port), spread)):
        by_port[port].set(b"face:" + name, value(name, pictures[name]), 7)
    if spread == "modula":
        with tempfile.TemporaryDirectory() as d:
            for name in NAMES[:2]:
                pictures[name] = picture(99)
                with open(os.path.join(d.encode(), b"face:" + name), "wb") as f:
                    f.write(value(name, pictures[name]))
            servers = ",".join(f"127.0.0.1:{m.port}" for m in memcacheds)
            subprocess.run(["memccp", "--servers", servers, *(os.path.join(d.encode(), b"face:" + n) for n in NAMES[:2])], check=True)
    return pictures


def one_by_one(port, pictures):
    c = Client(port)
    for i, (name, stored) in enumerate(pictures.items()):
        check(c.ask(name, stored, i), name, stored, stored)
        shown = picture(1000 + i)
        check(c.ask(name, shown, i), name, stored, shown)
        slightly = stored.copy()
        slightly[::5] ^= 1
        check(c.ask(name, slightly, i), name, stored, slightly)
    for ends in (numpy.zeros((SIDE, SIDE), "u1"), numpy.full((SIDE, SIDE), 255, "u1"), numpy.arange(SIDE * SIDE, dtype="u1").reshape(SIDE, SIDE)):
        check(c.ask(b"x", ends), b"x", pictures[b"x"], ends)
    assert c.ask(b"nobody", picture(1)).verdict == UNKNOWN
    c.close()


def pipelined(port, pictures, clients=5, each=24):
    """Many requests before the first reply is read, known and unknown names mixed; replies come in any order."""
    names = list(pictures)
    conns = [Client(port, 60) for _ in range(clients)]
    asked = {}
    for k, c in enumerate(conns):
        for i in range(each):
            name = names[(k + i) % len(names)] if i % 3 else b"nobody%d" % i
            asked[k, i] = name
            c.send(request(name, picture(i % 4), i))
    for k, c in enumerate(conns):
        c.s.shutdown(socket.SHUT_WR)  # it still gets all replies
        seen = set()
        while (r := c.reply()) is not None:
            name = asked[k, r.id]
            if name in pictures:
                check(r, name, pictures[name], picture(r.id % 4))
            else:
                assert r.verdict == UNKNOWN, r.verdict
            seen.add(r.id)
        assert seen == set(range(each)), (k, seen)


def main():
    options = sys.argv[1:]
    spread = options[options.index("--spread") + 1] if "--spread" in options else "modula"
    memcacheds = [Memcached(), Memcached()]
    server = Server([m.port for m in memcacheds], *options)
    pictures = fill(memcacheds, server, spread)
    one_by_one(server.port, pictures)
    pipelined(server.port, pictures)
    said = server.stop()
    print(said, end="")
    assert "unavailable" not in said and " 0 connections to memcached lost" in said, said
    for m in memcacheds:
        m.stop()


main()
