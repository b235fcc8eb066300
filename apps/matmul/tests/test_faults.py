#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What clients and users may do to a server of matrix products: test_faults.py independent|daemon.

The right client gets an error, the rest is served, and nothing hangs."""
import random
import signal
import socket
import sys
import time

from server import (BAD_FLAGS, BAD_LENGTH, BAD_MAGIC, BAD_SIZE, BAD_TYPE, BAD_VERSION, BUSY, FP16, TOO_SLOW, Client, Server, head,
                    product)

DESIGN = sys.argv[1]
SERVE = ("--design", DESIGN, "--blocks", "4", "--largest", "256")


def test_malformed():
    """Wrong headers get their status, whatever follows them, and then the connection ends."""
    wrong = [(head(magic=1), BAD_MAGIC), (b"GET / HTTP/1.1\r\nHost: matrices\r\n\r\n" * 2, BAD_MAGIC), (head(version=2), BAD_VERSION),
             (head(kind=0), BAD_TYPE), (head(kind=4), BAD_TYPE), (head(n=0), BAD_SIZE), (head(n=17), BAD_SIZE),
             (head(n=272), BAD_SIZE), (head(n=0xFFFFFFF0, length=8), BAD_SIZE), (head(length=0), BAD_LENGTH),
             (head(length=2**64 - 1), BAD_LENGTH), (head(kind=FP16, length=2048), BAD_LENGTH), (head(flags=1), BAD_FLAGS)]
    with Server(*SERVE) as server:
        good = Client(server)
        for data, status in wrong:
            for more in (b"", bytes(100000)):
                client = Client(server)
                client.send(data + more)
                got = client.answer()
                assert got[0] == status and got[2] == b"", (data, got)
                client.s.shutdown(socket.SHUT_WR)
                assert client.ended(), data
                client.close()
                good.ask()
        code, said = server.end()
        assert code == 130 and f"{2 * len(wrong)} requests refused" in said, (code, said)


def test_pipelined():
    """Many requests at once, in pieces of any size: the answers come in order."""
    with Server(*SERVE) as server:
        client, rng = Client(server), random.Random(1)
        sizes = [rng.choice((16, 32, 48, 80)) for _ in range(30)]
        data = b"".join(product(n, i) for i, n in enumerate(sizes))
        while data:
            cut = rng.choice((1, 31, 33, 5000))
            client.send(data[:cut])
            data = data[cut:]
        for i, n in enumerate(sizes):
            client.right(n, i)


def test_deaths():
    """Clients that die anywhere in a request, or before its answer."""
    whole, rng = product(128), random.Random(2)
    with Server(*SERVE) as server:
        good = Client(server)
        for i in range(60):
            client = Client(server)
            client.send(whole[:rng.choice((0, 1, 31, 32, 33, 5000, len(whole) - 1, len(whole)))])
            client.reset() if i % 2 else client.close()
            if i % 5 == 0:
                good.ask(64, i)
        good.ask()
        assert server.end()[0] == 130


def test_silent():
    """Silent clients in mid-request, in mid-header and between requests, and one that does not read: others are served during
    that, and the silent ones are ended."""
    with Server(*SERVE, "--body", "3", "--idle", "4", "--memory", "64") as server:
        body, part, idle, deaf = [[Client(server) for _ in range(6)] for _ in range(4)]
        for client in body:
            client.send(product(64)[:-1])
        for client in part:
            client.send(head()[:5])
        for client in idle:
            client.ask()
        for client in deaf: # as much as goes without reading an answer
            client.s.setblocking(False)
            try:
                for _ in range(10000):
                    client.s.send(product(64))
            except (BlockingIOError, BrokenPipeError, ConnectionResetError): # the latter: its time was up during that
                pass
            client.s.settimeout(60)
        good, began = Client(server), time.monotonic()
        for i in range(100):
            good.ask(64, i)
        assert time.monotonic() - began < 60, "silent clients delay others"
        for client in body + part:
            assert client.answer()[0] == TOO_SLOW
        for client in body + part + idle:
            assert client.ended()
        for client in deaf: # it ends without a word, since there is no room for one
            try:
                while client.s.recv(1 << 20):
                    pass
            except ConnectionResetError:
                pass
        Client(server).ask()


def test_busy():
    """Memory for one matrix of this size: the second client is told so, and may ask again."""
    with Server(*SERVE, "--memory", "1", "--room", "1", "--body", "20") as server:
        first = []
        for _ in range(20): # take all buffers: each of these waits with its last byte
            client = Client(server)
            client.send(product(256)[:-1])
            first.append(client)
        time.sleep(1)
        late, small = Client(server), Client(server)
        late.send(product(256, 9))
        small.ask(16)
        status, ident, c = late.answer()
        assert (status, ident, c) == (BUSY, 9, b""), (status, ident)
        for client in first:
            client.close()
        for _ in range(100):
            late.send(product(256))
            status, ident, c = late.answer()
            if status != BUSY:
                break
        assert status == 0 and len(c) == 4 * 256 * 256, status


def test_thousand():
    """A thousand connections at a time, all of which ask."""
    with Server(*SERVE, "--connections", "1024", "--buffer", "16") as server:
        clients = [Client(server) for _ in range(1000)]
        for client in clients:
            client.send(product(16))
        for client in clients:
            client.right(16)
        for client in clients[::2]:
            client.close()
        for client in clients[1::2]:
            client.ask(32)
        code, said = server.end()
        assert code == 130 and said.startswith("1500 products; 1000 connections, 0 dropped"), (code, said)


def test_full():
    """More connections than the server takes: the others wait until one ends."""
    with Server(*SERVE, "--connections", "8") as server:
        clients = [Client(server) for _ in range(8)]
        for client in clients:
            client.ask()
        late = Client(server)
        late.send(product())
        late.s.settimeout(0.5)
        try:
            late.s.recv(1)
            raise AssertionError("a ninth connection is served")
        except TimeoutError:
            pass
        clients[0].close()
        late.s.settimeout(60)
        late.right()


def test_restart():
    """A server that is killed, or ended in mid-request, can begin again at its port at once."""
    port = 0
    for how in (signal.SIGKILL, signal.SIGINT, signal.SIGTERM):
        with Server(*SERVE, port=port) as server:
            port = server.port
            client, partly = Client(server), Client(server)
            client.ask()
            partly.send(product(256)[:1000])
            began = time.monotonic()
            code, _ = server.end(how)
            assert code == (-9 if how == signal.SIGKILL else 130), code
            assert time.monotonic() - began < 30
            assert client.ended() and partly.ended()
    with Server(*SERVE, port=port) as server:
        Client(server).ask()


for name, test in list(globals().items()):
    if name.startswith("test_"):
        began = time.monotonic()
        test()
        print(f"{name}: {time.monotonic() - began:.1f} s", flush=True)
