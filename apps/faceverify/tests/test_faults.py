#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What is wrong around the server: memcached that is gone, slow, restarts or lies, and clients of every bad kind. The request that
it concerns gets an error in time, and the rest is served.

    test_faults.py memcached|clients [OPTION of the server...]
"""
import resource
import sys

from fake_memcached import *
from serve_rig import *

GOOD, BAD = b"good", b"bad"
FACE = picture(1)


def until(what, done, seconds=15):
    end = time.monotonic() + seconds * PATIENCE
    while not done():
        assert time.monotonic() < end, what
        time.sleep(0.01)


def names_of(server, real, fake):
    """A name that lives on the real memcached, and one that lives on the fake one."""
    names = [b"p%d" % i for i in range(64)]
    ports = server.where(names, [real, fake])
    return names[ports.index(real)], names[ports.index(fake)]


class Pair:
    """A real and a fake memcached, the server, and a name on each."""

    def __init__(self, options):
        self.real, self.fake = Memcached(), Fake()
        self.text = "text" in options
        self.server = Server([self.real.port, self.fake.port], "--limit", str(int(300 * PATIENCE)), *options)
        self.good, self.bad = names_of(self.server, self.real.port, self.fake.port)
        self.real.set(b"face:" + self.good, value(self.good, FACE))
        self.fake.values[b"face:" + self.bad] = value(self.bad, FACE)
        self.client = Client(self.server.port, 60)
        until("both answer", lambda: self.ask(self.good) == self.ask(self.bad) == MATCH)

    def ask(self, name):
        return self.client.ask(name, FACE).verdict

    def tell(self, what):
        """Asks until the lie has been told; every answer to it is "unavailable", and the good name is served."""
        before = self.fake.told
        while self.fake.told == before:
            start = time.monotonic()
            verdict = self.ask(self.bad)
            assert verdict == UNAVAILABLE, (what, verdict)
            assert time.monotonic() - start < 10 * PATIENCE, what
            assert self.ask(self.good) == MATCH, what
        # In one lot: no answer to one question may be taken for that to another.
        self.client.send(b"".join(request(n, FACE, i) for i, n in enumerate([self.bad, self.good] * 4)))
        for _ in range(8):
            r = self.client.reply()
            assert r.verdict == (MATCH if r.id % 2 else UNAVAILABLE), (what, r.id, r.verdict)

    def honest(self, what):
        self.fake.lie, self.fake.delay, self.fake.drip = None, 0, False
        until(f"well again after: {what}", lambda: self.ask(self.bad) == MATCH)

    def stop(self):
        said = self.server.stop()
        self.real.stop()
        return said


def lies(p):
    for what, lie in (TEXT_LIES if p.text else BINARY_LIES).items():
        p.fake.lie = lie
        p.tell(what)
        p.honest(what)


def values(p):
    """Of a wrong value only its request hears; the connection goes on."""
    lost = p.fake.told
    for what, wrong in VALUES.items():
        form = (lambda k, v, o: text(k, wrong(v))) if p.text else (lambda k, v, o: binary(k, wrong(v), o))
        p.fake.lie = form
        assert p.ask(p.bad) == UNAVAILABLE, what
        p.fake.lie = None
        assert p.ask(p.bad) == MATCH, what
    assert p.fake.told == lost + 2 * len(VALUES)


def slow(p):
    for what, delay, drip in (("late", 1.0 * PATIENCE, False), ("drips", 0, True)):
        p.fake.delay, p.fake.drip = delay, drip
        start = time.monotonic()
        assert p.ask(p.bad) == UNAVAILABLE, what
        assert 0.2 * PATIENCE < time.monotonic() - start < 10 * PATIENCE, what
        assert p.ask(p.good) == MATCH, what
        p.honest(what)


def restarts(options):
    port = free_port()
    server = Server([port], "--limit", str(int(1000 * PATIENCE)), *options)
    c = Client(server.port, 60)
    start = time.monotonic()
    for i in range(3):
        assert c.ask(GOOD, FACE).verdict == UNAVAILABLE
    assert time.monotonic() - start < 10 * PATIENCE
    m = Memcached(port)
    for _ in range(2):
        m.set(b"face:" + GOOD, value(GOOD, FACE))
        until("memcached is found again", lambda: c.ask(GOOD, FACE).verdict == MATCH)
        m.stop()
        assert c.ask(GOOD, FACE).verdict == UNAVAILABLE
        m.start()
    until("it has forgotten", lambda: c.ask(GOOD, FACE).verdict == UNKNOWN)
    m.process.send_signal(signal.SIGSTOP)  # there, and silent
    assert c.ask(GOOD, FACE).verdict == UNAVAILABLE
    m.process.send_signal(signal.SIGCONT)
    until("it goes on", lambda: c.ask(GOOD, FACE).verdict == UNKNOWN)
    server.stop()
    m.stop()


# ---- clients

def malformed(port):
    for what, data in {
        "magic": request(GOOD, FACE, 7, magic=b"HTTP"),
        "version": request(GOOD, FACE, 7, version=2),
        "flags": request(GOOD, FACE, 7, flags=1),
        "no name": request(GOOD, FACE, 7, length=0),
        "a long name": request(GOOD, FACE, 7, length=201),
        "a page": b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
    }.items():
        c = Client(port)
        c.send(data)
        r = c.reply()
        assert r.verdict == MALFORMED, what
        assert c.closed(), what
        c.close()
    c = Client(port)
    for name in (b"a b", b"a\nget face:x", b"\0", b"x\x7f"):
        assert c.ask(name, FACE, 5).verdict == MALFORMED, name
        assert c.ask(GOOD, FACE, 6).verdict == MATCH, name
    c.close()


def dying(port):
    whole = request(GOOD, FACE, 1)
    for at in (1, 15, 16, 17, 32, 33, 5000, len(whole) - 1, len(whole)):
        for reset in (False, True):
            c = Client(port)
            c.send(whole + whole[:at])
            if reset:
                c.s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            c.close()
    c = Client(port)
    assert c.ask(GOOD, FACE).verdict == MATCH
    c.close()


def silent(port):
    """--stall 1, --idle 2: in mid-request, and before any. Bytes that come slowly are no stall."""
    stalled, idle, slow = Client(port, 60), Client(port, 60), Client(port, 60)
    stalled.send(request(GOOD, FACE, 1)[:-1])
    for part in range(0, 18528, 3000):
        slow.send(request(GOOD, FACE, 3)[part:part + 3000])
        time.sleep(0.3)
    assert slow.reply().verdict == MATCH
    start = time.monotonic()
    assert stalled.closed()
    assert idle.closed()
    assert time.monotonic() - start < 20 * PATIENCE
    for c in (stalled, idle, slow):
        c.close()


def never_reads(port):
    """It is disconnected, or stalls itself. Others are served during that."""
    c, other = Client(port, 1), Client(port, 60)
    data, sent = request(b"a b", FACE, 1), 0
    try:
        for sent in range(300000):
            c.send(data)
            assert sent % 100 or other.ask(GOOD, FACE).verdict == MATCH
    except (ConnectionError, TimeoutError):
        pass
    assert sent < 299999, "a client that never reads was served without an end"
    assert other.ask(GOOD, FACE).verdict == MATCH
    c.close()
    other.close()


def thousand(port):
    resource.setrlimit(resource.RLIMIT_NOFILE, (4096, max(4096, resource.getrlimit(resource.RLIMIT_NOFILE)[1])))
    clients = [Client(port, 60) for _ in range(1000)]
    for i, c in enumerate(clients):
        c.send(request(GOOD, FACE, i))
    for i, c in enumerate(clients):
        r = c.reply()
        assert r and r.id == i and r.verdict == MATCH, (i, r and r.verdict)
    extra = [Client(port, 60) for _ in range(100)]  # --clients 1024
    said = [c.reply() for c in extra[24:]]
    assert all(r.verdict == BUSY for r in said)
    for c in clients + extra:
        c.close()
    until("there is room again", lambda: room(port))


def room(port):
    c = Client(port)
    try:
        return c.ask(GOOD, FACE, 9).verdict == MATCH
    except (AssertionError, ConnectionError):
        return False
    finally:
        c.close()


def ends(client):
    """Reads what is left; the server must have closed."""
    try:
        while client.s.recv(65536):
            pass
    except ConnectionError:
        pass
    client.close()


def restart(memcached, options):
    """A server that is killed, or ended, under load begins again at its port at once."""
    port = 0
    for how, code in ((signal.SIGKILL, -9), (signal.SIGTERM, 130)):
        server = Server([memcached.port], "-l", f"127.0.0.1:{port}", *options)
        port = server.port
        until("it serves", lambda: room(port))
        busy = [Client(port, 60) for _ in range(30)]
        for i, c in enumerate(busy):
            c.send(request(GOOD, FACE, i) * 3 + request(GOOD, FACE, i)[:1000 * i])
        assert busy[7].reply().verdict == MATCH
        server.process.send_signal(how)
        assert server.process.wait(60 * PATIENCE) == code, server.process.returncode
        for c in busy:
            ends(c)
    server = Server([memcached.port], "-l", f"127.0.0.1:{port}", *options)
    until("it serves again", lambda: room(port))
    server.stop()


def clients(options):
    m = Memcached()
    m.set(b"face:" + GOOD, value(GOOD, FACE))
    restart(m, options)
    for limits, tests in ((["--stall", "60"], (malformed, dying, thousand, never_reads)), (["--stall", "1", "--idle", "2"], (silent,))):
        server = Server([m.port], *limits, *options)
        until("memcached is connected", lambda: room(server.port))
        for test in tests:
            test(server.port)
        assert room(server.port)
        print(server.stop(), end="")
    m.stop()


def main():
    options = sys.argv[2:]
    if sys.argv[1] == "memcached":
        p = Pair(options)
        for test in (values, lies, slow):
            test(p)
        print(p.stop(), end="")
        restarts(options)
    else:
        clients(options)


main()
