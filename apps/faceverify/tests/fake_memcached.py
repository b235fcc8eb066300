# SPDX-License-Identifier: Apache-2.0
"""A memcached that lies in a way of the test's choice. It knows the binary protocol's GETK and GETKQ, and the text protocol's get."""
import socket
import struct
import threading
import time


def binary(key, data, opaque, status=0, magic=0x81, opcode=0x0C, keylen=None, body=None, extras=b"\0\0\0\0"):
    payload = extras + key + data
    return struct.pack(">BBHBBHI4s8x", magic, opcode, len(key) if keylen is None else keylen, len(extras), 0, status,
                       len(payload) if body is None else body, opaque) + payload


def text(key, data, length=None, tail=b"\r\nEND\r\n"):
    return b"VALUE %s 0 %s\r\n%s%s" % (key, b"%d" % len(data) if length is None else length, data, tail)


def other(key):
    return key[:-1] + b"Z"


# What it answers, instead of the truth: (key, value, opaque) -> bytes. None: it closes.
BINARY_LIES = {
    "closes": lambda k, v, o: None,
    "garbage": lambda k, v, o: b"\xde\xad\xbe\xef" * 3000,
    "wrong magic": lambda k, v, o: binary(k, v, o, magic=0x80),
    "wrong opcode": lambda k, v, o: binary(k, v, o, opcode=0),
    "wrong opaque": lambda k, v, o: binary(k, v, bytes(b ^ 0x55 for b in o)),
    "another key": lambda k, v, o: binary(other(k), v, o),
    "no key": lambda k, v, o: binary(b"", v, o),
    "a key longer than all": lambda k, v, o: binary(k, v, o, keylen=65535),
    "huge": lambda k, v, o: binary(k, v, o, body=0xFFFFFFFF),
    "shorter than it says, then closes": lambda k, v, o: (binary(k, v, o)[:-100], None),
    "longer than it says": lambda k, v, o: binary(k, v, o, body=100) + bytes(100),
    "says it has no memory": lambda k, v, o: binary(b"", b"Out of memory", o, status=0x82, extras=b""),
    "an error of a megabyte": lambda k, v, o: binary(b"", bytes(1 << 20), o, status=0x82, extras=b""),
}
TEXT_LIES = {
    "closes": lambda k, v, o: None,
    "garbage": lambda k, v, o: b"\xde\xad\xbe\xef" * 3000,
    "an endless line": lambda k, v, o: b"VALUE " + b"x" * 5000,
    "ERROR": lambda k, v, o: b"ERROR\r\n",
    "SERVER_ERROR": lambda k, v, o: b"SERVER_ERROR out of memory\r\n",
    "another key": lambda k, v, o: text(other(k), v),
    "no length": lambda k, v, o: text(k, v, b""),
    "a length that is no number": lambda k, v, o: text(k, v, b"-7"),
    "a length of 30 digits": lambda k, v, o: text(k, v, b"9" * 30),
    "a wrong length": lambda k, v, o: text(k, v, b"%d" % (len(v) - 5)),
    "no end": lambda k, v, o: text(k, v, tail=b"\r\nVALUE "),
}
# Both: of a value that is no good the rest must be served on the same connection.
VALUES = {
    "empty": lambda v: b"",
    "a byte short": lambda v: v[:-1],
    "a byte long": lambda v: v + b"\0",
    "a megabyte": lambda v: v + bytes(1 << 20),
    "another magic": lambda v: b"XXXX" + v[4:],
    "another version": lambda v: v[:4] + b"\x02\0" + v[6:],
    "another kind": lambda v: v[:6] + b"\x09\0" + v[8:],
    "another person's": lambda v: v[:8] + bytes(8) + v[16:],
    "counts of no picture": lambda v: v[:-2] + b"\x01\x01",
    "counts that overflow": lambda v: v[:16] + b"\xff" * (len(v) - 16),
}


class Fake:
    def __init__(self):
        self.values, self.told = {}, 0
        self.lie = None    # of the above: (key, value, opaque) -> bytes
        self.delay = 0     # seconds before each answer
        self.drip = False  # a byte at a time
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            s, _ = self.listener.accept()
            threading.Thread(target=self.serve, args=(s,), daemon=True).start()

    def serve(self, s):
        try:
            f = s.makefile("rb")
            while head := f.read(1):
                if head == b"\x80":
                    head += f.read(23)
                    key = f.read(struct.unpack(">I", head[8:12])[0])
                    self.answer(s, key, head[12:16], binary)
                else:
                    line = head + f.readline()
                    self.answer(s, line.split()[1], None, lambda k, v, o: text(k, v))
        except (OSError, ValueError):
            pass
        s.close()

    def answer(self, s, key, opaque, honest):
        said = (self.lie or honest)(key, self.values[key], opaque)
        if self.delay:
            time.sleep(self.delay)
        self.told += 1
        for part in said if isinstance(said, tuple) else (said,):
            if part is None:
                raise ValueError("closes")
            if self.drip:
                for i in range(len(part)):
                    s.sendall(part[i:i + 1])
                    time.sleep(0.01)
            s.sendall(part)
