#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a client may try at the gRPC door of `gpuwire serve`: grpc_attack.py PORT ATTACK [HTTP_PORT].

garbage        sends bytes that are no HTTP/2, half prefaces, and frames that are wrong; then ends
connections    opens as many connections as it gets, half of them without a preface
continuations  sends headers in CONTINUATION frames without end
long           announces a header of 2 GiB, and sends it in small pieces
indexed        names one long header many times, by a byte each
resets         opens calls and resets them, as fast as it can
mistakes       makes the server reset calls, by frames that are wrong
pings          sends PINGs and SETTINGS, and reads no answer
uploads        begins messages of 60 MiB on many calls, and never finishes one
queue          takes the model's slots for one client, then sends calls of 8 MiB, which wait
readers        asks for answers on many calls, and reads none

Says "ready N" when it has done so, and holds on to it until its standard input ends.
"""
import random
import resource
import select
import socket
import struct
import sys
import time

port, what = int(sys.argv[1]), sys.argv[2]
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 4096), hard))


def frame(kind, flags, stream, payload=b""):
    return struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + payload


def field(name, value):
    """A header, literal, not indexed, not packed."""
    return b"\0" + bytes([len(name)]) + name + bytes([len(value)]) + value


def headers(stream, method=b"ModelInfer"):
    block = b"".join(field(n, v) for n, v in (
        (b":method", b"POST"), (b":scheme", b"http"), (b":path", b"/inference.GRPCInferenceService/" + method),
        (b":authority", b"x"), (b"te", b"trailers"), (b"content-type", b"application/grpc")))
    return frame(1, 4, stream, block)


def connect():
    s = socket.create_connection(("127.0.0.1", port), timeout=5)
    s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return s


def begin():
    """A connection that speaks HTTP/2; the server's window for it is as large as it says."""
    s = connect()
    s.sendall(PREFACE + frame(4, 0, 0))
    return s


def send(s, data):
    """As much as goes without waiting."""
    s.setblocking(False)
    try:
        while data:
            data = data[s.send(data):]
    except (BlockingIOError, OSError):
        pass


def garbage():
    rnd = random.Random(7)
    count = 0
    wrong = [b"", b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", PREFACE[:9], PREFACE, b"\x16\x03\x01\x02\0\x01\0\x01\xfc\x03\x03",
             PREFACE + frame(4, 0, 0, b"\0"), PREFACE + frame(0, 0, 1, b"x" * 100), PREFACE + frame(9, 4, 1, b"\xff" * 50),
             PREFACE + frame(4, 0, 0) + frame(1, 4, 1, b"\xff" * 40), PREFACE + frame(4, 0, 0) + frame(8, 0, 0, b"\0\0\0\0"),
             PREFACE + frame(4, 0, 0) + headers(2), PREFACE + frame(4, 0, 0) + headers(1, b"x" * 200) * 3,
             PREFACE + frame(4, 0, 0) + headers(1) + frame(0, 1, 1, b"\0\xff\xff\xff\xff"),
             PREFACE + frame(4, 0, 0) + headers(1) + frame(0, 1, 1, b"\x01\0\0\0\x04abcd"),
             PREFACE + frame(4, 0, 0) + headers(1) + frame(0, 1, 1, b"\0\0\0\0\x02\x0a"),
             PREFACE + frame(4, 0, 0) + b"".join(headers(1 + 2 * i) + frame(3, 0, 1 + 2 * i, b"\0\0\0\x08") for i in range(500)),
             PREFACE + frame(4, 0, 0) + frame(6, 0, 0, b"12345678") * 2000]
    for i in range(150):
        data = wrong[i] if i < len(wrong) else PREFACE + frame(4, 0, 0) + headers(1) + b"".join(
            frame(rnd.randrange(10), rnd.randrange(256), rnd.choice((0, 1, 3, 1 << 30)), rnd.randbytes(rnd.randrange(64)))
            for _ in range(rnd.randrange(1, 12)))
        try:
            s = connect()
            send(s, data)
            s.setblocking(True)
            s.settimeout(0.02)
            s.recv(4096)
        except OSError:
            pass
        s.close()
        count += 1
    print("ready", count, flush=True)


def held(make, many):
    got = []
    for i in range(many):
        try:
            got.append(make(i))
        except OSError:
            pass
    time.sleep(1)  # until the server has looked at the last one
    alive = 0
    for s in got:
        s.setblocking(False)
        try:
            while s.recv(1 << 16):
                pass
        except BlockingIOError:
            alive += 1
        except OSError:
            pass
    print("ready", alive, flush=True)
    select.select([sys.stdin], [], [])


def flood(connections, work):
    """Does the work on each connection, and on a new one when the server has ended it, until the standard input ends."""
    every, began, count, said = [], time.monotonic(), 0, False
    while not select.select([sys.stdin], [], [], 0)[0]:
        try:
            if len(every) < connections:
                every.append(begin())
                every[-1].settimeout(0.2)
        except OSError:
            pass
        for s in list(every):
            try:
                count += work(s)
            except OSError:
                s.close()
                every.remove(s)
        if not said and time.monotonic() - began > 0.7:
            said = True
            print("ready", count, flush=True)
        time.sleep(0.001)


def hear(s):
    while select.select([s], [], [], 0)[0]:
        if not s.recv(1 << 16):
            raise OSError


STREAM = {}  # the number of each connection's next call


def calls_of(s, n):
    first = STREAM.get(s, 1)
    STREAM[s] = first + 2 * n
    return range(first, first + 2 * n, 2)


def resets(s):
    s.sendall(b"".join(headers(i, b"ServerLive") + frame(3, 0, i, b"\0\0\0\x08") for i in calls_of(s, 100)))
    hear(s)
    return 100


def mistakes(s):
    s.sendall(b"".join(headers(i) + frame(8, 0, i, b"\0\0\0\0") for i in calls_of(s, 100)))
    hear(s)
    return 100


def pings(s):
    s.sendall((frame(6, 0, 0, b"12345678") + frame(4, 0, 0)) * 1000)
    return 2000


def continuations(s):
    if s not in STREAM:
        s.sendall(headers(1)[:4] + b"\0" + headers(1)[5:])  # without its flag, END_HEADERS
        STREAM[s] = 3
    s.sendall(frame(9, 0, 1, b"".join(field(b"k%d" % i, b"v" * 100) for i in range(140))))
    return 1


def long_header(s):
    if s not in STREAM:
        head = headers(1)[9:] + b"\0\x01x\x7f" + b"\x81\xff\xff\xff\x07"  # x: 2 GiB
        s.sendall(frame(1, 0, 1, head))
        STREAM[s] = 3
    s.sendall(frame(9, 0, 1, b"A") * 1000)
    return 1000


def indexed(s):
    """A value of 4000 bytes goes into the server's table once. Then each call names it 16000 times."""
    if s not in STREAM:
        s.sendall(frame(1, 4, 1, headers(1)[9:] + b"\x40\x01x\x7f\xa1\x1e" + b"v" * 4000))
        STREAM[s] = 3
    s.sendall(b"".join(frame(1, 4, i, headers(i)[9:] + b"\xbe" * 16000) for i in calls_of(s, 10)))
    hear(s)
    return 10


TENSOR = b"\x0a\x01x\x12\x04FP32\x1a\x02\x01\x40"
ECHO = b"\x0a\x04echo" + b"\x2a" + bytes([len(TENSOR)]) + TENSOR + b"\x3a\x80\x02" + bytes(256)


def varint(n):
    out = b""
    while n >= 128:
        out += bytes([n & 127 | 128])
        n >>= 7
    return out + bytes([n])


class Upload:
    """A connection whose calls send as much as the server's windows let them. Whole ones are requests after an unknown field; others never end."""

    def __init__(self, size, calls, whole):
        junk = size - len(ECHO) - 8
        self.whole, self.start = whole, ECHO + b"\xfa\x3f" + varint(junk) if whole else b""
        self.size = len(self.start) + junk if whole else size
        self.s = begin()
        self.s.setblocking(False)
        self.window, self.streams, self.input, self.output, self.next = 65535, {}, b"", b"", 1
        for _ in range(calls):
            self.add()

    def add(self):
        start = b"\0" + struct.pack(">I", self.size) + self.start
        self.output += headers(self.next) + frame(0, 0, self.next, start)
        # The window, and what it will send.
        self.streams[self.next] = [65535 - len(start), self.size - len(self.start) - (not self.whole)]
        self.window -= len(start)
        self.next += 2

    def hear(self):
        self.input += self.s.recv(1 << 16)
        while len(self.input) >= 9:
            size, kind, flags, stream = int.from_bytes(self.input[:3], "big"), self.input[3], self.input[4], int.from_bytes(self.input[5:9], "big")
            if len(self.input) < 9 + size:
                return
            payload, self.input = self.input[9:9 + size], self.input[9 + size:]
            if kind == 8 and stream == 0:
                self.window += int.from_bytes(payload, "big")
            elif kind == 8 and stream in self.streams:
                self.streams[stream][0] += int.from_bytes(payload, "big")
            elif kind == 4 and not flags:
                self.output += frame(4, 1, 0)
            elif kind == 6 and not flags:
                self.output += frame(6, 1, 0, payload)
            elif kind in (1, 3) and (kind == 3 or flags & 1) and self.streams.pop(stream, None) and not self.whole:
                self.add()  # the server has ended it: once more

    def push(self):
        for stream, state in self.streams.items():
            n = min(16000, self.window, state[0], state[1])
            if n > 0 and len(self.output) < 1 << 18:
                self.output += frame(0, self.whole and n == state[1], stream, bytes(n))
                self.window -= n
                state[0] -= n
                state[1] -= n
        if self.output:
            self.output = self.output[self.s.send(self.output):]

    def work(self):
        for step in (self.hear, self.push):
            try:
                step()
            except BlockingIOError:
                pass


def upload(every, seconds):
    began, said = time.monotonic(), False
    while not select.select([sys.stdin], [], [], 0.001)[0]:
        for u in list(every):
            try:
                u.work()
            except OSError:
                every.remove(u)
        if not said and (time.monotonic() - began > seconds or not every):
            said = True
            print("ready", len(every), flush=True)


def queue(http):
    """Twelve of the model's slots wait for bodies that stop half-way, so calls wait for slots, and then for threads."""
    head = (b'{"inputs":[{"name":"x","shape":[1,64],"datatype":"FP32","parameters":{"binary_data_size":256}}]}')
    slow = [socket.create_connection(("127.0.0.1", http)) for _ in range(12)]
    for s in slow:
        s.sendall(b"POST /v2/models/echo/infer HTTP/1.1\r\nHost: x\r\nInference-Header-Content-Length: %d\r\nContent-Length: %d\r\n\r\n"
                  % (len(head), len(head) + 256) + head + bytes(100))
    time.sleep(0.5)
    waiting = begin()
    for i in range(1, 120, 2):
        waiting.sendall(headers(i) + frame(0, 1, i, b"\0" + struct.pack(">I", len(ECHO)) + ECHO))
    upload([Upload(8 << 20, 90, True) for _ in range(2)], 3)


def reader(_):
    """Windows of nothing: no answer can leave. The answers of `echo` are asked for a hundred times on each connection."""
    s = connect()
    s.sendall(PREFACE + frame(4, 0, 0, struct.pack(">HI", 4, 0)))
    for call in range(100):
        send(s, headers(1 + 2 * call) + frame(0, 1, 1 + 2 * call, b"\0" + struct.pack(">I", len(ECHO)) + ECHO))
    return s


if what == "garbage":
    garbage()
elif what == "connections":
    held(lambda i: begin() if i % 2 else connect(), 1500)
elif what == "uploads":
    upload([Upload(60 << 20, 20, False) for _ in range(12)], 4)
elif what == "queue":
    queue(int(sys.argv[3]))
elif what == "readers":
    held(reader, 30)
else:
    flood(8, {"continuations": continuations, "long": long_header, "indexed": indexed, "resets": resets, "mistakes": mistakes,
              "pings": pings}[what])
