#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Pictures and tensors for test_infer.sh, with nothing but Python itself.

  picture.py make KIND WIDTH HEIGHT OUT.png     a smooth pattern with edges; KIND: grey, greya, rgb, rgba
  picture.py crop IN.png X Y WIDTH HEIGHT OUT.png
  picture.py size IN.png                        prints WIDTH HEIGHT CHANNELS
  picture.py same A.png X Y B.png BORDER        B equals A from (X, Y) on, to one level, BORDER pixels left out
  picture.py golden Y.npy GOLDEN.npy            Y[0, 0, ::4, ::4] equals GOLDEN to 1e-4
"""
import ast
import math
import struct
import sys
import zlib

CHANNELS = {"grey": (1, 0), "greya": (2, 4), "rgb": (3, 2), "rgba": (4, 6)}  # channels, PNG's colour type


def write(path, width, height, channels, rows):
    kind = {c: t for c, t in CHANNELS.values()}[channels]
    chunk = lambda name, data: struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
    with open(path, "wb") as f:
        f.write(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, kind, 0, 0, 0)) +
                chunk(b"IDAT", zlib.compress(b"".join(b"\0" + bytes(r) for r in rows))) + chunk(b"IEND", b""))


def paeth(left, up, corner):
    to_left, to_up, to_corner = abs(up - corner), abs(left - corner), abs(left + up - 2 * corner)
    if to_left <= to_up and to_left <= to_corner:
        return left
    return up if to_up <= to_corner else corner


def unfilter(kind, line, above, step):
    if kind == 0:
        return line
    if kind == 2:
        return bytearray((x + up) & 255 for x, up in zip(line, above))
    line, above = bytearray(step) + line, bytes(step) + above  # nothing is left of the first pixel
    for i in range(step, len(line)):
        left, up = line[i - step], above[i]
        guess = left if kind == 1 else (left + up) // 2 if kind == 3 else paeth(left, up, above[i - step])
        line[i] = (line[i] + guess) & 255
    return line[step:]


def chunks(path):
    data = open(path, "rb").read()
    at = 8
    while at < len(data):
        size, name = struct.unpack(">I4s", data[at:at + 8])
        yield name, data[at + 8:at + 8 + size]
        at += size + 12


def size_of(path):
    name, part = next(chunks(path))
    assert name == b"IHDR", name
    width, height, depth, kind = struct.unpack(">IIBB", part[:10])
    assert depth == 8, depth
    return width, height, {t: c for c, t in CHANNELS.values()}[kind]


def read(path):
    width, height, channels = size_of(path)
    body = b"".join(part for name, part in chunks(path) if name == b"IDAT")
    raw, rows, stride = zlib.decompress(body), [], width * channels
    above = bytearray(stride)
    for y in range(height):
        line = raw[y * (stride + 1):(y + 1) * (stride + 1)]
        above = unfilter(line[0], bytearray(line[1:]), above, channels)
        rows.append(above)
    return width, height, channels, rows


def pixel(x, y, c):
    v = 128 + 60 * math.sin(x / (7 + c)) * math.cos(y / 9) + 40 * math.sin((x * y) / 700)
    return int(255 - v if (x // 37 + y // 29) % 5 == 0 else v) & 255


def npy(path):
    data = open(path, "rb").read()
    assert data[:8] == b"\x93NUMPY\x01\0", path
    (size,) = struct.unpack("<H", data[8:10])
    head = ast.literal_eval(data[10:10 + size].decode())
    assert head["descr"] == "<f4" and not head["fortran_order"], head
    return head["shape"], struct.unpack("<%df" % ((len(data) - 10 - size) // 4), data[10 + size:])


def main(what, *a):
    if what == "make":
        channels, width, height = CHANNELS[a[0]][0], int(a[1]), int(a[2])
        write(a[3], width, height, channels,
              [[pixel(x, y, c) for x in range(width) for c in range(channels)] for y in range(height)])
    elif what == "crop":
        _, _, channels, rows = read(a[0])
        x, y, width, height = map(int, a[1:5])
        write(a[5], width, height, channels, [r[x * channels:(x + width) * channels] for r in rows[y:y + height]])
    elif what == "size":
        print(*size_of(a[0]))
    elif what == "same":
        _, _, channels, big = read(a[0])
        width, height, ours, small = read(a[3])
        x0, y0, border = int(a[1]), int(a[2]), int(a[4])
        assert ours == channels
        worst = max(abs(big[y0 + y][x0 * channels + i] - small[y][i]) for y in range(border, height - border)
                    for i in range(border * channels, (width - border) * channels))
        print("largest difference:", worst, "levels")
        return worst > 1
    elif what == "golden":
        shape, got = npy(a[0])
        _, want = npy(a[1])
        assert shape == (1, 1, 672, 672), shape
        some = [got[4 * y * 672 + 4 * x] for y in range(168) for x in range(168)]
        worst = max(abs(g - w) for g, w in zip(some, want)) / max(map(abs, want))
        print("largest difference to the golden answer: %.2g" % worst)
        return not worst < 1e-4
    return 0


sys.exit(main(*sys.argv[1:]))
