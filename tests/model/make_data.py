#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes data/goldens.bin, data/operators.bin and data/refused.bin: small models, with inputs and the outputs ONNX Runtime
gives, and models that must be refused, with words the refusal must contain. The tests read these files and need no Python.

    python3 -m pip install numpy onnx onnxruntime
    python3 make_data.py

A pack is a list of records; all numbers are little-endian u32, strings and blobs start with their length:
    goldens: name, model, count of inputs, tensors, count of outputs, tensors    (tensor: type, rank, dimensions, data)
    operators: the same; make_operators.py has these
    refused: name, model, words
    external: the same, with weights in another file that test_external.c makes
two_failures.onnx is for `gpuwire check`, uneven.onnx for test_plan.c.
"""
import pathlib
import struct

import numpy as np
import onnx
import onnx.reference
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

HERE = pathlib.Path(__file__).parent / "data"
rng = np.random.default_rng(20)


def f32(*shape, low=-1.0, high=1.0):
    return rng.uniform(low, high, shape).astype(np.float32)


def i64(*values):
    return np.array(values, dtype=np.int64)


def info(name, shape, kind=TensorProto.FLOAT):
    return helper.make_tensor_value_info(name, kind, shape)


def model(nodes, inputs, outputs, consts=None, opset=13):
    """inputs: {name: shape}; outputs: [names] (their shapes are left to inference); consts: {name: array}."""
    graph = helper.make_graph(nodes, "test", [info(n, s) for n, s in inputs.items()],
                              [info(n, None) for n in outputs],
                              [numpy_helper.from_array(a, n) for n, a in (consts or {}).items()])
    m = helper.make_model(graph, producer_name="gpuwire", opset_imports=[helper.make_opsetid("", opset)])
    m.ir_version = 8
    return m


def node(op, inputs, outputs, name=None, **attrs):
    return helper.make_node(op, inputs, outputs, name=name or f"{op.lower()}_{outputs[0]}", **attrs)


goldens, refused = [], []


def golden(name, m, feeds):
    m = onnx.shape_inference.infer_shapes(m)
    for o in m.graph.output:
        if not o.type.tensor_type.HasField("shape"):  # inference does not know the operator: as the input
            o.type.CopyFrom(m.graph.input[0].type)
    onnx.checker.check_model(m)
    blob = m.SerializeToString()
    try:
        outs = onnxruntime.InferenceSession(blob, providers=["CPUExecutionProvider"]).run(None, feeds)
    except onnxruntime.capi.onnxruntime_pybind11_state.NotImplemented:  # not for this type: ONNX' own evaluator has it
        outs = onnx.reference.ReferenceEvaluator(m).run(None, feeds)
    goldens.append((name, blob, [feeds[i.name] for i in m.graph.input if i.name in feeds], outs))


def one(name, op, shapes, consts=None, opset=13, n_in=None, low=-1.0, high=1.0, **attrs):
    """A model of one operator: its inputs are x0, x1, … and then the constants, in order."""
    feeds = {f"x{i}": f32(*s, low=low, high=high) for i, s in enumerate(shapes)}
    names = list(feeds) + list(consts or {})
    golden(name, model([node(op, names, ["y"], **attrs)], {n: list(a.shape) for n, a in feeds.items()}, ["y"], consts,
                       opset), feeds)


def convolutions():
    def conv(name, x, w, bias=True, **attrs):
        consts = {"w": f32(*w)}
        if bias:
            consts["b"] = f32(w[0])
        one("conv " + name, "Conv", [x], consts, **attrs)

    conv("1x1", (1, 5, 7, 9), (6, 5, 1, 1))
    conv("3x3 padded", (1, 3, 11, 13), (8, 3, 3, 3), pads=[1, 1, 1, 1])
    conv("5x5 no bias", (1, 1, 17, 19), (9, 1, 5, 5), bias=False, pads=[2, 2, 2, 2])
    conv("strided uneven pads", (1, 4, 14, 15), (20, 4, 3, 3), strides=[2, 2], pads=[0, 1, 1, 0])
    conv("dilated", (1, 3, 16, 16), (5, 3, 3, 3), dilations=[2, 3], pads=[2, 3, 2, 3])
    conv("groups", (1, 12, 9, 9), (24, 4, 3, 3), group=3, pads=[1, 1, 1, 1])
    conv("depthwise", (1, 16, 10, 10), (16, 1, 3, 3), group=16, pads=[1, 1, 1, 1])
    conv("same upper", (1, 3, 10, 11), (7, 3, 4, 4), auto_pad="SAME_UPPER", strides=[2, 3])
    conv("same lower", (1, 3, 10, 11), (7, 3, 4, 4), auto_pad="SAME_LOWER")
    conv("valid", (1, 3, 10, 11), (7, 3, 3, 2), auto_pad="VALID")
    conv("batch of 3", (3, 6, 8, 8), (10, 6, 3, 3), pads=[1, 1, 1, 1])
    conv("1-d", (1, 6, 40), (12, 6, 5), pads=[2, 2], strides=[2])
    conv("33 channels", (1, 17, 12, 12), (33, 17, 3, 3), pads=[1, 1, 1, 1])
    conv("40 channels, many positions", (1, 2, 33, 33), (40, 2, 3, 3), pads=[1, 1, 1, 1])
    conv("70 channels", (1, 3, 6, 6), (70, 3, 3, 3), pads=[1, 1, 1, 1])
    conv("deep, few positions", (1, 96, 4, 4), (24, 96, 3, 3), pads=[1, 1, 1, 1])
    conv("wide kernel", (1, 2, 12, 30), (4, 2, 1, 9), pads=[0, 4, 0, 4])


def pools():
    one("maxpool 2x2", "MaxPool", [(1, 3, 8, 10)], kernel_shape=[2, 2], strides=[2, 2])
    one("maxpool padded", "MaxPool", [(2, 5, 9, 9)], kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    one("maxpool ceil", "MaxPool", [(1, 4, 12, 13)], kernel_shape=[3, 3], strides=[2, 2], ceil_mode=1)
    one("maxpool dilated", "MaxPool", [(1, 4, 12, 13)], kernel_shape=[2, 3], dilations=[2, 2])
    one("maxpool same", "MaxPool", [(1, 4, 11, 13)], kernel_shape=[3, 2], strides=[2, 2], auto_pad="SAME_UPPER")
    one("maxpool 1-d", "MaxPool", [(1, 4, 21)], kernel_shape=[3], strides=[2])
    one("avgpool", "AveragePool", [(1, 3, 8, 10)], kernel_shape=[2, 2], strides=[2, 2])
    one("avgpool padded", "AveragePool", [(1, 3, 9, 9)], kernel_shape=[3, 3], pads=[1, 1, 1, 1])
    one("avgpool count pads", "AveragePool", [(1, 3, 9, 9)], kernel_shape=[3, 3], pads=[1, 1, 1, 1], strides=[2, 2],
        count_include_pad=1)
    one("avgpool ceil", "AveragePool", [(1, 3, 12, 12)], kernel_shape=[3, 3], strides=[2, 2], ceil_mode=1)
    one("global average", "GlobalAveragePool", [(1, 20, 7, 5)])
    one("global max", "GlobalMaxPool", [(2, 6, 7, 5)])


def elementwise():
    for op, attrs in (("Relu", {}), ("LeakyRelu", {"alpha": 0.2}), ("LeakyRelu", {}), ("Sigmoid", {}), ("Tanh", {})):
        one(f"{op.lower()} {attrs.get('alpha', '')}".strip(), op, [(2, 3, 5, 7)], low=-4, high=4, **attrs)
    one("clip both", "Clip", [(1, 40)], {"lo": np.float32(-0.3), "hi": np.float32(0.4)})
    one("clip attributes", "Clip", [(1, 40)], opset=7, min=-0.5, max=0.25)
    lo = model([node("Clip", ["x", "", "hi"], ["y"])], {"x": [3, 9]}, ["y"], {"hi": np.float32(0.1)})
    golden("clip upper only", lo, {"x": f32(3, 9)})
    for op in ("Add", "Sub", "Mul", "Div"):
        one(f"{op.lower()} same", op, [(2, 3, 4, 5), (2, 3, 4, 5)], low=0.5, high=2)
        one(f"{op.lower()} broadcast", op, [(2, 3, 1, 5), (4, 1)], low=0.5, high=2)
    one("add constant", "Add", [(1, 6, 5, 5)], {"c": f32(6, 1, 1)})
    one("mul scalar", "Mul", [(1, 6, 5, 5)], {"c": np.float32(1.7)})
    one("sub from constant", "Add", [(7,)], {"c": f32(3, 1)})
    for axis in (-1, 1):
        one(f"softmax 13 axis {axis}", "Softmax", [(2, 10, 3, 4)], low=-5, high=5, axis=axis)
        one(f"softmax 11 axis {axis}", "Softmax", [(2, 10, 3, 4)], opset=11, low=-5, high=5, axis=axis)
    bn = {"s": f32(6), "b": f32(6), "m": f32(6), "v": f32(6, low=0.5, high=2)}
    one("batchnorm", "BatchNormalization", [(2, 6, 5, 5)], bn, epsilon=1e-3)


def products():
    one("gemm", "Gemm", [(3, 17)], {"w": f32(17, 9), "c": f32(9)})
    one("gemm transB", "Gemm", [(1, 64)], {"w": f32(30, 64), "c": f32(30)}, transB=1)
    one("gemm transA alpha beta", "Gemm", [(5, 4)], {"w": f32(5, 6), "c": f32(6)}, transA=1, alpha=0.5, beta=2.0)
    one("gemm full C", "Gemm", [(4, 5)], {"w": f32(5, 6), "c": f32(4, 6)})
    one("gemm no C", "Gemm", [(4, 5)], {"w": f32(5, 6)})
    one("gemm two inputs", "Gemm", [(4, 5), (6, 5)], transB=1)
    one("gemm scalar C", "Gemm", [(4, 5)], {"w": f32(5, 6), "c": f32(1)})
    one("matmul", "MatMul", [(4, 33)], {"w": f32(33, 7)})
    one("matmul batched rows", "MatMul", [(2, 3, 4, 8)], {"w": f32(8, 5)})
    one("matmul two inputs", "MatMul", [(6, 10), (10, 4)])
    m = model([node("MatMul", ["x", "w"], ["h"]), node("Add", ["h", "b"], ["i"]), node("Relu", ["i"], ["y"])],
              {"x": [2, 12]}, ["y"], {"w": f32(12, 5), "b": f32(5)})
    golden("matmul add relu", m, {"x": f32(2, 12)})


def shapes():
    one("transpose", "Transpose", [(2, 3, 4, 5)], perm=[0, 2, 3, 1])
    one("transpose reverse", "Transpose", [(2, 3, 4)])
    one("reshape", "Reshape", [(2, 3, 4)], {"s": i64(0, -1)})
    one("flatten", "Flatten", [(2, 3, 4, 5)], axis=2)
    one("flatten negative", "Flatten", [(2, 3, 4, 5)], axis=-1)
    one("squeeze", "Squeeze", [(1, 3, 1, 5)], {"a": i64(0, 2)})
    one("squeeze all", "Squeeze", [(1, 3, 1, 5)])
    one("squeeze 11", "Squeeze", [(1, 3, 1, 5)], opset=11, axes=[-2])
    one("unsqueeze", "Unsqueeze", [(3, 5)], {"a": i64(0, -1)})
    one("unsqueeze 11", "Unsqueeze", [(3, 5)], opset=11, axes=[1])
    one("identity", "Identity", [(1, 1, 6, 6)])
    one("dropout", "Dropout", [(2, 5)])
    one("depth to space dcr", "DepthToSpace", [(1, 18, 4, 5)], blocksize=3)
    one("depth to space crd", "DepthToSpace", [(2, 8, 4, 5)], blocksize=2, mode="CRD")
    one("concat channels", "Concat", [(1, 3, 4, 5), (1, 2, 4, 5), (1, 1, 4, 5)], axis=1)
    one("concat last", "Concat", [(2, 3), (2, 4)], axis=-1)
    one("concat constant", "Concat", [(2, 3)], {"c": f32(2, 2)}, axis=1)
    one("pad", "Pad", [(1, 2, 4, 5)], {"p": i64(0, 0, 1, 2, 0, 1, 3, 0), "v": np.float32(0.5)})
    one("pad attributes", "Pad", [(1, 2, 4, 5)], opset=10, pads=[0, 0, 2, 2, 0, 0, 2, 2], value=-1.0)
    axes = model([node("Pad", ["x", "p", "", "a"], ["y"])], {"x": [2, 3, 4]}, ["y"], {"p": i64(1, 2), "a": i64(-1)}, 18)
    golden("pad axes", axes, {"x": f32(2, 3, 4)})


def whole_networks():
    # Batch normalisation, a product and a sum per channel all go into the convolution before them.
    bn = {"s": f32(8), "b": f32(8), "m": f32(8), "v": f32(8, low=0.5, high=2)}
    consts = {"w": f32(8, 3, 3, 3), "c": f32(8), **bn, "k": f32(8, 1, 1), "o": np.float32(0.25)}
    m = model([node("Conv", ["x", "w", "c"], ["1"], pads=[1, 1, 1, 1]),
               node("BatchNormalization", ["1", "s", "b", "m", "v"], ["2"]),
               node("Mul", ["k", "2"], ["3"]), node("Sub", ["3", "o"], ["4"]), node("LeakyRelu", ["4"], ["y"])],
              {"x": [1, 3, 9, 9]}, ["y"], consts)
    golden("net conv bn mul sub leaky", m, {"x": f32(1, 3, 9, 9)})

    # A value used twice must not be fused away; an output in the middle neither.
    m = model([node("Conv", ["x", "w", "c"], ["1"], pads=[1, 1, 1, 1]), node("Relu", ["1"], ["2"]),
               node("Add", ["1", "2"], ["y"]), node("Sigmoid", ["2"], ["z"])],
              {"x": [1, 3, 6, 6]}, ["y", "z", "1"], {"w": f32(4, 3, 3, 3), "c": f32(4)})
    golden("net value used twice", m, {"x": f32(1, 3, 6, 6)})

    # Super-resolution as PyTorch exports it, with pixel shuffle as Reshape, Transpose, Reshape; tanh after it.
    consts = {"w1": f32(16, 1, 5, 5) / 5, "b1": f32(16), "w2": f32(12, 16, 3, 3) / 12, "b2": f32(12),
              "w3": f32(9, 12, 3, 3) / 10, "b3": f32(9), "s1": i64(1, 1, 3, 3, 12, 14), "s2": i64(1, 1, 36, 42)}
    nodes = [node("Conv", ["x", "w1", "b1"], ["1"], pads=[2, 2, 2, 2]), node("Tanh", ["1"], ["2"]),
             node("Conv", ["2", "w2", "b2"], ["3"], pads=[1, 1, 1, 1]), node("Relu", ["3"], ["4"]),
             node("Conv", ["4", "w3", "b3"], ["5"], pads=[1, 1, 1, 1]), node("Reshape", ["5", "s1"], ["6"]),
             node("Transpose", ["6"], ["7"], perm=[0, 1, 4, 2, 5, 3]), node("Reshape", ["7", "s2"], ["8"])]
    golden("net espcn", model(nodes + [node("Identity", ["8"], ["y"])], {"x": [1, 1, 12, 14]}, ["y"], consts),
           {"x": f32(1, 1, 12, 14)})
    golden("net espcn clip", model(nodes + [node("Clip", ["8", "lo", "hi"], ["y"])], {"x": [1, 1, 12, 14]}, ["y"],
                                   {**consts, "lo": np.float32(0), "hi": np.float32(1)}), {"x": f32(1, 1, 12, 14)})

    # As the network in models/: two convolutions, their sum, depth to space.
    consts = {"w1": f32(8, 1, 5, 5), "b1": f32(8), "w2": f32(9, 8, 3, 3), "b2": f32(9), "base": f32(9, 1, 5, 5)}
    m = model([node("Conv", ["x", "w1", "b1"], ["1"], pads=[2, 2, 2, 2]), node("Relu", ["1"], ["2"]),
               node("Conv", ["2", "w2", "b2"], ["3"], pads=[1, 1, 1, 1]),
               node("Conv", ["x", "base"], ["4"], pads=[2, 2, 2, 2]), node("Add", ["4", "3"], ["5"]),
               node("DepthToSpace", ["5"], ["y"], blocksize=3)], {"x": [1, 1, 20, 21]}, ["y"], consts)
    golden("net residual depth to space", m, {"x": f32(1, 1, 20, 21)})

    # A fire module of SqueezeNet and its classifier.
    consts = {"w0": f32(20, 3, 3, 3), "b0": f32(20), "ws": f32(6, 20, 1, 1), "bs": f32(6), "w1": f32(12, 6, 1, 1),
              "b1": f32(12), "w3": f32(12, 6, 3, 3), "b3": f32(12), "wc": f32(10, 24, 1, 1) / 4, "bc": f32(10)}
    m = model([node("Conv", ["x", "w0", "b0"], ["a"], strides=[2, 2]), node("Relu", ["a"], ["b"]),
               node("MaxPool", ["b"], ["c"], kernel_shape=[3, 3], strides=[2, 2]),
               node("Conv", ["c", "ws", "bs"], ["d"]), node("Relu", ["d"], ["e"]),
               node("Conv", ["e", "w1", "b1"], ["f"]), node("Relu", ["f"], ["g"]),
               node("Conv", ["e", "w3", "b3"], ["h"], pads=[1, 1, 1, 1]), node("Relu", ["h"], ["i"]),
               node("Concat", ["g", "i"], ["j"], axis=1), node("Dropout", ["j"], ["k"]),
               node("Conv", ["k", "wc", "bc"], ["l"]), node("Relu", ["l"], ["m"]),
               node("GlobalAveragePool", ["m"], ["n"]), node("Flatten", ["n"], ["o"]),
               node("Softmax", ["o"], ["y"], axis=1)], {"x": [1, 3, 31, 31]}, ["y"], consts)
    golden("net squeezenet", m, {"x": f32(1, 3, 31, 31)})

    # A residual block, then x.view(x.size(0), -1) as PyTorch exports it, then a classifier.
    def norm(n, c):
        return {f"{n}{k}": v for k, v in (("s", f32(c)), ("b", f32(c)), ("m", f32(c)), ("v", f32(c, low=0.5, high=2)))}

    consts = {"w0": f32(16, 3, 7, 7) / 5, "w1": f32(16, 16, 3, 3) / 5, "w2": f32(16, 16, 3, 3) / 5, **norm("n0", 16),
              **norm("n1", 16), **norm("n2", 16), "fc": f32(10, 16), "fb": f32(10), "zero": i64(0)[0], "axes": i64(0),
              "rest": i64(-1)}

    def bnorm(x, n, y):
        return node("BatchNormalization", [x] + [n + k for k in "sbmv"], [y])

    m = model([node("Conv", ["x", "w0"], ["1"], strides=[2, 2], pads=[3, 3, 3, 3]), bnorm("1", "n0", "2"),
               node("Relu", ["2"], ["3"]),
               node("MaxPool", ["3"], ["4"], kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1]),
               node("Conv", ["4", "w1"], ["5"], pads=[1, 1, 1, 1]), bnorm("5", "n1", "6"), node("Relu", ["6"], ["7"]),
               node("Conv", ["7", "w2"], ["8"], pads=[1, 1, 1, 1]), bnorm("8", "n2", "9"),
               node("Add", ["9", "4"], ["10"]), node("Relu", ["10"], ["11"]), node("GlobalAveragePool", ["11"], ["12"]),
               node("Shape", ["12"], ["13"]), node("Gather", ["13", "zero"], ["14"]),
               node("Unsqueeze", ["14", "axes"], ["15"]), node("Concat", ["15", "rest"], ["16"], axis=0),
               node("Reshape", ["12", "16"], ["17"]), node("Gemm", ["17", "fc", "fb"], ["y"], transB=1)],
              {"x": [1, 3, 32, 32]}, ["y"], consts)
    golden("net resnet", m, {"x": f32(1, 3, 32, 32)})

    # Constants all the way: folded; and an output that is an input, a constant, another output.
    m = model([node("Constant", [], ["c"], value=numpy_helper.from_array(f32(2, 3))),
               node("Transpose", ["c"], ["d"], perm=[1, 0]), node("Relu", ["d"], ["e"]), node("Identity", ["x"], ["p"]),
               node("Add", ["x", "e"], ["q"]), node("Reshape", ["q", "s"], ["r"]), node("Softmax", ["e"], ["t"])],
              {"x": [3, 2]}, ["p", "e", "q", "r", "t"], {"s": i64(6)})
    golden("net constants and outputs", m, {"x": f32(3, 2)})

    # Long chains and branches that the arena has to keep apart.
    nodes, consts = [node("Relu", ["x"], ["v0"])], {}
    for i in range(12):
        nodes.append(node("Mul", [f"v{i}", f"k{i}"], [f"m{i}"], name=f"mul{i}"))
        nodes.append(node("Add", [f"m{i}", f"v{i // 2}"], [f"v{i + 1}"], name=f"add{i}"))
        consts[f"k{i}"] = f32(1, 1, 1, 7)
    golden("net branches", model(nodes, {"x": [1, 3, 5, 7]}, ["v12"], consts), {"x": f32(1, 3, 5, 7)})

    # An open batch dimension is taken as 1; weights listed among the inputs, as old files do.
    m = model([node("Conv", ["x", "w"], ["y"])], {"x": ["N", 2, 5, 5], "w": [3, 2, 3, 3]}, ["y"], {"w": f32(3, 2, 3, 3)})
    m.ir_version = 3
    blob = m.SerializeToString()
    x = f32(1, 2, 5, 5)
    out = onnxruntime.InferenceSession(blob, providers=["CPUExecutionProvider"]).run(None, {"x": x})
    goldens.append(("net open batch", blob, [x], out))


def bad():
    def refuse(name, m, words):
        refused.append((name, m if isinstance(m, bytes) else m.SerializeToString(), words))

    conv = {"w": f32(4, 3, 3, 3)}
    refuse("unknown operator", model([node("Einsum", ["x"], ["y"], name="mixer", equation="i->i")], {"x": [4]}, ["y"]),
           "node 'mixer' (Einsum): the operator is not supported")
    m = model([node("Relu", ["x"], ["y"], name="r")], {"x": [4]}, ["y"])
    m.graph.node[0].domain = "com.example"
    refuse("other domain", m, "node 'r' (Relu): operators of domain 'com.example' are not supported")
    m = model([node("Conv", ["x", "w"], ["y"])], {"x": [1, 3, 8, 8]}, ["y"], conv)
    t = m.graph.initializer[0]
    t.ClearField("raw_data")
    t.data_location = TensorProto.EXTERNAL
    t.external_data.add(key="location", value="../../etc/passwd")
    refuse("external data", m, "tensor 'w': its data is in another file (external data)")
    words = model([node("Relu", ["x"], ["y"])], {"x": [4]}, ["y"])
    words.graph.input[0].type.tensor_type.elem_type = TensorProto.STRING
    refuse("string input", words, "input 'x' has type string, which is not supported")
    refuse("complex weights", model([node("Conv", ["x", "w"], ["y"])], {"x": [1, 3, 8, 8]}, ["y"],
                                    {"w": conv["w"].astype(np.complex64)}), "tensor 'w' has type complex64, which is not")
    whole = model([node("Sigmoid", ["x"], ["y"], name="s")], {"x": [4]}, ["y"])
    whole.graph.input[0].type.tensor_type.elem_type = TensorProto.INT64
    refuse("integers", whole, "node 's' (Sigmoid): input 'x' is an integer tensor")
    refuse("index", model([node("Gather", ["x", "i"], ["y"], name="g")], {"x": [4, 2]}, ["y"], {"i": i64(1, 4)}),
           "node 'g' (Gather): index 4 of 4")
    refuse("data-dependent", model([node("Cast", ["x"], ["s"], to=TensorProto.INT64), node("Reshape", ["x", "s"], ["y"], name="r")],
                                   {"x": [2]}, ["y"]), "node 'r' (Reshape): input 's' must be a constant list")
    refuse("open height", model([node("Relu", ["x"], ["y"])], {"x": ["N", 1, "H", 4]}, ["y"]),
           "input 'x': the size of dimension 2 is open")
    refuse("old opset", model([node("Relu", ["x"], ["y"])], {"x": [4]}, ["y"], opset=6), "operator set 6; supported are 7")
    other = model([node("Relu", ["x"], ["y"])], {"x": [4]}, ["y"])
    other.opset_import[0].domain, other.opset_import[0].version = "ai.onnx.ml", 1
    refuse("other domain alone", other, "its operators are of domain 'ai.onnx.ml'")
    wide = model([node("ConvTranspose", ["x", "w"], ["y"], output_shape=[14], strides=[3])], {"x": [1, 3, 3]}, ["y"], {"w": f32(3, 4, 3)})
    refuse("output_shape beyond the input", wide, "an output_shape of 14, where 9 is all that the input reaches")
    unsigned = model([node("Div", ["x", "x"], ["y"])], {"x": [4]}, ["y"])
    unsigned.graph.input[0].type.tensor_type.elem_type = TensorProto.UINT64
    refuse("uint64 quotient", unsigned, "uint64 numbers are not divided or put in an order")
    double = model([node("MatMul", ["x", "x"], ["y"])], {"x": [4, 4]}, ["y"])
    double.graph.input[0].type.tensor_type.elem_type = TensorProto.DOUBLE
    refuse("float64 product", double, "input 'x' is a float64 tensor; convert the model to float32")
    refuse("future opset", model([node("Relu", ["x"], ["y"])], {"x": [4]}, ["y"], opset=99), "operator set 99")
    refuse("unsorted", model([node("Relu", ["b"], ["y"], name="r"), node("Relu", ["x"], ["b"])], {"x": [4]}, ["y"]),
           "node 'r' (Relu): input 'b' is not made by any node before it")
    refuse("no such output", model([node("Relu", ["x"], ["y"])], {"x": [4]}, ["z"]), "output 'z' is not made")
    refuse("made twice", model([node("Relu", ["x"], ["y"]), node("Tanh", ["x"], ["y"])], {"x": [4]}, ["y"]),
           "the value 'y' is made twice")
    refuse("attribute", model([node("Relu", ["x"], ["y"], name="r", slope=2.0)], {"x": [4]}, ["y"]),
           "node 'r' (Relu): attribute 'slope' is not supported")
    refuse("attribute type", model([node("Flatten", ["x"], ["y"], axis=1.5)], {"x": [4, 2]}, ["y"]),
           "attribute 'axis' has the wrong type")
    refuse("channels", model([node("Conv", ["x", "w"], ["y"], name="c")], {"x": [1, 5, 8, 8]}, ["y"], conv),
           "node 'c' (Conv): weights 4 x 3 do not fit 5 input channels in 1 groups")
    refuse("window", model([node("Conv", ["x", "w"], ["y"], name="c")], {"x": [1, 3, 2, 2]}, ["y"], conv),
           "node 'c' (Conv): a window of 3 on an input of 2")
    refuse("second output", model([node("MaxPool", ["x"], ["p", "i"], kernel_shape=[2, 2]), node("Relu", ["i"], ["y"])],
                                  {"x": [1, 1, 4, 4]}, ["y"]), "input 'i' is an operator's second output")
    refuse("reshape", model([node("Reshape", ["x", "s"], ["y"])], {"x": [4, 3]}, ["y"], {"s": i64(5, -1)}),
           "the new shape does not hold the input's 12 elements")
    refuse("data missing", model([node("Add", ["x", "w"], ["y"])], {"x": [4]}, ["y"], {"w": f32(4)}).SerializeToString()
           .replace(b"\x08\x04\x10\x01", b"\x08\x05\x10\x01", 1), "the data does not fill the shape exactly")
    body = helper.make_graph([node("Relu", ["x"], ["b"])], "body", [], [info("b", [4])])
    refuse("control flow", model([node("If", ["x"], ["y"], name="branch", then_branch=body, else_branch=body)],
                                 {"x": [4]}, ["y"]), "node 'branch' (If): the operator is not supported")
    refuse("broadcast", model([node("Add", ["x", "z"], ["y"], name="a")], {"x": [4], "z": [3]}, ["y"]),
           "node 'a' (Add): the shapes of its inputs do not fit")
    refuse("too large", model([node("Pad", ["x", "p"], ["y"], name="p")], {"x": [1024, 1024]}, ["y"],
                              {"p": i64(1 << 20, 1 << 20, 0, 0)}), "node 'p' (Pad): its result has more than 2^28")
    padded = helper.make_graph([node("Pad", ["x"], ["y"], name="p", pads=[1, 1], value=float("nan"))], "padded",
                               [info("x", [4], TensorProto.INT64)], [info("y", [6], TensorProto.INT64)])
    refuse("pad of integers", helper.make_model(padded, opset_imports=[helper.make_opsetid("", 9)]), "must be its third input")
    refuse("no graph", onnx.ModelProto(ir_version=8).SerializeToString(), "not an ONNX model, or truncated")


def external_models():
    """y = x + w, with w in another file: name, model, words of the refusal (none: it runs)."""
    records = []

    def external(name, words, **keys):
        m = model([node("Add", ["x", "w"], ["y"])], {"x": [4]}, ["y"], {"w": f32(4)})
        t = m.graph.initializer[0]
        t.ClearField("raw_data")
        t.data_location = TensorProto.EXTERNAL
        for key, value in keys.items():
            t.external_data.add(key=key, value=value)
        records.append((name, m.SerializeToString(), words))

    external("below", "", location="sub/weights.bin", offset="16", length="16")
    external("no length", "", location="short.bin")
    external("above", "must stay in the model's folder", location="../weights.bin")
    external("absolute", "must stay in the model's folder", location="/etc/passwd")
    external("above from below", "must stay in the model's folder", location="sub/../../x")
    external("a link", "goes through a link", location="link.bin", length="16")
    external("a linked folder", "tensor 'w': external data 'linked/weights.bin'", location="linked/weights.bin", length="16")
    external("no such file", "No such file", location="other.bin")
    external("a pipe", "not a regular file", location="pipe")
    external("a folder", "not a regular file", location="sub")
    external("past the end", "the file ends before the tensor does", location="sub/weights.bin", offset="250", length="16")
    external("offset past the end", "the file ends before", location="sub/weights.bin", offset="18446744073709551615", length="16")
    external("another size", "does not fill the shape", location="sub/weights.bin", length="12")
    external("no number", "location, offset or length", location="sub/weights.bin", offset="-16", length="16")
    external("no place", "location, offset or length", length="16")
    return records


def two_failures():
    """A model in which two nodes of three fail, and what comes after one of them does not count."""
    return model([node("Einsum", ["x"], ["a"], name="first", equation="i->i"), node("Relu", ["a"], ["b"]),
                  node("Det", ["b"], ["c"], name="second"), node("Relu", ["x"], ["y"])], {"x": [4]}, ["y", "c"])


def uneven():
    """A model whose output holds two samples for two rows, and four for three."""
    return model([node("Upsample", ["x", "s"], ["y"], mode="nearest")], {"x": ["N", 2]}, ["y"],
                 {"s": np.array([1.4, 1], np.float32)}, opset=9)


def text(s):
    s = s.encode() if isinstance(s, str) else s
    return struct.pack("<I", len(s)) + s


# enum gw_dtype of <gpuwire/model.h>. A bfloat16 tensor stands here as (bits, "bfloat16").
TYPES = {"float32": 1, "float16": 2, "bfloat16": 3, "float64": 4, "bool": 5, "uint8": 6, "int8": 7, "uint16": 8, "int16": 9,
         "uint32": 10, "int32": 11, "uint64": 12, "int64": 13}


def tensor(a):
    a, kind = a if isinstance(a, tuple) else (np.asarray(a), None)
    return struct.pack(f"<{2 + a.ndim}I", TYPES[kind or a.dtype.name], a.ndim, *a.shape) + np.ascontiguousarray(a).tobytes()


def write_goldens(name, records):
    with open(HERE / name, "wb") as f:
        for label, blob, ins, outs in records:
            f.write(text(label) + text(blob) + struct.pack("<I", len(ins)) + b"".join(map(tensor, ins)))
            f.write(struct.pack("<I", len(outs)) + b"".join(map(tensor, outs)))


def main():
    convolutions()
    pools()
    elementwise()
    products()
    shapes()
    whole_networks()
    bad()
    HERE.mkdir(exist_ok=True)
    write_goldens("goldens.bin", goldens)
    with open(HERE / "refused.bin", "wb") as f:
        for name, blob, words in refused:
            f.write(text(name) + text(blob) + text(words))
    with open(HERE / "external.bin", "wb") as f:
        for record in external_models():
            f.write(b"".join(map(text, record)))
    (HERE / "two_failures.onnx").write_bytes(two_failures().SerializeToString())
    (HERE / "uneven.onnx").write_bytes(uneven().SerializeToString())
    count = len(goldens)
    goldens.clear()
    import make_operators  # it uses what is above
    make_operators.everything()
    write_goldens("operators.bin", goldens)
    print(f"{count} goldens, {len(goldens)} operators, {len(refused)} refused")


if __name__ == "__main__":
    import make_data  # by its name, so that make_operators adds to the same lists
    make_data.main()
