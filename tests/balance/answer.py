#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A web server that does as a file says: answer.py NAME PORT FOLDER [CERT KEY].

FOLDER/NAME.PORT holds the status for each path ("/one 503"); other paths get 200. The body is NAME; of
the path /host it is NAME and the host that was asked for. A connection that sends no HTTP is kept, and each line comes back.
"""
import os
import socket
import ssl
import sys
import threading

name, port, folder = sys.argv[1], int(sys.argv[2]), sys.argv[3]
says = os.path.join(folder, f"{name}.{port}")
context = None
if len(sys.argv) > 4:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(sys.argv[4], sys.argv[5])


def status_of(path):
    try:
        with open(says, encoding="ascii") as f:
            return dict(line.split() for line in f if line.strip()).get(path, "200")
    except OSError:
        return "200"


def answer(line, read):
    path, host = line.split()[1].decode(), "none"
    while (header := read().strip()) != b"":
        if header.lower().startswith(b"host:"):
            host = header[5:].strip().decode()
    body = f"{name} {host}\n" if path == "/host" else name + "\n"
    status = status_of(path)
    return f"HTTP/1.0 {status} x\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode()


def serve(c):
    try:
        if context:
            c = context.wrap_socket(c, server_side=True)
        f = c.makefile("rb")
        for line in f:
            if line.startswith(b"GET "):
                c.sendall(answer(line, f.readline))
                break
            c.sendall(name.encode() + b":" + line)
    except OSError:
        pass
    c.close()


s = socket.socket(socket.AF_INET6)
s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
s.bind(("::", port))
s.listen(256)
while True:
    threading.Thread(target=serve, args=(s.accept()[0],), daemon=True).start()
