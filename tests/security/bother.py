#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""bother.py ADDRESS OTHER: does to the NICs at ADDRESS what another user can, until it is ended.

It sends packets to their slots and to port 4791 with whatever source address it can have, in wrappers and bare; asks for the
names by which they are met and connects to those; takes free slots and lets them go. OTHER is another address of the host.
Prints how often each of these worked as far as the system is concerned."""
import os
import random
import signal
import socket
import struct
import sys

address, other = sys.argv[1], sys.argv[2]
SLOT, ROCE, IP_PKTINFO = 0xC000, 4791, 8
counts = {"packets": 0, "connections": 0, "slots": 0}


def done(*_):
    print(counts, flush=True)
    os._exit(0)


signal.signal(signal.SIGTERM, done)


def hex_address(ip):
    return socket.inet_aton(ip)[::-1].hex().upper()


def slots_there():
    found = []
    with open("/proc/net/udp", encoding="ascii") as table:
        for line in list(table)[1:]:
            ip, port = line.split()[1].split(":")
            if ip == hex_address(address) and SLOT <= int(port, 16) < SLOT + 256:
                found.append(int(port, 16) - SLOT)
    return found


def frame(slot):
    opcode = random.choice([0x04, 0x06, 0x0A, 0x0C, 0x11, 0x64, 0x81])
    qpn = bytes([slot, random.randrange(256), random.randrange(256)]) if random.random() < 0.8 else b"\0\0\1"
    return bytes([opcode, 0x40, 0xFF, 0xFF, 0]) + qpn + random.randbytes(24 + 4 * random.randrange(100))


def gid(ip):
    return b"\0" * 10 + b"\xff\xff" + socket.inet_aton(ip)


def packet(slot):
    kind = random.randrange(4)
    if kind == 0:
        source = random.choice([address, other, "198.51.100.7"])
        port = struct.pack(">H", SLOT + random.randrange(256))
        return b"\xffgw\1\0\0" + port + gid(source) + gid(address) + frame(slot)
    if kind == 1:
        return b"\xffgh\1" + bytes([random.randrange(1, 3)]) + random.randbytes(35)
    return frame(slot)


def send(sock, slot):
    source = socket.inet_aton(random.choice([address, other]))
    info = [(socket.IPPROTO_IP, IP_PKTINFO, struct.pack("@I4s4s", 0, source, bytes(4)))]
    try:
        sock.sendmsg([packet(slot)], info, 0, (address, random.choice([SLOT + slot, ROCE])))
        counts["packets"] += 1
    except OSError:
        pass


def connect_to_names():
    with open("/proc/net/unix", encoding="utf-8", errors="replace") as table:
        names = [line.split()[-1] for line in table if "@gpuwire/" in line]
    for name in names:
        for kind in (socket.SOCK_SEQPACKET, socket.SOCK_DGRAM):
            with socket.socket(socket.AF_UNIX, kind | socket.SOCK_NONBLOCK) as sock:
                try:
                    sock.connect("\0" + name[1:])
                    counts["connections"] += 1
                except OSError:
                    pass


def take_slots(ip):
    taken = []
    for slot in random.sample(range(256), 40):
        sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        try:
            sock.bind((ip, SLOT + slot))
            taken.append(sock)
        except OSError:
            sock.close()
    counts["slots"] += len(taken)
    return taken


print("ready", flush=True)
while True:
    own = take_slots(random.choice([address, other]))
    victims = slots_there()
    for _ in range(20):
        connect_to_names()
        for sock in own:
            if victims:
                send(sock, random.choice(victims))
    for sock in own:
        sock.close()
