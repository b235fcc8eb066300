#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A plain reference of faceverify, for the tests: histograms and distances with numpy, a client of memcached, and a server that
answers requests as it should, or in one of the ways in which a server can be wrong.

    reference.py serve MEMCACHED_PORT [--fault NAME]     prints its port, and serves until it is ended
"""
import argparse
import socket
import struct
import sys
import threading
import time

import with_numpy  # noqa: F401
import numpy as np

SIDE, GRID, CELL, BINS = 136, 8, 17, 59
PIXELS = SIDE * SIDE
MATCH, NO_MATCH, UNKNOWN, UNAVAILABLE, MALFORMED, BUSY = range(6)
REQUEST, REPLY, VALUE = 0x51465747, 0x52465747, 0x56465747


def bins():
    """The bin of each code: its place among the codes with at most two changes around the circle, or the last bin."""
    turned = [(c << 1 | c >> 7) & 255 for c in range(256)]
    uniform = [c for c in range(256) if bin(c ^ turned[c]).count("1") <= 2]
    return np.array([uniform.index(c) if c in uniform else BINS - 1 for c in range(256)])


BIN = bins()
# right, then counterclockwise: (down, right)
NEIGHBOURS = [(0, 1), (-1, 1), (-1, 0), (-1, -1), (0, -1), (1, -1), (1, 0), (1, 1)]


def histogram(pixels):
    """The counts of a picture of 136 × 136: 64 cells of 59 bins."""
    g = np.frombuffer(bytes(pixels), np.uint8).reshape(SIDE, SIDE).astype(np.int16)
    wide = np.pad(g, 1, mode="edge")
    code = sum((wide[1 + dy:1 + dy + SIDE, 1 + dx:1 + dx + SIDE] >= g).astype(np.int64) << i for i, (dy, dx) in enumerate(NEIGHBOURS))
    cell = (np.arange(SIDE) // CELL)[:, None] * GRID + np.arange(SIDE) // CELL
    return np.bincount((cell * BINS + BIN[code]).ravel(), minlength=GRID * GRID * BINS)


def distance(a, b):
    a, b = a.astype(np.int64), b.astype(np.int64)
    d = ((a - b) ** 2).astype(np.float32)
    with np.errstate(invalid="ignore"):
        terms = np.where(a + b > 0, d / (a + b).astype(np.float32) * np.float32(2048), 0).astype(np.int64)
    return np.float32(terms.sum()) / np.float32(2048 * 2 * PIXELS)


def mean(histograms):
    """Rounded down, cell by cell; what is missing goes to the bins that lost most."""
    total = np.sum(histograms, axis=0).reshape(GRID * GRID, BINS)
    n = len(histograms)
    out, rest = total // n, total % n
    for cell in range(GRID * GRID):
        for _ in range(CELL * CELL - out[cell].sum()):
            most = int(np.argmax(rest[cell]))
            out[cell, most] += 1
            rest[cell, most] = 0
    return out.ravel()


def name_hash(name):
    h = 0xcbf29ce484222325
    for byte in name:
        h = (h ^ byte) * 0x100000001b3 & (1 << 64) - 1
    return h


def fetch(memcached, name):
    """The histogram that memcached has of a name; None: none."""
    with socket.create_connection(("127.0.0.1", memcached), 10) as s:
        s.sendall(b"get face:" + name + b"\r\n")
        f = s.makefile("rb")
        line = f.readline().split()
        if line == [b"END"]:
            return None
        value = f.read(int(line[3]))
    magic, version, kind, of = struct.unpack_from("<IHHQ", value)
    assert (magic, version, kind, of, len(value)) == (VALUE, 1, 1, name_hash(name), 16 + 2 * GRID * GRID * BINS)
    return np.frombuffer(value, np.uint16, offset=16)


class Server:
    """fault: None, or how it goes wrong (serve_one and reply say how)."""

    def __init__(self, memcached, fault=None, threshold=0.13):
        self.memcached, self.fault, self.threshold, self.answered, self.known = memcached, fault, threshold, 0, {}
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=1024)
        self.port = self.listener.getsockname()[1]
        self.lock = threading.Lock()
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            s, _ = self.listener.accept()
            s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            threading.Thread(target=self.serve_one, args=(s,), daemon=True).start()

    def serve_one(self, s):
        f = s.makefile("rb")
        held = []
        while True:
            head = f.read(16)
            if len(head) < 16:
                break
            magic, version, length, flags, number = struct.unpack("<IBBHQ", head)
            if (magic, version, flags) != (REQUEST, 1, 0) or not length:
                break
            name = f.read((length + 15) // 16 * 16)[:length]
            pixels = f.read(PIXELS)
            if len(pixels) < PIXELS:
                break
            with self.lock:
                self.answered += 1
                n = self.answered
            if self.fault == "silent" and n > 20:
                continue
            if self.fault == "ends" and n > 20:
                break
            held.append(self.reply(n, number, name, pixels))
            if self.fault == "disorder" and len(held) < 3:
                continue
            for r in reversed(held):
                s.sendall(r)
            held = []
        s.close()

    def verdict(self, name, pixels):
        if name not in self.known:
            self.known[name] = fetch(self.memcached, name)
        if self.known[name] is None:
            return UNKNOWN, 0
        d = distance(self.known[name], histogram(pixels))
        return (MATCH if d <= np.float32(self.threshold) else NO_MATCH), d

    def reply(self, n, number, name, pixels):
        begun = time.monotonic_ns()
        verdict, d = self.verdict(name, pixels)
        if self.fault == "lies" and n % 10 == 0:
            verdict = {MATCH: NO_MATCH, NO_MATCH: MATCH}.get(verdict, MATCH)
        if self.fault == "elsewhere" and n % 10 == 0:
            d = d + np.float32(1e-5)
        if self.fault == "busy" and n % 10 == 0:
            verdict = BUSY
        if self.fault == "twice" and n == 20:
            number ^= 1 << 40
        magic = 0 if self.fault == "garbage" and n == 20 else REPLY
        now = time.monotonic_ns()
        return struct.pack("<IBBHQff5Q", magic, 1, verdict, 0, number, d, self.threshold, begun, begun, begun, now, now)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("what", choices=["serve"])
    p.add_argument("memcached", type=int)
    p.add_argument("--fault")
    a = p.parse_args()
    print(Server(a.memcached, a.fault).port, flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
