# SPDX-License-Identifier: Apache-2.0
"""What the tests of faceverify's server share: real memcacheds, the server, a client, and a reference that owes nothing to face.h."""
import atexit
import os
import select
import shutil
import signal
import socket
import struct
import subprocess
import sys
import time

import with_numpy  # noqa: F401
import numpy

GPUWIRE = os.environ.get("GPUWIRE", "gpuwire")
PATIENCE = float(os.environ.get("GW_PATIENCE") or 120) / 120  # more where a sanitizer slows everything down
SIDE, CELL, GRID = 136, 17, 8
MATCH, NO_MATCH, UNKNOWN, UNAVAILABLE, MALFORMED, BUSY = range(6)
REPLY = struct.Struct("<IBBHQff5Q")


def skip(why):
    print(f"skipped: {why}")
    sys.exit(77)


# ---- the reference

def uniform_bins():
    bins, used = {}, 0
    for code in range(256):
        bits = [code >> i & 1 for i in range(8)]
        if sum(bits[i] != bits[i - 1] for i in range(8)) <= 2:
            bins[code] = used
            used += 1
    return numpy.array([bins.get(code, 58) for code in range(256)])


BINS = uniform_bins()
AROUND = ((0, 1), (-1, 1), (-1, 0), (-1, -1), (0, -1), (1, -1), (1, 0), (1, 1))


def histogram(picture):
    """The counts of a picture (136 × 136 bytes), 64 cells × 59 bins."""
    wide = numpy.pad(picture, 1, mode="edge").astype(int)
    here = wide[1:-1, 1:-1]
    code = sum((wide[1 + dy:1 + dy + SIDE, 1 + dx:1 + dx + SIDE] >= here).astype(int) << i for i, (dy, dx) in enumerate(AROUND))
    cells = BINS[code].reshape(GRID, CELL, GRID, CELL).swapaxes(1, 2).reshape(64, -1)
    return numpy.array([numpy.bincount(c, minlength=59) for c in cells])


def distance(a, b):
    """Of two histograms: a float of 32 bits, as the server sends it."""
    d, s = numpy.abs(a - b), numpy.maximum(a + b, 1)
    terms = ((d * d).astype(numpy.float32) / s.astype(numpy.float32) * numpy.float32(2048)).astype(numpy.int64).sum()
    return float(numpy.float32(terms) / numpy.float32(2048 * 2 * SIDE * SIDE))


def fnv(name):
    h = 0xCBF29CE484222325
    for b in name:
        h = (h ^ b) * 0x100000001B3 & (1 << 64) - 1
    return h


def value(name, picture, magic=b"GWFV", version=1, kind=1):
    return magic + struct.pack("<HHQ", version, kind, fnv(name)) + histogram(picture).astype("<u2").tobytes()


def picture(seed):
    """Blobs: neighbours resemble each other, as in a face."""
    rng = numpy.random.default_rng(seed)
    small = rng.integers(0, 256, (SIDE // 8, SIDE // 8))
    return (numpy.kron(small, numpy.ones((8, 8))) + rng.integers(-9, 10, (SIDE, SIDE))).clip(0, 255).astype(numpy.uint8)


# ---- processes

def started(process):
    """It does not outlive the test."""
    atexit.register(process.kill)
    return process


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Memcached:
    def __init__(self, port=None):
        self.port = port or free_port()
        self.start()

    def start(self):
        if not shutil.which("memcached"):
            skip("memcached is not installed")
        user = ["-u", "nobody"] if os.geteuid() == 0 else []
        self.process = started(subprocess.Popen(["memcached", "-l", "127.0.0.1", "-p", str(self.port), "-U", "0", "-t", "1", *user]))
        for _ in range(100):
            try:
                socket.create_connection(("127.0.0.1", self.port)).close()
                return
            except OSError:
                time.sleep(0.02)
        raise RuntimeError("memcached does not start")

    def set(self, key, data, flags=0):
        with socket.create_connection(("127.0.0.1", self.port)) as s:
            s.sendall(b"set %s %d 0 %d\r\n%s\r\n" % (key, flags, len(data), data))
            assert s.recv(100) == b"STORED\r\n"

    def stop(self):
        self.process.kill()
        self.process.wait()


class Server:
    """gpuwire app faceverify serve."""

    def __init__(self, ports, *options):
        servers = ",".join(f"127.0.0.1:{p}" for p in ports)
        command = [GPUWIRE, "app", "faceverify", "serve", "-m", servers, "-l", "127.0.0.1:0", "--limit", "5000", *options]
        self.process = started(subprocess.Popen(command, stdout=subprocess.PIPE, text=True))
        line = self.process.stdout.readline()
        if "listening" not in line:
            raise RuntimeError(f"the server does not start: {line}{self.process.stdout.read()}")
        self.port = int(line.split("port ")[1].split(",")[0])

    def where(self, names, ports, spread="modula"):
        servers = ",".join(f"127.0.0.1:{p}" for p in ports)
        said = subprocess.run([GPUWIRE, "app", "faceverify", "where", "-m", servers, "-s", spread], input=b"\n".join(names) + b"\n",
                              stdout=subprocess.PIPE, check=True).stdout
        return [int(line.rsplit(b":", 1)[1]) for line in said.splitlines()]

    def stop(self):
        """Ends it as Ctrl-C does, and returns what it has counted."""
        self.process.send_signal(signal.SIGINT)
        said = self.process.stdout.read()
        assert self.process.wait(60 * PATIENCE) == 130, self.process.returncode
        return said


# ---- the client

def request(name, pixels, ident, magic=b"GWFQ", version=1, flags=0, length=None):
    head = magic + struct.pack("<BBHQ", version, len(name) if length is None else length, flags, ident)
    return head + name + bytes(-len(name) % 16) + (pixels if isinstance(pixels, bytes) else pixels.tobytes())


class Reply:
    def __init__(self, data):
        magic, version, self.verdict, zero, self.id, self.distance, self.threshold, *self.ns = REPLY.unpack(data)
        assert (magic, version, zero) == (0x52465747, 1, 0), data


class Client:
    def __init__(self, port, timeout=10):
        self.s = socket.create_connection(("127.0.0.1", port), timeout * PATIENCE)
        self.s.settimeout(timeout * PATIENCE)
        self.got = b""

    def send(self, data):
        self.s.sendall(data)

    def reply(self):
        """The next one; None: the server has closed."""
        while len(self.got) < REPLY.size:
            more = self.s.recv(65536)
            if not more:
                assert not self.got, self.got
                return None
            self.got += more
        data, self.got = self.got[:REPLY.size], self.got[REPLY.size:]
        return Reply(data)

    def ask(self, name, pixels, ident=1):
        self.send(request(name, pixels, ident))
        r = self.reply()
        assert r and r.id == ident, r
        return r

    def closed(self):
        """Has the server closed the connection, or does it within a while?"""
        ready, _, _ = select.select([self.s], [], [], 10 * PATIENCE)
        try:
            return bool(ready) and self.s.recv(1) == b""
        except ConnectionError:
            return True

    def close(self):
        self.s.close()
