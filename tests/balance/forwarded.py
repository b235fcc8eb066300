#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""forwarded.py CAPTURE MAC OUT: of a capture (pcap, Ethernet), the IPv4 and IPv6 frames that MAC sent. tshark would dissect all the others, too."""
import struct
import sys

capture, mac, out = sys.argv[1:]
source = bytes.fromhex(mac.replace(":", ""))
with open(capture, "rb") as f:
    data = f.read()
with open(out, "wb") as f:
    f.write(data[:24])
    at = 24
    while at + 16 <= len(data):
        end = at + 16 + struct.unpack_from("=I", data, at + 8)[0]
        if data[at + 22:at + 28] == source and data[at + 28:at + 30] in (b"\x08\x00", b"\x86\xdd"):
            f.write(data[at:end])
        at = end
