#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""with_socket.py HERE THERE COMMAND...: runs the command with a UDP socket between two ports of 127.0.0.1 as file
descriptor 9, with as large a receive buffer as the system allows. QEMU's own sockets have the system's default, in which a
burst of small frames does not find room whenever QEMU is not scheduled for a moment."""
import os
import socket
import sys

SO_RCVBUFFORCE = 33
SIZE = 16 << 20

link = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
try:
    link.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, SIZE)
except PermissionError:
    link.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, SIZE)
link.bind(("127.0.0.1", int(sys.argv[1])))
link.connect(("127.0.0.1", int(sys.argv[2])))
os.dup2(link.fileno(), 9, inheritable=True)
os.execvp(sys.argv[3], sys.argv[3:])
