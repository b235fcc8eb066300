#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes ONNX models that mean no good: onnx_bytes.py KIND > model.onnx. No package is needed.

slow    a chain of convolutions that takes many seconds: 1200 of them, or as many as a second argument says
slots   inputs and outputs of half a GiB each, which every slot of every session needs
arena   a single number in and out, gigabytes in between
weights a constant that grows hundreds of times in a CPU library's own layout
"""
import struct
import sys


def number(n):
    out = b""
    while n > 127:
        out += bytes([n & 127 | 128])
        n >>= 7
    return out + bytes([n])


def num(field, n):
    return number(field << 3) + number(n)


def data(field, value):
    value = value.encode() if isinstance(value, str) else value
    return number(field << 3 | 2) + number(len(value)) + value


def value_info(name, dims):
    shape = b"".join(data(1, num(1, d)) for d in dims)
    return data(1, name) + data(2, data(1, num(1, 1) + data(2, shape)))


def ints(name, values):
    return data(5, data(1, name) + b"".join(num(8, v) for v in values) + num(20, 7))


def node(kind, inputs, output, *attributes):
    return data(1, b"".join(data(1, i) for i in inputs) + data(2, output) + data(4, kind) + b"".join(attributes))


def tensor(name, dims, kind, raw):
    return data(5, b"".join(num(1, d) for d in dims) + num(2, kind) + data(8, name) + data(9, raw))


def int64s(name, values):
    return tensor(name, [len(values)], 7, struct.pack(f"<{len(values)}q", *values))


def model(nodes, tensors, shape_in, shape_out):
    graph = nodes + data(2, "g") + tensors + data(11, value_info("x", shape_in)) + data(12, value_info("y", shape_out))
    return num(1, 8) + data(7, graph) + data(8, num(2, 13))


def slow(layers=1200):
    weights = tensor("w", [32, 32, 3, 3], 1, struct.pack("<9216f", *([0.001] * 9216)))
    names = ["x"] + [f"t{i}" for i in range(layers - 1)] + ["y"]
    nodes = b"".join(node("Conv", [a, "w"], b, ints("pads", [1, 1, 1, 1])) for a, b in zip(names, names[1:]))
    return model(nodes, weights, [1, 32, 128, 128], [1, 32, 128, 128])


def slots():
    shape = [1, 1 << 14, 1 << 13]
    return model(node("Relu", ["x"], "y"), b"", shape, shape)


def arena():
    side = (1 << 13) - 1
    pads = int64s("p", [0, 0, 0, 0, 0, 0, side, side])
    nodes = b"".join(node("Pad", ["x", "p"], f"a{i}") for i in range(12))
    nodes += b"".join(node("Add", [f"s{i - 1}" if i > 1 else "a0", f"a{i}"], f"s{i}") for i in range(1, 12))
    return model(nodes + node("GlobalAveragePool", ["s11"], "y"), pads, [1, 1, 1, 1], [1, 1, 1, 1])


def weights():
    side = 3500
    tensors = tensor("c", [1, 1, 1, 1], 1, struct.pack("<f", 1)) + int64s("p", [0, 0, 0, 0, 0, 0, side - 1, side - 1])
    nodes = node("Pad", ["c", "p"], "w") + node("Pad", ["x", "p"], "a") + node("Conv", ["a", "w"], "y")
    return model(nodes, tensors, [1, 1, 1, 1], [1, 1, 1, 1])


if __name__ == "__main__":
    sys.stdout.buffer.write({"slow": slow, "slots": slots, "arena": arena, "weights": weights}[sys.argv[1]](*map(int, sys.argv[2:])))
