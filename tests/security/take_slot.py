#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""take_slot.py ADDRESS PORT SECONDS: takes a UDP port the moment it is free, and counts what comes to it.

Prints "taken", then how many packets came within the seconds, and how many of them later than 0.3 s."""
import socket
import sys
import time

address, port, seconds = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
end = time.monotonic() + 60
print("ready", flush=True)
while True:
    try:
        sock.bind((address, port))
        break
    except OSError:
        if time.monotonic() > end:
            sys.exit("it was never free")
taken = time.monotonic()
print("taken", flush=True)
early = late = 0
while True:
    left = taken + seconds - time.monotonic()
    if left <= 0:
        break
    sock.settimeout(left)
    try:
        sock.recv(65536)
    except TimeoutError:
        break
    if time.monotonic() - taken > 0.3:
        late += 1
    else:
        early += 1
print(f"{early + late} packets, {late} of them late")
