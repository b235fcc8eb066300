#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes random RoCEv2 packets, computes their ICRC from the specification's words with zlib, and compares with ours."""
import random
import struct
import subprocess
import sys
import zlib


def packet(rng):
    """A packet from the IP header on, and its ICRC."""
    bth = bytearray(rng.randbytes(12 + 4 * rng.randrange(0, 300)))
    udp = struct.pack("!HHHH", rng.randrange(0xC000, 0x10000), 4791, 8 + len(bth) + 4, rng.randrange(0x10000))
    if rng.random() < 0.3:
        ip = bytearray(struct.pack("!IHBB", 6 << 28 | rng.randrange(1 << 28), len(udp) + len(bth) + 4, 17, rng.randrange(256))
                       + rng.randbytes(32))
        masked = bytearray(ip)
        masked[0] |= 0x0F
        masked[1:4] = b"\xff\xff\xff"
        masked[7] = 0xFF
    else:
        ip = bytearray(struct.pack("!BBHHHBBH", 0x45, rng.randrange(256), 20 + len(udp) + len(bth) + 4, rng.randrange(0x10000),
                                   rng.choice((0, 0x4000)), rng.randrange(256), 17, rng.randrange(0x10000)) + rng.randbytes(8))
        masked = bytearray(ip)
        masked[1] = masked[8] = masked[10] = masked[11] = 0xFF
    masked_bth = bytearray(bth)
    masked_bth[4] = 0xFF
    crc = zlib.crc32(b"\xff" * 8 + masked + udp[:6] + b"\xff\xff" + masked_bth)
    return bytes(ip + udp + bth + b"\0\0\0\0"), struct.pack("<I", crc).hex()


def main():
    rng = random.Random(9)
    packets = [packet(rng) for _ in range(2000)]
    feed = "".join(p.hex() + "\n" for p, _ in packets)
    got = subprocess.run([sys.argv[1]], input=feed, capture_output=True, text=True, check=True, timeout=50).stdout.split()
    wrong = [i for i, (_, want) in enumerate(packets) if i >= len(got) or got[i] != want]
    if wrong or len(got) != len(packets):
        i = wrong[0] if wrong else len(packets)
        sys.exit(f"seed 9: {len(wrong)} of {len(packets)} differ; first is packet {i}: {packets[i][0].hex()} "
                 f"zlib {packets[i][1]} ours {got[i] if i < len(got) else 'missing'}")
    print(f"{len(packets)} packets: the same ICRC as by zlib")


main()
