#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A worker's end of a tunnel, where the kernel has none: untunnel.py TUN|GUE

Takes the inner packets out of IPIP (IPv4 in IPv4, IPv6 in IPv6) or GUE (UDP port 6080), and gives them to the kernel through
a tun device. Checks what the balancer wrote outside: the lengths, and the UDP checksum where there is one."""
import fcntl
import os
import select
import socket
import struct
import subprocess
import sys

TUNSETIFF, IFF_TUN, IFF_NO_PI = 0x400454CA, 1, 0x1000
GUE_PORT = 6080
way = sys.argv[1]
tun = os.open("/dev/net/tun", os.O_RDWR)
fcntl.ioctl(tun, TUNSETIFF, struct.pack("16sH", b"inner", IFF_TUN | IFF_NO_PI))
subprocess.run(["ip", "link", "set", "inner", "up", "mtu", "1500"], check=True)
for name in ("all", "inner", "eth0"):
    with open(f"/proc/sys/net/ipv4/conf/{name}/rp_filter", "w", encoding="ascii") as f:
        f.write("0")


def inner_of(packet):
    """The packet inside, which must be as long as its header says."""
    length = struct.unpack("!H", packet[2:4])[0] if packet[0] >> 4 == 4 else 40 + struct.unpack("!H", packet[4:6])[0]
    if packet[0] >> 4 not in (4, 6) or length != len(packet):
        sys.exit(f"an inner packet of {len(packet)} bytes says that it has {length}")
    return packet


if way == "TUN":
    four = socket.socket(socket.AF_INET, socket.SOCK_RAW, 4)
    six = socket.socket(socket.AF_INET6, socket.SOCK_RAW, 41)
    takes = {four: lambda p: p[(p[0] & 15) * 4:], six: lambda p: p}
else:
    four = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    six = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
    six.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
    # RFC 6935: tunnels over IPv6 may leave the outer checksum out. The option's number is Linux' UDP_NO_CHECK6_RX.
    six.setsockopt(socket.IPPROTO_UDP, 102, 1)
    four.bind(("", GUE_PORT))
    six.bind(("::", GUE_PORT))
    takes = {s: lambda p: p[4 * (1 + (p[0] & 31)):] for s in (four, six)}
print("ready", flush=True)
while True:
    for s in select.select(list(takes), [], [])[0]:
        os.write(tun, inner_of(takes[s](s.recv(65536))))
