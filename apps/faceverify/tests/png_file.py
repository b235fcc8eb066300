# SPDX-License-Identifier: Apache-2.0
"""Reads and writes grey PNG files, for the tests."""
import struct
import zlib

import with_numpy  # noqa: F401
import numpy as np


def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def write(path, grey):
    height, width = grey.shape
    raw = b"".join(b"\0" + row.tobytes() for row in grey)
    with open(path, "wb") as f:
        f.write(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)) +
                chunk(b"IDAT", zlib.compress(raw)) + chunk(b"IEND", b""))


def read(path):
    """Grey of 8 bits, as our tools write it: the filters are undone row by row."""
    data = open(path, "rb").read()
    at, idat = 8, b""
    while at < len(data):
        size, kind = struct.unpack(">I4s", data[at:at + 8])
        if kind == b"IHDR":
            width, height = struct.unpack(">II", data[at + 8:at + 16])
        if kind == b"IDAT":
            idat += data[at + 8:at + 8 + size]
        at += 12 + size
    raw, rows, up = zlib.decompress(idat), [], np.zeros(width, np.int64)
    for y in range(height):
        how, row = raw[y * (width + 1)], np.frombuffer(raw, np.uint8, width, y * (width + 1) + 1).astype(np.int64)
        out = row.copy()
        for x in range(width):
            left, corner = (out[x - 1], up[x - 1]) if x else (0, 0)
            guess = left + up[x] - corner
            near = min((abs(guess - v), i) for i, v in enumerate((left, up[x], corner)))[1]
            out[x] = row[x] + (0, left, up[x], (left + up[x]) // 2, (left, up[x], corner)[near])[how] & 255
        rows.append(out)
        up = out
    return np.array(rows, np.uint8)
