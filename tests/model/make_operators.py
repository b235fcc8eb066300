# SPDX-License-Identifier: Apache-2.0
"""The models of data/operators.bin: operators beyond those of plain convolutional networks, other element types, several
samples at once. make_data.py runs this."""
import numpy as np
from make_data import f32, golden, goldens, i64, model, node
from onnx import TensorProto, helper

KINDS = {"float32": TensorProto.FLOAT, "float16": TensorProto.FLOAT16, "int64": TensorProto.INT64, "int32": TensorProto.INT32,
         "bool": TensorProto.BOOL, "uint8": TensorProto.UINT8, "int8": TensorProto.INT8, "float64": TensorProto.DOUBLE,
         "uint64": TensorProto.UINT64}
rng = np.random.default_rng(21)


def ints(*shape, low=-9, high=10, kind=np.int64):
    return rng.integers(low, high, shape).astype(kind)


def bools(*shape):
    return rng.integers(0, 2, shape).astype(bool)


def graph(name, nodes, feeds, outputs, consts=None, opset=17, open_batch=False):
    """A golden model whose inputs have the shapes and types of the arrays in feeds."""
    m = model(nodes, {n: (["N"] if open_batch else [a.shape[0]]) + list(a.shape[1:]) if a.ndim else [] for n, a in feeds.items()},
              outputs, consts, opset)
    for i in m.graph.input:
        i.type.tensor_type.elem_type = KINDS[feeds[i.name].dtype.name]
    del m.graph.output[:]  # then inference says what type the results have
    m.graph.output.extend(helper.make_tensor_value_info(n, TensorProto.UNDEFINED, None) for n in outputs)
    golden(name, m, feeds)


def op(name, kind, inputs, consts=None, opset=17, outputs=1, **attrs):
    """A model of one operator; inputs are arrays, consts come after them."""
    feeds = {f"x{i}": np.asarray(a) for i, a in enumerate(inputs)}
    outs = ["y"] if outputs == 1 else [f"y{i}" for i in range(outputs)]
    graph(name, [node(kind, list(feeds) + list(consts or {}), outs, **attrs)], feeds, outs, consts, opset)


def functions():
    x = f32(3, 7, low=-4, high=4)
    for kind in ("Erf", "Exp", "Abs", "Neg", "Sign", "Floor", "Ceil", "Round", "Sin", "Cos", "Softplus", "Softsign"):
        op(kind.lower(), kind, [x])
    for kind in ("Log", "Sqrt", "Reciprocal"):
        op(kind.lower(), kind, [f32(40, low=0.1, high=9)])
    op("round halves", "Round", [np.array([-2.5, -1.5, -0.5, 0.5, 1.5, 2.5], np.float32)])
    op("elu", "Elu", [x], alpha=0.7)
    op("selu", "Selu", [x])
    op("celu", "Celu", [x], alpha=1.3)
    op("hardsigmoid", "HardSigmoid", [x], alpha=0.25, beta=0.4)
    op("hardswish", "HardSwish", [x])
    op("mish", "Mish", [x], opset=18)
    op("gelu", "Gelu", [x], opset=20)
    op("gelu tanh", "Gelu", [x], opset=20, approximate="tanh")
    for kind in ("Relu", "Abs", "Neg", "Sign"):
        op(f"{kind.lower()} int64", kind, [ints(17)])
    op("not", "Not", [bools(9)])
    for e in (2.0, 3.0, 0.5, -1.0, 1.0, 1.7):
        op(f"pow {e}", "Pow", [f32(2, 9, low=0.2, high=3)], {"e": np.float32(e)})
    op("pow tensor", "Pow", [f32(2, 9, low=0.2, high=3), f32(9)])
    op("pow int64 exponent", "Pow", [f32(2, 9)], {"e": np.int64(3)})
    op("clip int64", "Clip", [ints(12)], {"lo": np.int64(-3), "hi": np.int64(4)})
    op("clip tensors", "Clip", [f32(5), np.float32(-0.2), np.float32(0.3)])
    op("prelu", "PRelu", [f32(2, 3, 4, 4)], {"s": f32(3, 1, 1)})
    op("prelu one", "PRelu", [f32(2, 3)], {"s": f32(1)})
    for kind in ("Add", "Sub", "Mul", "Div"):
        op(f"{kind.lower()} number", kind, [x], {"c": np.float32(1.3)})
        one = model([node(kind, ["c", "x"], ["y"])], {"x": [3, 7]}, ["y"], {"c": np.float32(1.3)})
        golden(f"{kind.lower()} number before", one, {"x": f32(3, 7, low=0.5, high=2)})
        op(f"{kind.lower()} int64", kind, [ints(4, 3), ints(3, low=1)])
    op("add int32", "Add", [ints(4, 3, kind=np.int32), ints(3, kind=np.int32)])


def pairs():
    a, b = f32(2, 3, 4), np.round(f32(3, 1), 1)
    for kind in ("Min", "Max", "Sum", "Mean"):
        op(f"{kind.lower()} of three", kind, [a, b, f32(4)])
    op("max int64", "Max", [ints(5, 4), ints(4)])
    op("mod int64", "Mod", [ints(30), ints(30, low=1, high=5)])
    op("mod int64 negative", "Mod", [ints(30), ints(30, low=-5, high=0)])
    op("fmod", "Mod", [f32(30, low=-5, high=5), f32(30, low=0.5, high=2)], fmod=1)
    for kind in ("Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual"):
        op(f"{kind.lower()}", kind, [np.round(f32(4, 6), 1), np.round(f32(6), 1)])
        op(f"{kind.lower()} int64", kind, [ints(4, 6, low=0, high=3), ints(6, low=0, high=3)])
    for kind in ("And", "Or", "Xor"):
        op(kind.lower(), kind, [bools(4, 6), bools(6)])
    op("where", "Where", [bools(4, 1, 3), f32(2, 3), f32(1)])
    op("where int64", "Where", [bools(4), ints(3, 1), ints(1)])
    op("where same", "Where", [bools(3, 5), f32(3, 5), f32(3, 5)])


def products():
    op("matmul batched", "MatMul", [f32(2, 3, 5, 7), f32(2, 3, 7, 4)])
    op("matmul broadcast", "MatMul", [f32(2, 1, 5, 7), f32(3, 7, 4)])
    op("matmul vector", "MatMul", [f32(7), f32(7, 4)])
    op("matmul by vector", "MatMul", [f32(3, 5, 7), f32(7)])
    op("matmul vector batched", "MatMul", [f32(7), f32(3, 7, 4)])
    op("matmul constant first", "MatMul", [f32(2, 7, 4)], {"w": f32(2, 4, 3)})
    op("gemm beta", "Gemm", [f32(3, 5), f32(5, 4), f32(3, 4)], beta=0.5, alpha=0.7)
    m = [node("MatMul", ["a", "b"], ["s"]), node("Mul", ["s", "k"], ["t"]), node("Softmax", ["t"], ["u"], axis=-1),
         node("MatMul", ["u", "v"], ["y"])]
    graph("net attention", m, {"a": f32(2, 4, 6, 8), "b": f32(2, 4, 8, 6), "v": f32(2, 4, 6, 8)}, ["y"], {"k": np.float32(0.35)})
    m = [node("MatMul", ["a", "b"], ["s"]), node("Mul", ["s", "k"], ["t"]), node("Add", ["t", "c"], ["y"])]
    graph("net scaled product with bias", m, {"a": f32(4, 8)}, ["y"], {"b": f32(8, 6), "k": np.float32(0.35), "c": f32(6)})


def norms():
    op("layer norm", "LayerNormalization", [f32(2, 5, 12)], {"s": f32(12), "b": f32(12)}, axis=-1, epsilon=1e-6)
    op("layer norm two axes", "LayerNormalization", [f32(2, 5, 6)], {"s": f32(5, 6)}, axis=1)
    op("instance norm", "InstanceNormalization", [f32(2, 3, 4, 5)], {"s": f32(3), "b": f32(3)}, epsilon=1e-3)
    op("group norm", "GroupNormalization", [f32(2, 6, 4, 5)], {"s": f32(6), "b": f32(6)}, opset=21, num_groups=3)
    op("lp norm", "LpNormalization", [f32(3, 4, 5)], axis=1, p=2)
    op("log softmax", "LogSoftmax", [f32(2, 9, 3, low=-5, high=5)], axis=1)
    op("softmax large", "Softmax", [f32(4, 70, low=-50, high=50)], axis=-1)
    spelled = [node("ReduceMean", ["x"], ["m"], axes=[-1]), node("Sub", ["x", "m"], ["d"]), node("Pow", ["d", "two"], ["q"]),
               node("ReduceMean", ["q"], ["v"], axes=[-1]), node("Add", ["v", "e"], ["w"]), node("Sqrt", ["w"], ["r"]),
               node("Div", ["d", "r"], ["n"]), node("Mul", ["n", "s"], ["o"]), node("Add", ["o", "b"], ["y"])]
    graph("net layer norm spelled out", spelled, {"x": f32(2, 5, 16)}, ["y"],
          {"two": np.float32(2), "e": np.float32(1e-5), "s": f32(16), "b": f32(16)})


def reductions():
    x = f32(2, 3, 4, 5)
    for kind in ("ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL1", "ReduceL2", "ReduceSumSquare", "ReduceLogSumExp"):
        op(f"{kind.lower()} last", kind, [x], axes=[-1])
        op(f"{kind.lower()} apart", kind, [x], axes=[1, 3], keepdims=0)
    op("reducelogsum", "ReduceLogSum", [f32(3, 4, low=0.5, high=2)], axes=[1])
    op("reducesum", "ReduceSum", [x], {"a": i64(2, 1)}, keepdims=0)
    op("reducesum all", "ReduceSum", [x], keepdims=0)
    op("reducesum int64", "ReduceSum", [ints(3, 4)], {"a": i64(0)})
    op("reducemean 18", "ReduceMean", [x], {"a": i64(2, 3)}, opset=18)
    op("argmax", "ArgMax", [f32(3, 9)], axis=-1, keepdims=0)
    op("argmin middle", "ArgMin", [f32(3, 9, 2)], axis=1)
    op("argmax last", "ArgMax", [np.array([[1, 3, 3, 0]], np.float32)], axis=1, select_last_index=1)
    op("cumsum", "CumSum", [f32(3, 5)], {"a": np.int64(1)})
    op("cumsum reverse exclusive", "CumSum", [ints(3, 5)], {"a": np.int64(0)}, reverse=1, exclusive=1)


def parts():
    x = f32(4, 6, 5)
    op("slice", "Slice", [x], {"s": i64(1, -3), "e": i64(3, 100), "a": i64(0, 2)})
    op("slice steps", "Slice", [x], {"s": i64(0, -1), "e": i64(6, -100), "a": i64(1, 2), "t": i64(2, -2)})
    op("slice attributes", "Slice", [x], opset=9, starts=[1], ends=[-1], axes=[1])
    op("slice int64", "Slice", [ints(7)], {"s": i64(5), "e": i64(1), "a": i64(0), "t": i64(-1)})
    op("split", "Split", [x], {"s": i64(1, 2, 3)}, outputs=3, axis=1)
    op("split equal", "Split", [x], outputs=2, axis=0)
    op("split attributes", "Split", [x], opset=11, outputs=2, axis=-1, split=[2, 3])
    op("split 18", "Split", [x], opset=18, outputs=2, axis=2, num_outputs=2)
    op("expand", "Expand", [f32(3, 1)], {"s": i64(2, 3, 4)})
    op("expand smaller", "Expand", [f32(2, 3, 4)], {"s": i64(3, 1)})
    op("tile", "Tile", [f32(2, 3)], {"r": i64(2, 3)})
    op("tile one axis", "Tile", [ints(2, 1, 3)], {"r": i64(1, 4, 1)})
    op("gather rows", "Gather", [f32(7, 4), ints(2, 3, low=-7, high=7)], axis=0)
    op("gather constant index", "Gather", [f32(3, 5, 4)], {"i": i64(1, -1, 0)}, axis=1)
    op("gather number", "Gather", [f32(3, 5, 4)], {"i": np.int64(-2)}, axis=1)
    op("gather int32 index", "Gather", [f32(7, 4), ints(3, low=0, high=7, kind=np.int32)])
    for mode in ("reflect", "edge", "wrap"):
        op(f"pad {mode}", "Pad", [f32(1, 2, 4, 5)], {"p": i64(0, 0, 2, 1, 0, 0, 3, 2)}, opset=19, mode=mode)
    op("gather elements", "GatherElements", [f32(3, 5), ints(3, 2, low=-5, high=5)], axis=1)
    op("gather elements int64", "GatherElements", [ints(3, 5, 2), ints(2, 4, 2, low=-3, high=3)], axis=0)
    op("gather nd", "GatherND", [f32(3, 4, 5)], {"i": np.array([[0, 1], [2, -1]], np.int64)})
    op("scatter nd", "ScatterND", [f32(4, 3)], {"i": np.array([[1], [3]], np.int64), "u": f32(2, 3)})
    op("scatter nd elements", "ScatterND", [ints(4, 3)], {"i": np.array([[1, 2], [0, 0]], np.int64), "u": ints(2)})
    op("scatter elements", "ScatterElements", [f32(4, 3)], {"i": np.array([[1, 0, 2], [0, 2, -1]], np.int64), "u": f32(2, 3)})
    op("space to depth", "SpaceToDepth", [f32(1, 2, 6, 4)], blocksize=2)
    op("concat int64", "Concat", [ints(2, 3), ints(2, 1)], axis=1)
    op("transpose int64", "Transpose", [ints(2, 3, 4)], perm=[2, 0, 1])
    op("trilu", "Trilu", [f32(2, 4, 5)], {"k": np.int64(1)}, upper=1)
    op("trilu lower", "Trilu", [f32(4, 4)], upper=0)


def sizes():
    x = f32(1, 2, 5, 7)
    scales = {"r": np.zeros(0, np.float32), "s": np.array([1, 1, 2, 1.5], np.float32)}
    op("resize nearest", "Resize", [x], scales, mode="nearest")
    op("resize nearest asymmetric floor", "Resize", [x], scales, mode="nearest", nearest_mode="floor",
       coordinate_transformation_mode="asymmetric")
    op("resize linear", "Resize", [x], scales, mode="linear")
    op("resize linear align", "Resize", [x], scales, mode="linear", coordinate_transformation_mode="align_corners")
    op("resize linear pytorch", "Resize", [x], scales, mode="linear", coordinate_transformation_mode="pytorch_half_pixel")
    op("resize cubic", "Resize", [x], scales, mode="cubic", cubic_coeff_a=-0.75)
    to = [node("Resize", ["x", "", "", "z"], ["y"], mode="linear")]
    graph("resize to sizes", to, {"x": x}, ["y"], {"z": i64(1, 2, 3, 10)})
    op("resize 10", "Resize", [x], {"s": np.array([1, 1, 2, 2], np.float32)}, opset=10, mode="nearest")
    op("upsample", "Upsample", [x], {"s": np.array([1, 1, 2, 3], np.float32)}, opset=9, mode="nearest")


def deconvolutions():
    def deconv(name, x, w, **attrs):
        op("deconv " + name, "ConvTranspose", [f32(*x)], {"w": f32(*w), "b": f32(w[1] * attrs.get("group", 1))}, **attrs)

    deconv("2x2", (1, 6, 5, 4), (6, 3, 2, 2), strides=[2, 2])
    deconv("3x3 padded", (2, 4, 5, 4), (4, 5, 3, 3), strides=[2, 2], pads=[1, 1, 1, 1], output_padding=[1, 1])
    deconv("groups", (1, 6, 5, 4), (6, 2, 3, 3), group=3)
    deconv("dilated", (1, 3, 5, 4), (3, 2, 3, 3), dilations=[2, 1])
    deconv("output shape", (1, 3, 5, 4), (3, 2, 3, 3), strides=[2, 2], output_shape=[10, 9])
    deconv("1-d", (1, 4, 9), (4, 3, 4), strides=[2], pads=[1, 1])


def types():
    for to in ("int64", "int32", "uint8", "bool", "float16", "float64"):
        op(f"cast float32 {to}", "Cast", [f32(20, low=0, high=100)], to=KINDS[to])
    for of in (np.int64, np.int32, np.uint8, np.int8, np.bool_):
        op(f"cast {of.__name__} float32", "Cast", [ints(20, low=0, high=2 if of is np.bool_ else 100, kind=of)],
           to=TensorProto.FLOAT)
    op("cast int64 int8 wraps", "Cast", [ints(20, low=-1000, high=1000)], to=TensorProto.INT8)
    op("identity uint8", "Identity", [ints(20, low=0, high=255, kind=np.uint8)])
    half = f32(2, 3, 4).astype(np.float16)
    op("relu float16", "Relu", [half])
    op("identity float16", "Identity", [np.array([0, 6e-8, 3e-5, 1, -2.5, 65504, np.inf, -np.inf], np.float16)])
    op("matmul float16", "MatMul", [f32(4, 8).astype(np.float16)], {"w": f32(8, 3).astype(np.float16)})
    op("add float64", "Add", [f32(4, 8).astype(np.float64), f32(8).astype(np.float64)])
    scale = {"s": np.float32(0.02), "z": np.uint8(120)}
    op("quantize", "QuantizeLinear", [f32(4, 9, low=-4, high=4)], scale)
    op("dequantize", "DequantizeLinear", [ints(4, 9, low=0, high=256, kind=np.uint8)], scale)
    per = {"w": ints(5, 3, 3, 3, low=-127, high=128, kind=np.int8), "ws": f32(5, low=0.01, high=0.02), "wz": np.zeros(5, np.int8),
           **scale}
    qdq = [node("QuantizeLinear", ["x", "s", "z"], ["q"]), node("DequantizeLinear", ["q", "s", "z"], ["d"]),
           node("DequantizeLinear", ["w", "ws", "wz"], ["v"], axis=0), node("Conv", ["d", "v"], ["y"], pads=[1, 1, 1, 1])]
    graph("net quantised convolution", qdq, {"x": f32(1, 3, 6, 6)}, ["y"], per)
    m = model([node("Add", ["x", "x"], ["y"])], {"x": [6]}, ["y"])
    for v in (m.graph.input[0], m.graph.output[0]):
        v.type.tensor_type.elem_type = TensorProto.BFLOAT16
    bits = (np.array([1, -2.5, 0.1, 3e8, 1e-20, 0], np.float32).view(np.uint32) >> 16).astype(np.uint16)
    twice = ((bits.astype(np.uint32) << 16).view(np.float32) * 2).view(np.uint32) >> 16
    goldens.append(("add bfloat16", m.SerializeToString(), [(bits, "bfloat16")], [(twice.astype(np.uint16), "bfloat16")]))


def shapes_of_shapes():
    # The nodes that exporters write around a reshape, here with an open batch dimension and three samples.
    attention = [node("Shape", ["x"], ["sh"]), node("Gather", ["sh", "zero"], ["n"]), node("Unsqueeze", ["n", "ax"], ["n1"]),
                 node("Concat", ["n1", "heads"], ["to"], axis=0), node("Reshape", ["x", "to"], ["h"]),
                 node("Transpose", ["h"], ["t"], perm=[0, 2, 1, 3]), node("Transpose", ["t"], ["k"], perm=[0, 1, 3, 2]),
                 node("MatMul", ["t", "k"], ["s"]), node("Softmax", ["s"], ["p"], axis=-1), node("MatMul", ["p", "t"], ["o"]),
                 node("ConstantOfShape", ["n1"], ["c"]), node("Unsqueeze", ["c", "rest"], ["cc"]), node("Add", ["o", "cc"], ["y"])]
    consts = {"zero": np.int64(0), "ax": i64(0), "heads": i64(5, 2, 4), "rest": i64(1, 2, 3)}
    graph("net rows attention", attention, {"x": f32(3, 5, 8)}, ["y"], consts, open_batch=True)
    graph("net rows convolution", [node("Conv", ["x", "w"], ["a"], pads=[1, 1, 1, 1]), node("Relu", ["a"], ["b"]),
                                   node("GlobalAveragePool", ["b"], ["c"]), node("Flatten", ["c"], ["d"]),
                                   node("Gemm", ["d", "v", "o"], ["y"])],
          {"x": f32(4, 3, 8, 8)}, ["y", "b"], {"w": f32(6, 3, 3, 3), "v": f32(6, 5), "o": f32(5)}, open_batch=True)
    graph("net rows embeddings", [node("Gather", ["table", "ids"], ["e"]), node("Cast", ["mask"], ["m"], to=TensorProto.FLOAT),
                                  node("Sub", ["one", "m"], ["i"]), node("Mul", ["i", "low"], ["b"]),
                                  node("Unsqueeze", ["b", "ax"], ["b2"]), node("ReduceSum", ["e", "ax"], ["z"]),
                                  node("Transpose", ["z"], ["zt"], perm=[0, 2, 1]), node("Add", ["zt", "b2"], ["y"])],
          {"ids": ints(2, 6, low=0, high=10), "mask": ints(2, 6, low=0, high=2)}, ["y"],
          {"table": f32(10, 6), "one": np.float32(1), "low": np.float32(-100), "ax": i64(2)}, open_batch=True)
    folded = [node("Shape", ["x"], ["s"]), node("Slice", ["s", "b", "e"], ["last"]), node("Cast", ["last"], ["f"], to=TensorProto.FLOAT),
              node("Sqrt", ["f"], ["r"]), node("Div", ["x", "r"], ["y"]), node("Range", ["b0", "n", "st"], ["i"]),
              node("Less", ["i", "lim"], ["lt"]), node("Where", ["lt", "y", "nul"], ["z"])]
    graph("net folded shapes", folded, {"x": f32(2, 6)}, ["z"], {"b": i64(-1), "e": i64(9), "b0": np.int64(0), "n": np.int64(6),
                                                                 "st": np.int64(1), "lim": np.int64(4), "nul": np.float32(0)})


def spelled_functions():
    def gelu(order):
        if order == "after":
            return [node("Div", ["h", "q"], ["a"]), node("Erf", ["a"], ["b"]), node("Add", ["b", "one"], ["c"]),
                    node("Mul", ["h", "c"], ["d"]), node("Mul", ["d", "half"], ["g"])]
        return [node("Mul", ["h", "half"], ["d"]), node("Div", ["h", "q"], ["a"]), node("Erf", ["a"], ["b"]),
                node("Add", ["b", "one"], ["c"]), node("Mul", ["d", "c"], ["g"])]

    consts = {"w": f32(8, 12), "o": f32(12), "q": np.float32(2 ** 0.5), "one": np.float32(1), "half": np.float32(0.5)}
    for order in ("after", "before"):
        graph(f"net gelu half {order}", [node("MatMul", ["x", "w"], ["m"]), node("Add", ["m", "o"], ["h"])] + gelu(order) +
              [node("Identity", ["g"], ["y"])], {"x": f32(5, 8)}, ["y"], consts)
    squeeze = [node("Conv", ["x", "w"], ["a"], pads=[1, 1, 1, 1], group=6), node("Sigmoid", ["a"], ["s"]), node("Mul", ["a", "s"], ["b"]),
               node("GlobalAveragePool", ["b"], ["p"]), node("Conv", ["p", "w1", "c1"], ["q"]), node("Sigmoid", ["q"], ["qs"]),
               node("Mul", ["q", "qs"], ["r"]), node("Conv", ["r", "w2", "c2"], ["t"]), node("Sigmoid", ["t"], ["u"]),
               node("Mul", ["u", "b"], ["v"]), node("Conv", ["v", "w3", "c3"], ["z"]), node("Add", ["z", "x"], ["y"])]
    graph("net squeeze and excite", squeeze, {"x": f32(1, 6, 9, 9)}, ["y"],
          {"w": f32(6, 1, 3, 3), "w1": f32(2, 6, 1, 1), "c1": f32(2), "w2": f32(6, 2, 1, 1), "c2": f32(6), "w3": f32(6, 6, 1, 1),
           "c3": f32(6)})
    hard = [node("Conv", ["x", "w"], ["a"]), node("HardSigmoid", ["a"], ["s"], alpha=1 / 6), node("Mul", ["a", "s"], ["y"])]
    graph("net hardswish spelled out", hard, {"x": f32(1, 3, 5, 5)}, ["y"], {"w": f32(7, 3, 1, 1)})
    residual = [node("Conv", ["x", "w"], ["a"], pads=[1, 1, 1, 1]), node("Conv", ["a", "w"], ["b"], pads=[1, 1, 1, 1]),
                node("Add", ["b", "x"], ["c"]), node("Relu", ["c"], ["d"]), node("Conv", ["d", "w"], ["e"], pads=[1, 1, 1, 1]),
                node("Add", ["e", "d"], ["f"]), node("Mul", ["f", "d"], ["y"])]
    graph("net residual", residual, {"x": f32(1, 5, 8, 8)}, ["y"], {"w": f32(5, 5, 3, 3) / 4})


def pictures():
    """What fuses around convolutions: padding, means of planes, normalisation after a concatenation of many."""
    for name, pads, value in (("zeros", i64(0, 0, 0, 1, 0, 0, 1, 2), 0), ("numbers", i64(0, 0, 1, 1, 0, 0, 1, 1), 0.5),
                              ("channels", i64(0, 1, 1, 1, 0, 0, 1, 1), 0)):
        nodes = [node("Relu", ["x"], ["r"]), node("Pad", ["r", "p", "v"], ["q"]),
                 node("Conv", ["q", "w"], ["y"], strides=[2, 2], pads=[0, 1, 0, 0])]
        graph(f"net padded {name}", nodes, {"x": f32(2, 4, 9, 8)}, ["y"],
              {"p": pads, "v": np.float32(value), "w": f32(6, 5 if name == "channels" else 4, 3, 3)})
    graph("net padded rows", [node("Pad", ["x", "p"], ["q"]), node("Conv", ["q", "w"], ["y"], dilations=[2])], {"x": f32(1, 3, 11)}, ["y"],
          {"p": i64(0, 0, 2, 0, 0, 3), "w": f32(4, 3, 3)})
    mean = [node("Conv", ["x", "w"], ["a"], pads=[1, 1, 1, 1]), node("ReduceMean", ["a"], ["m"], axes=[2, 3]), node("Conv", ["m", "w1"], ["b"]),
            node("HardSigmoid", ["b"], ["g"]), node("Mul", ["a", "g"], ["c"]), node("Conv", ["c", "w1"], ["y"])]
    graph("net mean of planes", mean, {"x": f32(2, 3, 7, 6)}, ["y"], {"w": f32(16, 3, 3, 3), "w1": f32(16, 16, 1, 1) / 4})
    names = [f"c{i}" for i in range(15)]
    dense = [node("Conv", ["x", "w" + n], [n], pads=[1, 1, 1, 1]) for n in names]
    dense += [node("Concat", names, ["a"], axis=1), node("BatchNormalization", ["a", "s", "b", "m", "v"], ["n"]), node("Relu", ["n"], ["r"]),
              node("Conv", ["r", "w"], ["y"])]
    graph("net dense", dense, {"x": f32(1, 3, 6, 6)}, ["y"],
          {"w" + n: f32(4, 3, 3, 3) for n in names} | {"w": f32(5, 60, 1, 1) / 8, "s": f32(60), "b": f32(60), "m": f32(60),
                                                        "v": np.abs(f32(60)) + np.float32(0.5)})
    # A part in C order, another function after it; and one that two nodes read.
    mixed = [node("Conv", ["x", "w"], ["a"], pads=[1, 1, 1, 1]), node("Concat", ["x", "a"], ["j"], axis=1),
             node("BatchNormalization", ["j", "s", "b", "m", "v"], ["n"]), node("LeakyRelu", ["n"], ["l"]),
             node("Concat", ["a", "l", "x"], ["k"], axis=1), node("Conv", ["k", "w1"], ["c"]), node("Relu", ["k"], ["r"]),
             node("Conv", ["r", "w1"], ["d"]), node("Add", ["c", "d"], ["y"])]
    graph("net dense mixed", mixed, {"x": f32(2, 3, 5, 7)}, ["y"],
          {"w": f32(16, 3, 3, 3), "s": f32(19), "b": f32(19), "m": f32(19), "v": np.abs(f32(19)) + np.float32(0.5), "w1": f32(4, 38, 1, 1) / 6})


def depthwise():
    """Filters of one channel each, alone and with what fuses after them."""
    for k, size, attrs in ((3, (2, 8, 6, 9), {}), (5, (1, 12, 7, 5), {}), (7, (2, 4, 9, 7), {}), (7, (1, 8, 3, 2), {}),
                           (3, (1, 8, 9, 8), {"strides": [2, 1]}), (3, (1, 8, 9, 8), {"strides": [2, 2]}),
                           (5, (1, 4, 9, 9), {"dilations": [2, 1]})):
        c, half = size[1], (k // 2) * attrs.get("dilations", [1])[0]
        nodes = [node("Relu", ["x"], ["r"]), node("Conv", ["r", "w", "b"], ["a"], group=c, pads=[half, k // 2] * 2, **attrs),
                 node("Sigmoid", ["a"], ["s"]), node("Mul", ["a", "s"], ["y"])]
        graph(f"net depthwise {k} {size} {attrs}", nodes, {"x": f32(*size)}, ["y"], {"w": f32(c, 1, k, k) / k, "b": f32(c)})
    nodes = [node("Relu", ["x"], ["r"]), node("Conv", ["r", "w"], ["a"], group=8, pads=[1, 0, 1, 2]), node("Add", ["a", "r"], ["y"])]
    graph("net depthwise and sum", nodes, {"x": f32(2, 8, 5, 10)}, ["y"], {"w": f32(8, 1, 3, 3)})


def transformers():
    """A layer of a ViT, with the moves between batch first and length first; a block of a ConvNeXt, with its scale per channel."""
    def dense(x, w, y):
        return [node("MatMul", [x, w], [y + "m"]), node("Add", [y + "m", w + "b"], [y])]

    def layer_of(name, e, h, n, length, outputs):
        consts = {"qkv": f32(e, 3 * e) / 6, "qkvb": f32(3 * e), "out": f32(e, e) / 6, "outb": f32(e), "s": f32(e), "b": f32(e),
                  "split": i64(length, n, 3, h, e // h), "back": i64(length, n, e), "i0": i64(0)[0], "i1": i64(1)[0], "i2": i64(2)[0],
                  "root": np.float32((e // h) ** -0.5)}
        layer = [node("LayerNormalization", ["x", "s", "b"], ["l"], axis=-1), node("Transpose", ["l"], ["t"], perm=[1, 0, 2])]
        layer += dense("t", "qkv", "p") + [node("Reshape", ["p", "split"], ["r"]), node("Transpose", ["r"], ["u"], perm=[2, 1, 3, 0, 4])]
        layer += [node("Gather", ["u", f"i{k}"], [q], axis=0) for k, q in enumerate("qkv")]
        layer += [node("Transpose", ["k"], ["kt"], perm=[0, 1, 3, 2]), node("MatMul", ["q", "kt"], ["a"]), node("Mul", ["a", "root"], ["c"]),
                  node("Softmax", ["c"], ["d"], axis=-1), node("MatMul", ["d", "v"], ["f"]), node("Transpose", ["f"], ["g"], perm=[2, 0, 1, 3]),
                  node("Reshape", ["g", "back"], ["w"])]
        layer += dense("w", "out", "o") + [node("Transpose", ["o"], ["z"], perm=[1, 0, 2]), node("Add", ["z", "x"], ["y"])]
        graph(name, layer, {"x": f32(n, length, e)}, outputs, consts)

    layer_of("net transformer layer", 64, 2, 2, 3, ["y"])  # heads of a size that the fused attention knows
    # Where another node reads what lies between, nothing may change places.
    layer_of("net transformer layer, all of it", 8, 2, 2, 3, ["y", "t", "p", "w", "o"])
    for name, trans in (("net attention of a BERT", 0), ("net attention of a BERT, transposed weights", 1)):
        n, length, h, d = 2, 3, 2, 32
        e = h * d
        parts = [node("Gemm", ["x", "w" + k] + (["b" + k] if k != "k" else []), [k + "0"], transB=trans) for k in "qkv"]
        parts += [node("Reshape", [k + "0", "heads"], [k + "1"]) for k in "qkv"]
        parts += [node("Transpose", [k + "1"], [k], perm=[0, 2, 3, 1] if k == "k" else [0, 2, 1, 3]) for k in "qkv"]
        parts += [node("MatMul", ["q", "k"], ["s"]), node("Mul", ["s", "root"], ["t"]), node("Softmax", ["t"], ["u"], axis=-1),
                  node("MatMul", ["u", "v"], ["o"]), node("Transpose", ["o"], ["z"], perm=[0, 2, 1, 3]), node("Reshape", ["z", "back"], ["y"])]
        consts = {"w" + k: f32(e, e) / 8 for k in "qkv"} | {"bq": f32(e), "bv": f32(e), "heads": i64(n, length, h, d), "back": i64(-1, e),
                                                            "root": np.float32(d ** -0.5)}
        graph(name, parts, {"x": f32(n * length, e)}, ["y"], consts)
    # Of these only the first two can be one: the others' results are read as a whole, or twice.
    mixed = [node("MatMul", ["x", f"w{i}"], [f"m{i}"]) for i in range(4)]
    mixed += [node("Reshape", [f"m{i}", "s"], [f"r{i}"]) for i in range(3)]
    mixed += [node("Transpose", [f"r{i}"], [f"t{i}"], perm=[1, 2, 0]) for i in range(3)]
    mixed += [node("Relu", ["r2"], ["z"]), node("Relu", ["m3"], ["v"])]
    graph("net products side by side", mixed, {"x": f32(3, 5)}, ["t0", "t1", "t2", "z", "v"],
          {**{f"w{i}": f32(5, 8) for i in range(4)}, "s": i64(3, 2, 4)})
    # A product that is a result, and read by nodes that are not needed.
    unused = [node("MatMul", ["x", "w0"], ["m0"]), node("MatMul", ["x", "w1"], ["m1"])]
    unused += [node("Reshape", [f"m{i}", "s"], [f"r{i}"]) for i in range(2)] + [node("Transpose", [f"r{i}"], [f"t{i}"], perm=[1, 2, 0]) for i in range(2)]
    graph("net products side by side, one unused", unused, {"x": f32(3, 5)}, ["m0", "t1"], {"w0": f32(5, 8), "w1": f32(5, 8), "s": i64(3, 2, 4)})
    plain = [node("Transpose", ["x"], ["t"], perm=[1, 0, 2]), node("MatMul", ["t", "w"], ["m"]), node("Relu", ["m"], ["r"]),
             node("Transpose", ["r"], ["y"], perm=[1, 2, 0])]
    graph("net turned rows", plain, {"x": f32(3, 4, 6)}, ["y"], {"w": f32(6, 10)})
    split = [node("Transpose", ["x"], ["t"], perm=[2, 0, 1]), node("MatMul", ["t", "w"], ["m"]), node("Transpose", ["m"], ["y"], perm=[1, 0, 2])]
    graph("net columns become rows", split, {"x": f32(3, 6, 4)}, ["y"], {"w": f32(6, 10)})
    cut = [node("Transpose", ["x"], ["t"], perm=[1, 0, 2]), node("MatMul", ["t", "w"], ["m"]),
           node("Slice", ["m", "from", "to", "axes", "steps"], ["y"])]
    graph("net turned rows, cut", cut, {"x": f32(3, 6, 4)}, ["y"],
          {"w": f32(4, 10), "from": i64(1, 2), "to": i64(6, 9), "axes": i64(0, 2), "steps": i64(2, 3)})
    c = 8
    block = [node("Conv", ["x", "dw", "db"], ["a"], group=c, pads=[3, 3, 3, 3]), node("Transpose", ["a"], ["b"], perm=[0, 2, 3, 1]),
             node("LayerNormalization", ["b", "s", "o"], ["c"], axis=-1)] + dense("c", "up", "d")
    block += [node("Gelu", ["d"], ["e"])] + dense("e", "down", "f")
    block += [node("Transpose", ["f"], ["g"], perm=[0, 3, 1, 2]), node("Mul", ["scale", "g"], ["h"]), node("Add", ["h", "x"], ["y"])]
    consts = {"dw": f32(c, 1, 7, 7) / 7, "db": f32(c), "s": f32(c), "o": f32(c), "up": f32(c, 4 * c) / 4, "upb": f32(4 * c),
              "down": f32(4 * c, c) / 8, "downb": f32(c), "scale": f32(c, 1, 1)}
    graph("net convnext block", block, {"x": f32(2, c, 4, 3)}, ["y"], consts, opset=20)
    two = [node("Conv", ["x", "w"], ["x0"])] + [node(b.op_type, [i if i in consts else i + "0" if i == "x" else i + "1" for i in b.input],
                                                     [o + "1" for o in b.output], **{a.name: helper.get_attribute_value(a) for a in b.attribute})
                                                for b in block] + [node("Conv", ["y1", "w"], ["y"])]
    graph("net convnext block between convolutions", two, {"x": f32(2, c, 4, 3)}, ["y"], {**consts, "w": f32(c, c, 1, 1) / 4}, opset=20)


def lengths():
    """Rows and tensors of lengths that kernels treat apart: eight elements at once, a warp or a block for a row."""
    for count in (1, 7, 8, 61):
        op(f"gelu of {count}", "Gelu", [f32(count, low=-3, high=3)], opset=20)
    for a, b in (((3, 16), (3, 16)), ((3, 16), (16,)), ((2, 3, 8), (2, 1, 8)), ((2, 3, 8), (2, 3, 1)), ((24,), (1,)), ((3, 12), (12,))):
        for kind in ("Add", "Mul", "Sub"):
            op(f"{kind.lower()} {a} {b}", kind, [f32(*a), f32(*b)])
    for n, rows in ((96, 3), (100, 5), (1024, 2), (1028, 2), (6, 3)):
        op(f"layer norm of {n}", "LayerNormalization", [f32(rows, n)], {"s": f32(n), "b": f32(n)}, axis=-1)
    op("matmul of 33 rows", "MatMul", [f32(33, 5)], {"w": f32(5, 3)})
    op("matmul of 2 x 33 rows", "MatMul", [f32(2, 33, 5), f32(2, 5, 3)])
    op("transpose in eights", "Transpose", [f32(3, 5, 16)], perm=[1, 0, 2])
    op("slice in eights", "Slice", [f32(4, 32)], {"from": i64(8), "to": i64(24), "axes": i64(1)})
    op("slice beside eights", "Slice", [f32(4, 32)], {"from": i64(4), "to": i64(20), "axes": i64(1)})


def large_integers():
    """Integers that no float holds."""
    op("pad int64", "Pad", [ints(2, 3)], {"p": i64(1, 0, 0, 2), "v": np.int64((1 << 53) + 1)})
    far = node("Range", ["from", "to", "step"], ["r"])
    consts = {"from": np.int64((1 << 62) + 1), "to": np.int64((1 << 62) + 3000), "step": np.int64(999)}
    graph("range far", [far, node("Sub", ["r", "x"], ["y"])], {"x": ints(4)}, ["y"], consts)


def everything():
    functions()
    pairs()
    products()
    norms()
    reductions()
    parts()
    sizes()
    deconvolutions()
    types()
    shapes_of_shapes()
    spelled_functions()
    pictures()
    depthwise()
    transformers()
    lengths()
    large_integers()
