#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes data/rows.bin: models whose rows stay apart in a batch, and models whose rows meet.

    python3 -m pip install numpy onnx && python3 make_rows.py

A record is: name, model, and 1 when rows meet, else 0. Where only runs tell it is 3 and 2. The numbers are little-endian u32. The batch
dimension of each model is open, and the input is x."""
import pathlib
import struct

import numpy as np
from onnx import TensorProto, helper, numpy_helper

rng = np.random.default_rng(35)
records = []
APART, MEET, RUNS_APART, RUNS_MEET = 0, 1, 2, 3


def node(kind, inputs, outputs, **attrs):
    return helper.make_node(kind, inputs.split(), outputs.split(), name=outputs.split()[0], **attrs)


def w(*shape):
    return (rng.standard_normal(shape) / np.sqrt(shape[0])).astype(np.float32)


def i64(*values):
    return np.array(values, np.int64)


def add(is_, name, shape, nodes, consts=None, opset=17, kind=TensorProto.FLOAT, out=TensorProto.FLOAT, more=()):
    graph = helper.make_graph(nodes, "rows", [helper.make_tensor_value_info("x", kind, ["N", *shape]), *more],
                              [helper.make_tensor_value_info("y", out, None)],
                              [numpy_helper.from_array(np.asarray(a), n) for n, a in (consts or {}).items()])
    m = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    records.append((name, m.SerializeToString(), is_))


def one(is_, name, shape, kind, consts=None, opset=17, **attrs):
    add(is_, name, shape, [node(kind, " ".join(["x", *(consts or {})]), "y", **attrs)], consts, opset)


def along_an_axis():
    for axis, is_ in ((0, MEET), (1, APART), (2, APART)):
        for kind in ("Softmax", "LogSoftmax", "LpNormalization"):
            one(is_, f"{kind} {axis}", (3, 4), kind, axis=axis)
        one(is_, f"CumSum {axis}", (3, 4), "CumSum", {"a": np.int64(axis)})
        one(is_, f"CumSum back {axis}", (3, 4), "CumSum", {"a": np.int64(axis)}, reverse=1, exclusive=1)
        for kind in ("ReduceMean", "ReduceMax", "ReduceL2", "ReduceLogSumExp"):
            add(is_, f"minus {kind} {axis}", (3, 4), [node(kind, "x", "m", axes=[axis]), node("Sub", "x m", "y")])
        reverse = {"s": i64(-1), "e": i64(-2**31), "a": i64(axis), "t": i64(-1)}
        one(is_, f"reverse {axis}", (3, 4), "Slice", reverse)
        shift = [node("Slice", "x s e a", "t"), node("Concat", "x t", "c", axis=axis), node("Slice", "c s1 e1 a", "y")]
        add(is_, f"turn {axis}", (3, 4), shift, {"s": i64(0), "e": i64(1), "a": i64(axis), "s1": i64(1), "e1": i64(2**31)})
    for axis in (1, 2):
        one(APART, f"Gather {axis}", (3, 4), "Gather", {"i": i64(2, 0)}, axis=axis)
        one(APART, f"ArgMax {axis}", (3, 4), "ArgMax", axis=axis)
        one(APART, f"Concat {axis}", (3, 4), "Identity")
        one(APART, f"reflect {axis}", (3, 4), "Pad", {"p": i64(*[0] * axis, 1, *[0] * 2, 1, *[0] * (2 - axis))}, mode="reflect")
    add(MEET, "one row for all", (4,), [node("Gather", "x i", "g", axis=0), node("Add", "x g", "y")], {"i": i64(0)})
    add(MEET, "rows by number", (4,), [node("ReduceSum", "x a", "s", keepdims=0), node("Cast", "s", "i", to=7),
                                       node("Gather", "x i", "y", axis=0)], {"a": i64(1)})
    add(MEET, "largest value of all", (4,), [node("ReduceMax", "x", "m", keepdims=0), node("Div", "x m", "y")])


def attention(x, name, perm):
    """Scaled products between all positions of x, whose axes the permutation brings in order."""
    return [node("Transpose", x, f"{name}t", perm=perm), node("MatMul", f"{x} {name}t", f"{name}s"),
            node("Softmax", f"{name}s", f"{name}p", axis=-1), node("MatMul", f"{name}p {x}", name)]


def products():
    one(APART, "MatMul", (5,), "MatMul", {"w": w(5, 3)})
    one(APART, "MatMul of three", (4, 5), "MatMul", {"w": w(5, 3)})
    one(APART, "Gemm", (5,), "Gemm", {"w": w(3, 5), "b": w(3)}, transB=1)
    add(APART, "attention", (6, 5), attention("x", "y", [0, 2, 1]))
    add(MEET, "attention over the batch", (5,), attention("x", "y", [1, 0]))
    add(MEET, "its own square", (5,), [node("Transpose", "x", "t", perm=[1, 0]), node("MatMul", "t x", "s"), node("MatMul", "x s", "y")])
    heads = [node("MatMul", "x w", "q"), node("Reshape", "q to", "h"), node("Transpose", "h", "t", perm=[0, 2, 1, 3])]
    back = [node("Transpose", "a", "b", perm=[0, 2, 1, 3]), node("Reshape", "b flat", "y")]
    shapes = {"w": w(8, 8), "to": i64(0, 6, 2, 4), "flat": i64(0, 6, 8)}
    add(APART, "attention with heads", (6, 8), heads + attention("t", "a", [0, 1, 3, 2]) + back, shapes)
    first = [node("Transpose", "x", "l", perm=[1, 0, 2]), node("MatMul", "l w", "q"), node("Add", "q b", "qb")]
    split = [node("Reshape", "qb to", "h"), node("Transpose", "h", "t", perm=[1, 0, 2])]
    join = [node("Transpose", "a", "c", perm=[1, 0, 2]), node("Reshape", "c flat", "d"), node("Transpose", "d", "y", perm=[1, 0, 2])]
    shapes = {"w": w(8, 8), "b": w(8), "to": i64(6, -1, 4), "flat": i64(6, -1, 8)}
    add(APART, "attention, length first", (6, 8), first + split + attention("t", "a", [0, 2, 1]) + join, shapes)
    windows = [node("Reshape", "x cut", "c"), node("Transpose", "c", "t", perm=[0, 1, 3, 2, 4, 5]), node("Reshape", "t win", "v")]
    unwind = [node("Reshape", "a uncut", "u"), node("Transpose", "u", "b", perm=[0, 1, 3, 2, 4, 5]), node("Reshape", "b back", "y")]
    shapes = {"cut": i64(-1, 2, 2, 2, 3, 4), "win": i64(-1, 6, 4), "uncut": i64(-1, 2, 2, 2, 3, 4), "back": i64(-1, 4, 6, 4)}
    add(APART, "attention in windows", (4, 6, 4), windows + attention("v", "a", [0, 2, 1]) + unwind, shapes)


def pictures():
    one(APART, "Conv", (4, 6, 5), "Conv", {"w": w(3, 4, 3, 3), "b": w(3)}, pads=[1] * 4)
    one(APART, "Conv in groups", (4, 6, 5), "Conv", {"w": w(6, 2, 3, 3)}, group=2)
    one(APART, "Conv 1-D", (4, 9), "Conv", {"w": w(3, 4, 3)})
    one(APART, "ConvTranspose", (4, 3, 5), "ConvTranspose", {"w": w(4, 3, 2, 2)}, strides=[2, 2])
    one(APART, "MaxPool", (2, 6, 4), "MaxPool", kernel_shape=[2, 2])
    one(APART, "GlobalAveragePool", (2, 6, 4), "GlobalAveragePool")
    one(APART, "InstanceNormalization", (3, 5, 4), "InstanceNormalization", {"s": w(3), "b": w(3)})
    one(APART, "BatchNormalization", (3, 5, 4), "BatchNormalization", {"s": w(3), "b": w(3), "m": w(3), "v": abs(w(3)) + 1})
    one(APART, "LayerNormalization", (3, 5), "LayerNormalization", {"s": w(5)}, axis=-1)
    one(APART, "Resize", (2, 3, 4), "Resize", {"r": np.float32([]), "t": np.float32([1, 1, 2, 2])}, mode="linear")
    one(APART, "DepthToSpace", (8, 2, 3), "DepthToSpace", blocksize=2)
    one(APART, "Pad", (2, 3, 4), "Pad", {"p": i64(0, 0, 1, 2, 0, 0, 3, 0)})
    one(APART, "Flatten", (2, 3, 4), "Flatten")
    add(APART, "channels last and back", (3, 4, 5), [node("Transpose", "x", "t", perm=[0, 2, 3, 1]), node("LayerNormalization", "t s", "n"),
                                                    node("Transpose", "n", "y", perm=[0, 3, 1, 2])], {"s": w(3)})
    add(MEET, "the batch as channels", (6, 5), [node("Reshape", "x to", "c"), node("Conv", "c w", "d", pads=[1] * 4), node("Reshape", "d back", "y")],
        {"to": i64(1, 1, -1, 5), "w": w(1, 1, 3, 3), "back": i64(-1, 6, 5)})
    add(APART, "the batch as a side of 1x1", (6, 5), [node("Transpose", "x", "t", perm=[2, 0, 1]), node("Reshape", "t to", "c"), node("Conv", "c w", "d"),
                                                     node("Reshape", "d mid", "m"), node("Transpose", "m", "y", perm=[1, 2, 0])],
        {"to": i64(1, 5, -1, 1), "w": w(5, 5, 1, 1), "mid": i64(5, -1, 6)})
    add(MEET, "pool over the batch", (4,), [node("Reshape", "x to", "c"), node("MaxPool", "c", "p", kernel_shape=[3, 1], pads=[1, 0, 1, 0]), node("Reshape", "p back", "y")],
        {"to": i64(1, 1, -1, 4), "back": i64(-1, 4)})


def shapes():
    one(APART, "Identity", (4,), "Identity")
    one(APART, "Expand", (1, 4), "Expand", {"s": i64(1, 3, 4)})
    one(APART, "Tile", (2, 4), "Tile", {"r": i64(1, 2, 3)})
    one(APART, "Slice with steps", (9, 4), "Slice", {"s": i64(8), "e": i64(-2**31), "a": i64(1), "t": i64(-2)})
    add(APART, "class token", (5, 4), [node("Shape", "x", "s"), node("Gather", "s zero", "n"), node("Concat", "n tail", "to", axis=0), node("Expand", "token to", "e"),
                                       node("Concat", "e x", "c", axis=1), node("Add", "c pos", "y")],
        {"zero": i64(0), "tail": i64(1, 4), "token": w(1, 1, 4), "pos": w(1, 6, 4)})
    add(APART, "Split", (6, 4), [node("Split", "x", "a b", axis=1), node("Mul", "a b", "y")], opset=13)
    add(APART, "Where", (5,), [node("Greater", "x z", "c"), node("Where", "c x z", "y")], {"z": np.float32(0)})
    add(APART, "embedding", (5,), [node("Gather", "t x", "e", axis=0), node("MatMul", "e w", "y")], {"t": w(9, 4), "w": w(4, 3)}, kind=TensorProto.INT64)
    add(MEET, "rows in another order", (4,), [node("Transpose", "x", "t", perm=[1, 0]), node("Reshape", "t to", "y")], {"to": i64(-1, 4)})
    for parts in (2, 3, 6):
        fold = [node("Reshape", "x to", "f"), node("Softmax", "f", "s", axis=1), node("Reshape", "s back", "y")]
        add(RUNS_MEET, f"the batch in {parts} parts", (12,), fold, {"to": i64(parts, -1), "back": i64(-1, 12)})
    add(MEET, "scale of all", (4,), [node("Abs", "x", "a"), node("ReduceMax", "a", "m", keepdims=0), node("Div", "x m", "d"), node("Round", "d", "y")])
    count = [node("Shape", "x", "s"), node("Gather", "s zero", "n"), node("Cast", "n", "f", to=1)]
    add(MEET, "divided by the number of rows", (4,), count + [node("Div", "x f", "y")], {"zero": i64(0)})
    add(MEET, "plus the number of rows", (4,), count + [node("Mul", "w f", "a"), node("Add", "x a", "y")], {"zero": i64(0), "w": w(1, 4)})
    add(APART, "divided by the number of columns", (4,), count + [node("Div", "x f", "y")], {"zero": i64(1)})
    places = [helper.make_tensor_value_info("i", TensorProto.INT64, ["N", 4])]
    add(RUNS_APART, "GatherElements 1", (4,), [node("GatherElements", "x i", "y", axis=1)], more=places)
    add(RUNS_MEET, "GatherElements 0", (4,), [node("GatherElements", "x i", "y", axis=0)], more=places)


along_an_axis()
products()
pictures()
shapes()
with open(pathlib.Path(__file__).parent / "data" / "rows.bin", "wb") as out:
    for name, blob, is_ in records:
        for part in (name.encode(), blob):
            out.write(struct.pack("<I", len(part)) + part)
        out.write(struct.pack("<I", is_))
print(len(records), "models")
