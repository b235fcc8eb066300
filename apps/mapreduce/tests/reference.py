#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a job's result must be, in plain Python and numpy.

    reference.py wordcount|index|sort FILE...
    reference.py kmeans FILE CLUSTERS ROUNDS
    reference.py matvec FILE VECTOR

It writes the result to standard output. A double holds the product of two floats, so rounding once to a float after the sum
is what fmaf does, but for cases that are rarer than these tests meet.
"""
import collections
import io
import math
import sys


def words(path):
    with open(path, "rb") as f:
        return f.read().split()  # bytes.split() divides at the C locale's white space


def wordcount(paths):
    count = collections.Counter(w for p in paths for w in words(p))
    return b"".join(b"%s\t%d\n" % (w, count[w]) for w in sorted(count))


def index(paths):
    found = collections.defaultdict(set)
    for p in paths:
        for w in words(p):
            found[w].add(p.encode())
    return b"".join(b"\t".join([w, *sorted(found[w])]) + b"\n" for w in sorted(found))


def sort(paths):
    records = []
    for p in paths:
        with open(p, "rb") as f:
            data = f.read()
        records += [data[i:i + 100] for i in range(0, len(data), 100)]
    return b"".join(sorted(records))


def npy(array):
    import numpy

    shape = "(%d,)" % array.shape if array.ndim == 1 else "(%d, %d)" % array.shape
    head = "{'descr': '<f4', 'fortran_order': False, 'shape': %s, }" % shape
    out = io.BytesIO(b"\x93NUMPY\x01\x00\x76\x00" + head.encode().ljust(117) + b"\n" + array.astype("<f4").tobytes())
    assert numpy.array_equal(numpy.load(out), array)  # numpy itself reads it so
    return out.getvalue()


def minus_product(numpy, score, a, b):
    return (score.astype("f8") - a.astype("f8") * b.astype("f8")).astype("f4")


def kmeans(path, clusters, rounds):
    import numpy

    x = numpy.load(path).astype("f4")
    n, dims = x.shape
    centre = x[[k * n // clusters for k in range(clusters)]].copy()
    above = max(math.frexp(float(abs(x).max()))[1], -126)
    bits = n.bit_length()
    scale = math.ldexp(1, (62 - bits if bits > 12 else 50) - above)
    fixed = numpy.rint(x.astype("f8") * scale).astype("i8")
    for _ in range(rounds):
        half = numpy.zeros(clusters, "f4")
        for d in range(dims):
            half = minus_product(numpy, half, -centre[:, d], centre[:, d])
        score = numpy.broadcast_to(half / numpy.float32(2), (n, clusters))
        for d in range(dims):
            score = minus_product(numpy, score, x[:, d, None], centre[None, :, d])
        nearest = score.argmin(axis=1)  # of equal ones the first
        before = centre.copy()
        for k in range(clusters):
            mine = fixed[nearest == k]
            if len(mine):
                centre[k] = (mine.sum(axis=0).astype("f8") / len(mine) / scale).astype("f4")
        if numpy.array_equal(before, centre):
            break
    return npy(centre)


def matvec(path, vector):
    import numpy

    a, x = numpy.load(path), numpy.load(vector).reshape(-1)
    rows, columns = a.shape
    sums = numpy.zeros((rows, 128), "f4")
    for c in range(0, columns, 128):
        n = min(128, columns - c)
        sums[:, :n] = minus_product(numpy, sums[:, :n], -a[:, c:c + n], x[None, c:c + n])
    half = 64
    while half:
        sums = sums[:, :half] + sums[:, half:2 * half]
        half //= 2
    return npy(sums[:, 0])


def main(job, *args):
    if job in ("wordcount", "index", "sort"):
        out = globals()[job](sorted(args))
    elif job == "kmeans":
        out = kmeans(args[0], int(args[1]), int(args[2]))
    else:
        out = matvec(*args)
    sys.stdout.buffer.write(out)


main(*sys.argv[1:])
