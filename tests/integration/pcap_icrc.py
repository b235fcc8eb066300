#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Reads a capture of a software NIC (pcapng, raw IP) or of QEMU (pcap, Ethernet) and checks each packet's ICRC with zlib, from the specification's
words. Prints "PACKETS WRONG". What Wireshark says of the file is another question; it does not check ICRCs."""
import struct
import sys
import zlib


def ethernet_packets(data):
    """Those to UDP port 4791 in a capture of the older format."""
    at = 24
    while at + 16 <= len(data):
        size = struct.unpack_from("=I", data, at + 8)[0]
        kind, = struct.unpack_from(">H", data, at + 28)
        ip = data[at + 30:at + 16 + size]
        at += 16 + size
        if kind == 0x0800 and ip[9] == 17:
            ip, udp = ip[:struct.unpack_from(">H", ip, 2)[0]], 20
        elif kind == 0x86DD and ip[6] == 17:
            ip, udp = ip[:40 + struct.unpack_from(">H", ip, 4)[0]], 40
        else:
            continue
        if struct.unpack_from(">H", ip, udp + 2)[0] == 4791:
            yield ip


def packets(data):
    if data[:4] == struct.pack("=I", 0xA1B2C3D4):
        yield from ethernet_packets(data)
        return
    at = 0
    while at < len(data):
        kind, length = struct.unpack_from("=II", data, at)
        assert length % 4 == 0 and length >= 12 and data[at + length - 4:at + length] == struct.pack("=I", length), at
        if kind == 6:
            size = struct.unpack_from("=I", data, at + 20)[0]
            yield data[at + 28:at + 28 + size]
        at += length


def icrc(packet):
    v6 = packet[0] >> 4 == 6
    head = 40 if v6 else 20
    masked = bytearray(packet[:-4])
    if v6:
        masked[0] |= 0x0F
        masked[1:4] = b"\xff\xff\xff"
        masked[7] = 0xFF
    else:
        masked[1] = masked[8] = masked[10] = masked[11] = 0xFF
    masked[head + 6] = masked[head + 7] = 0xFF
    masked[head + 8 + 4] = 0xFF
    return struct.pack("<I", zlib.crc32(b"\xff" * 8 + masked))


def main():
    total = wrong = 0
    with open(sys.argv[1], "rb") as f:
        for packet in packets(f.read()):
            total += 1
            wrong += icrc(packet) != packet[-4:]
    print(total, wrong)


main()
