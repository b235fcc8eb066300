# SPDX-License-Identifier: Apache-2.0
"""A server of matrix products for tests, and a plain client that says what it is told to."""
import os
import re
import signal
import socket
import struct
import subprocess

GPUWIRE = os.environ["GPUWIRE"]
PATIENCE = float(os.environ.get("GW_PATIENCE") or 1) * 60
REQUEST, ANSWER = struct.Struct("<IHHIIQQ"), struct.Struct("<IHHIIQQ")
MAGIC, FP32, TF32, FP16 = 0x4C554D4D, 1, 2, 3
OK, BUSY, BAD_MAGIC, BAD_VERSION, BAD_TYPE, BAD_SIZE, BAD_LENGTH, BAD_FLAGS, TOO_SLOW = range(9)


class Server:
    def __init__(self, *args, port=0):
        self.process = subprocess.Popen([GPUWIRE, "app", "matmul", "serve", "--exec", "cpu", "--listen", str(port), *args],
                                        stdout=subprocess.PIPE, text=True)
        line = self.process.stdout.readline()
        found = re.search(r"port (\d+)", line)
        assert found, f"the server says: {line}"
        self.port = int(found[1])

    def end(self, how=signal.SIGINT):
        """Its exit code, and what it has counted."""
        self.process.send_signal(how)
        said = self.process.stdout.read()
        return self.process.wait(PATIENCE), said

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
        self.process.stdout.close()
        self.process.wait()


def head(n=16, kind=FP32, ident=7, magic=MAGIC, version=1, flags=0, length=None):
    element = 2 if kind == FP16 else 4
    return REQUEST.pack(magic, version, kind, n, flags, ident, 2 * n * n * element if length is None else length)


def product(n=16, ident=7):
    """A request whose A is i + j, and whose B is the identity: C is A."""
    a = [float(i + j) for i in range(n) for j in range(n)]
    b = [float(i == j) for i in range(n) for j in range(n)]
    return head(n, ident=ident) + struct.pack(f"<{2 * n * n}f", *a, *b)


class Client:
    def __init__(self, server, timeout=PATIENCE):
        self.s = socket.create_connection(("127.0.0.1", server.port), timeout)
        self.s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def send(self, data):
        self.s.sendall(data)

    def take(self, n):
        """n bytes, or fewer if the server ends."""
        data = b""
        while len(data) < n:
            more = self.s.recv(min(n - len(data), 1 << 20))
            if not more:
                break
            data += more
        return data

    def answer(self):
        """Status, id and C."""
        data = self.take(ANSWER.size)
        assert len(data) == ANSWER.size, f"{len(data)} bytes of an answer"
        magic, version, status, n, _, ident, length = ANSWER.unpack(data)
        assert (magic, version) == (0x534E414D, 1), data
        c = self.take(length)
        assert len(c) == length
        return status, ident, c

    def right(self, n=16, ident=7):
        """Reads the answer to product(), which must be right."""
        status, got, c = self.answer()
        assert (status, got) == (OK, ident), (status, got)
        assert c == struct.pack(f"<{n * n}f", *[i + j for i in range(n) for j in range(n)]), "C is wrong"

    def ask(self, n=16, ident=7):
        self.send(product(n, ident))
        self.right(n, ident)

    def ended(self):
        """Has the server closed, or reset, the connection?"""
        try:
            return self.s.recv(1) == b""
        except ConnectionResetError:
            return True

    def close(self):
        self.s.close()

    def reset(self):
        self.s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.s.close()
