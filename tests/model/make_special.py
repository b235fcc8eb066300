#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes data/special.bin: models of operators at the edges of their numbers: NaN, infinities, zeros of both signs, numbers that
are hardly any or hardly fit, axes of one element, integers that wrap around. Each record is as make_data.py says.

    python3 -m pip install numpy onnx onnxruntime && python3 make_special.py

The outputs are ONNX Runtime's, but where that depends on the order of elements. Its maximum of 1, NaN, 2 is 2, and of NaN, 1, 2 is NaN.
There NaN is expected, as PyTorch and NumPy have it."""
import numpy as np
from make_data import goldens, node, write_goldens
from make_operators import graph

NAN, INF = np.nan, np.inf
EDGES = np.array([NAN, INF, -INF, -0.0, 0.0, 1e-40, -1e-40, 1e-30, 3e38, -3e38, 88.8, -104, 1.5, -1.5, 2.5, -2.5, 0.5, 20, -20, 1e10, -1e10],
                 np.float32)
X = np.concatenate([EDGES, EDGES[:16][::-1]])  # 37: whole vectors and a rest


def known(outputs):
    """The last model's outputs are these."""
    name, blob, feeds, outs = goldens[-1]
    outs = [np.asarray(o, old.dtype) for o, old in zip(outputs, outs)]
    assert all(o.shape == old.shape for o, old in zip(outs, goldens[-1][3])), name
    goldens[-1] = (name, blob, feeds, outs)


def many(name, nodes, feeds, consts=None, opset=20):
    """Several operators in one model: each node's output is one."""
    graph(f"special {name}", nodes, feeds, [n.output[0] for n in nodes if n.output[0].startswith("y")], consts, opset)


def functions():
    kinds = "Relu LeakyRelu Elu Selu Celu Sigmoid HardSigmoid HardSwish Tanh Softplus Softsign Abs Neg Sign Mish".split()
    more = "Exp Log Sqrt Reciprocal Erf Floor Ceil Round Gelu".split()
    for part in (kinds, more):
        many(f"functions {part[0]}", [node(k, ["x"], [f"y{k}"]) for k in part], {"x": X})
    many("gelu tanh", [node("Gelu", ["x"], ["y"], approximate="tanh")], {"x": X})
    many("waves", [node(k, ["x"], [f"y{k}"]) for k in ("Sin", "Cos")], {"x": X[abs(np.nan_to_num(X, nan=0, posinf=0, neginf=0)) < 200]})
    bounds = {"lo": np.float32(-2), "hi": np.float32(2)}
    many("clip", [node("Clip", ["x", "lo", "hi"], ["y0"]), node("Clip", ["x", "lo"], ["y1"]), node("Clip", ["x", "", "hi"], ["y2"])], {"x": X}, bounds)
    many("powers", [node("Pow", ["x", f"e{i}"], [f"y{i}"]) for i in range(6)], {"x": X},
         {f"e{i}": np.float32(e) for i, e in enumerate((2, 3, 0.5, -1, 0, 1))})
    many("numbers", [node(k, ["x", "c"], [f"y{k}"]) for k in ("Add", "Sub", "Mul", "Div")] +
         [node(k, ["c", "x"], [f"yc{k}"]) for k in ("Sub", "Div")], {"x": X}, {"c": np.float32(1.5)})


def pairs():
    a, b = EDGES.reshape(-1, 1), EDGES[::-1].copy().reshape(1, -1)
    kinds = "Add Sub Mul Div Pow Min Max PRelu Less Greater Equal LessOrEqual GreaterOrEqual".split()
    many("pairs", [node(k, ["a", "b"], [f"y{k}"]) for k in kinds if k != "PRelu"], {"a": a, "b": b})
    many("pairs of one shape", [node(k, ["a", "b"], [f"y{k}"]) for k in kinds], {"a": np.tile(X, 3)[:88], "b": np.tile(X[::-1], 3)[5:93]})
    many("min of three", [node(k, ["a", "b", "c"], [f"y{k}"]) for k in ("Min", "Max", "Sum", "Mean")], {"a": X, "b": X[::-1].copy(), "c": np.roll(X, 7)})
    many("where", [node("Less", ["a", "b"], ["c"]), node("Where", ["c", "a", "b"], ["y"])], {"a": a, "b": b})
    many("fmod", [node("Mod", ["a", "b"], ["y"], fmod=1)], {"a": X, "b": np.roll(X, 5)})


def fused(name, before, feeds, consts, acts=("Relu", "Clip", "HardSigmoid", "HardSwish", "Sigmoid", "Tanh", "LeakyRelu", "Exp", "Gelu", "Elu")):
    """Each function right after what it is fused with; `before` makes the nodes of one branch."""
    nodes = []
    for k in acts:
        nodes += before(k) + [node(k, [f"{k}_z"] + (["lo", "hi"] if k == "Clip" else []), [f"y{k}"])]
    many(name, nodes, feeds, {**consts, "lo": np.float32(-1), "hi": np.float32(6)})


def networks():
    """Functions after convolutions, products and sums, which take them along. Each pixel has one number that is odd, at most."""
    rng = np.random.default_rng(7)
    f = lambda *s: rng.standard_normal(s).astype(np.float32)
    x = f(1, 8, 9, 9)
    for k, v in enumerate((NAN, INF, -INF, 1e30, -1e30, 1e10)):
        x[0, k, k, k] = v
    w = {"w": f(8, 8, 3, 3) / 8, "b": f(8)}
    fused("conv", lambda k: [node("Conv", ["x", "w", "b"], [f"{k}_z"], pads=[1] * 4)], {"x": x}, w)
    fused("conv twice", lambda k: [node("Conv", ["x", "w", "b"], [f"{k}_u"]), node("Relu", [f"{k}_u"], [f"{k}_v"]),
                                   node("Conv", [f"{k}_v", "w", "b"], [f"{k}_z"])], {"x": x}, w, ("Relu", "Clip", "Sigmoid"))
    fused("conv and sum", lambda k: [node("Conv", ["x", "w", "b"], [f"{k}_u"], pads=[1] * 4), node("Conv", ["x", "w"], [f"{k}_v"], pads=[1] * 4),
                                     node("Add", [f"{k}_u", f"{k}_v"], [f"{k}_z"])], {"x": x}, w, ("Relu", "Clip", "HardSwish", "Sigmoid"))
    norm = {"s": f(8), "o": f(8), "m": f(8), "v": abs(f(8)) + 1}
    fused("pool and norm", lambda k: [node("Conv", ["x", "w", "b"], [f"{k}_u"]), node("MaxPool", [f"{k}_u"], [f"{k}_v"], kernel_shape=[1, 1]),
                                      node("BatchNormalization", [f"{k}_v", "s", "o", "m", "v"], [f"{k}_z"])], {"x": x}, {**w, **norm}, ("Relu", "Clip", "Sigmoid"))
    fused("joined", lambda k: [node("Conv", ["x", "w", "b"], [f"{k}_u"]), node("Conv", ["x", "w"], [f"{k}_v"]), node("Concat", [f"{k}_u", f"{k}_v"], [f"{k}_t"], axis=1),
                               node("BatchNormalization", [f"{k}_t", "s", "o", "m", "v"], [f"{k}_z"])], {"x": x},
          {**w, **{n: np.concatenate([c, c]) for n, c in norm.items()}}, ("Relu", "Clip"))
    rows = f(24, 16)
    for k, v in enumerate(EDGES):
        rows[k, k % 16] = v
    g = {"w": f(16, 8), "b": f(8)}
    fused("gemm", lambda k: [node("Gemm", ["x", "w", "b"], [f"{k}_z"])], {"x": rows}, g)
    fused("matmul and sum", lambda k: [node("MatMul", ["x", "w"], [f"{k}_u"]), node("Add", [f"{k}_u", "b"], [f"{k}_z"])], {"x": rows}, g)
    fused("matmul of two", lambda k: [node("MatMul", ["x", "t"], [f"{k}_z"])], {"x": rows, "t": f(16, 5)}, {}, ("Relu", "Clip", "Tanh"))
    # Ordinary inputs, of which the network makes NaN.
    plain = f(1, 8, 5, 5)
    fused("made within", lambda k: [node("Mul", ["x", "large"], [f"{k}_l"]), node("Exp", [f"{k}_l"], [f"{k}_e"]), node("Conv", [f"{k}_e", "w", "b"], [f"{k}_z"])],
          {"x": plain}, {**w, "large": np.float32(100)}, ("Relu", "Clip", "Sigmoid"))
    huge = np.float32(3e38) * np.eye(8, dtype=np.float32).reshape(8, 8, 1, 1)
    fused("large weights", lambda k: [node("Conv", ["x", "v"], [f"{k}_l"]), node("Conv", [f"{k}_l", "w", "b"], [f"{k}_z"])],
          {"x": (np.sign(plain) * 3).astype(np.float32)}, {**w, "v": huge}, ("Relu", "Clip"))


def rows_of(n):
    """Rows with NaN at several places, with infinities, of one number, and ordinary ones."""
    x = np.random.default_rng(9).standard_normal((10, n)).astype(np.float32)
    x[0, 0], x[1, n // 2], x[2, n - 1] = NAN, NAN, NAN
    x[3, n // 2], x[4, 0], x[5] = INF, -INF, -INF
    x[6], x[7, :2] = 0, 80
    x[8, 0], x[8, n - 1] = INF, -INF
    return x


def along_axes():
    for n in (1, 5, 40, 600):
        x = rows_of(n)
        for axis in (0, 1):
            t = x if axis else np.ascontiguousarray(x.T)
            soft = [node(k, ["x"], [f"y{k}"], axis=axis) for k in ("Softmax", "LogSoftmax")]
            many(f"softmax of {n} along {axis}", soft, {"x": t})
            kinds = "ReduceSum ReduceMean ReduceL1 ReduceL2 ReduceSumSquare ReduceLogSumExp ReduceMax ReduceMin".split()
            if n < 600:  # where a product becomes 0 depends on the order
                kinds.insert(0, "ReduceProd")
            many(f"reductions of {n} along {axis}", [node(k, ["x", "a"], [f"y{k}"], keepdims=0) for k in kinds], {"x": t}, {"a": np.array([axis], np.int64)})
            *sums, _, _ = goldens[-1][3]
            with np.errstate(all="ignore"):
                known([*sums, np.max(t, axis), np.min(t, axis)])
    x = rows_of(40)
    many("sums so far", [node("CumSum", ["x", "a"], ["y0"]), node("CumSum", ["x", "a"], ["y1"], reverse=1, exclusive=1)], {"x": x}, {"a": np.int64(1)})
    order = np.nan_to_num(x, nan=1, posinf=INF, neginf=-INF)
    many("places", [node(k, ["x"], [f"y{k}{l}"], axis=1, select_last_index=l) for k in ("ArgMax", "ArgMin") for l in (0, 1)], {"x": order})
    zeros = np.array([[0, 0, 0, 0], [1, 0, 0, 0], [NAN, 1, 0, 0], [3, 4, 0, 0]], np.float32)
    many("lp norm", [node("LpNormalization", ["x"], [f"y{a}{p}"], axis=a, p=p) for a in (0, 1) for p in (1, 2)], {"x": zeros})
    for n in (1, 6, 100):
        x = rows_of(n)
        c = {"s": np.linspace(1, 2, n, dtype=np.float32), "b": np.linspace(-1, 1, n, dtype=np.float32)}
        many(f"layer norm of {n}", [node("LayerNormalization", ["x", "s", "b"], ["y"], axis=-1)], {"x": x}, c)
    picture = rows_of(36).reshape(1, 10, 6, 6)
    c = {"s": np.linspace(1, 2, 10, dtype=np.float32), "b": np.linspace(-1, 1, 10, dtype=np.float32)}
    many("instance norm", [node("InstanceNormalization", ["x", "s", "b"], ["y"])], {"x": picture}, c)
    point = picture[:, :, :1, :1].copy()
    many("instance norm of one", [node("InstanceNormalization", ["x", "s", "b"], ["y"])], {"x": point}, c)
    with np.errstate(all="ignore"):
        known([point * 0 + c["b"].reshape(1, 10, 1, 1)])  # theirs cancels


def pools():
    x = rows_of(36).reshape(2, 5, 6, 6)
    many("average pools", [node("AveragePool", ["x"], ["y0"], kernel_shape=[2, 2]), node("AveragePool", ["x"], ["y1"], kernel_shape=[3, 3], pads=[1] * 4, strides=[2, 2]),
                           node("GlobalAveragePool", ["x"], ["y2"])], {"x": x})
    many("largest of pools", [node("MaxPool", ["x"], ["y0"], kernel_shape=[2, 2]), node("MaxPool", ["x"], ["y1"], kernel_shape=[3, 3], pads=[1] * 4, strides=[2, 2]),
                              node("GlobalMaxPool", ["x"], ["y2"])], {"x": x})
    wide = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)), constant_values=-INF)
    windows = [np.lib.stride_tricks.sliding_window_view(a, k, (2, 3)) for a, k in ((x, (2, 2)), (wide, (3, 3)))]
    known([windows[0].max((-1, -2)), windows[1][:, :, ::2, ::2].max((-1, -2)), x.max((2, 3), keepdims=True)])
    plain = np.nan_to_num(x, nan=1, posinf=2, neginf=-2)
    many("pools of pictures", [node("Conv", ["x", "w"], ["c"]), node("MaxPool", ["c"], ["y0"], kernel_shape=[2, 2]), node("AveragePool", ["c"], ["y1"], kernel_shape=[2, 2])],
         {"x": plain}, {"w": np.eye(5, dtype=np.float32).reshape(5, 5, 1, 1)})


def integers():
    low, high = -2**31, 2**31 - 1
    a = np.array([high, low, 7, -7, 100, -100, low, high, 5], np.int32)
    b = np.array([1, -1, 3, 3, -3, 7, 2, -2, 5], np.int32)
    many("int32", [node(k, ["a", "b"], [f"y{k}"]) for k in ("Add", "Sub", "Mul", "Min", "Max", "Less", "Equal")], {"a": a, "b": b})
    many("int32 goes on", [node("Add", ["a", "b"], ["s"]), node("Div", ["s", "two"], ["y0"]), node("Less", ["s", "two"], ["y1"]), node("Mul", ["a", "a"], ["m"]),
                           node("Sub", ["m", "b"], ["d"]), node("Cast", ["d"], ["y2"], to=1), node("Neg", ["a"], ["n"]), node("Div", ["n", "two"], ["y3"])],
         {"a": a, "b": b}, {"two": np.int32(2)})
    many("int32 quotients", [node("Div", ["a", "b"], ["y0"]), node("Mod", ["a", "b"], ["y1"]), node("Mod", ["a", "b"], ["y2"], fmod=1)], {"a": a[2:], "b": b[2:]})
    for kind, x, y in ((np.uint8, [250, 10, 200, 0, 255, 7], [10, 20, 100, 1, 255, 2]), (np.int8, [120, -120, 100, -128, 127, 7], [10, -20, 100, 1, 127, -2])):
        x, y = np.array(x, kind), np.array(y, kind)
        many(f"{kind.__name__}", [node(k, ["a", "b"], [f"y{k}"]) for k in ("Add", "Sub", "Mul", "Div")] +
             [node("Add", ["a", "b"], ["s"]), node("Div", ["s", "b"], ["yq"])], {"a": x, "b": y}, opset=14)
    # A division by 0 has no result, and the least integer has no opposite: ours must not end the process.
    zero = np.array([1, 0, -5, high, low, low], np.int32)
    many("int32 by 0", [node("Div", ["a", "b"], ["y0"]), node("Mod", ["a", "b"], ["y1"]), node("Mod", ["a", "b"], ["y2"], fmod=1)],
         {"a": zero, "b": np.array([1, 1, 1, 1, 1, 1], np.int32)})
    name, blob, feeds, outs = goldens[-1]
    goldens[-1] = (name, blob, [zero, np.array([0, 0, 0, 0, 0, -1], np.int32)],
                   [np.array([0, 0, 0, 0, 0, low], np.int32), np.zeros(6, np.int32), np.zeros(6, np.int32)])
    large = np.array([2**31 + 5, 2**40 + 7, -2**40 - 3, 2**53 + 1, 2**62 + 1, -5], np.int64)
    many("casts of int64", [node("Cast", ["x"], [f"y{t}"], to=t) for t in (1, 2, 3, 5, 6, 9, 12)], {"x": large})
    reals = np.array([0.4, -0.6, 1.9, -1.9, 127.5, 0.5, 300, -300, 2e9, -2e9, 1e15, -0.0], np.float32)
    many("casts of floats", [node("Cast", ["x"], [f"y{t}"], to=t) for t in (7, 9, 10)], {"x": reals})
    many("casts to int32", [node("Cast", ["x"], ["y"], to=6)], {"x": reals[:10]})
    many("casts to bytes", [node("Cast", ["x"], [f"y{t}"], to=t) for t in (2, 3)], {"x": reals[:8]})
    # A number that no integer can be becomes the nearest that can, and NaN 0.
    odd = np.array([NAN, INF, -INF, 3e38, -3e38, 1e10], np.float32)
    many("casts of edges", [node("Cast", ["x"], [f"y{t}"], to=t) for t in (6, 7, 9)], {"x": odd})
    big = 2**63 - 1
    known([[0, high, low, high, low, high], [0, big, -big - 1, big, -big - 1, 10**10], [1, 1, 1, 1, 1, 1]])


def doubles():
    """float64: what float32 does not hold."""
    d = np.array([1 + 1e-12, 1e300, -1e300, 1e-300, 16777217, 0.1, NAN, INF, -INF, 0, -0.0, 2.5, -2.5, 88.8, 710, 3], np.float64)
    a, b = d.reshape(-1, 1), d[::-1].copy().reshape(1, -1)
    kinds = "Add Sub Mul Div Min Max Pow PRelu Less Greater Equal LessOrEqual GreaterOrEqual".split()
    many("float64 pairs", [node(k, ["a", "b"], [f"y{k}"]) for k in kinds if k != "PRelu"], {"a": a, "b": b})
    many("float64 numbers", [node(k, ["a", "one"], [f"y{k}"]) for k in ("Add", "Mul", "Div", "PRelu")] + [node("Mod", ["a", "one"], ["yf"], fmod=1)], {"a": d},
         {"one": np.float64(1)})
    functions = "Relu Abs Neg Sign Exp Log Sqrt Reciprocal Floor Ceil Round Sigmoid Tanh".split()
    many("float64 functions", [node(k, ["x"], [f"y{k}"]) for k in functions], {"x": d})
    many("float64 clip", [node("Clip", ["x", "lo", "hi"], ["y0"]), node("Clip", ["x", "lo"], ["y1"])], {"x": d}, {"lo": np.float64(-1e200), "hi": np.float64(1e200)})
    many("float64 sums", [node(k, ["x", "x", "c"], [f"y{k}"]) for k in ("Sum", "Mean", "Max", "Min")], {"x": d}, {"c": np.float64(1e290)})
    x = np.array([[1, 1e300, 3e-300, 4], [1 + 1e-12, 2, NAN, 5], [INF, 1, 2, 3]], np.float64)
    for axis in (0, 1):
        reductions = "ReduceSum ReduceMean ReduceProd ReduceL1 ReduceSumSquare".split()
        many(f"float64 reductions along {axis}", [node(k, ["x", "a"], [f"y{k}"], keepdims=0) for k in reductions], {"x": x}, {"a": np.array([axis], np.int64)})
    plain = np.nan_to_num(x, nan=7)
    many("float64 largest", [node(k, ["x", "a"], [f"y{k}"]) for k in ("ReduceMax", "ReduceMin")] + [node(k, ["x"], [f"y{k}"], axis=1) for k in ("ArgMax", "ArgMin")],
         {"x": plain}, {"a": np.array([1], np.int64)})
    many("float64 sums so far", [node("CumSum", ["x", "a"], ["y0"]), node("CumSum", ["x", "a"], ["y1"], reverse=1, exclusive=1)], {"x": x}, {"a": np.int64(1)})
    many("float64 moves", [node("Transpose", ["x"], ["y0"]), node("Slice", ["x", "from", "to"], ["y1"]), node("Concat", ["x", "x"], ["y2"], axis=1), node("Gather", ["x", "i"], ["y3"], axis=1),
                           node("Pad", ["x", "p", "v"], ["y4"]), node("Expand", ["x", "s"], ["y5"]), node("Less", ["x", "v"], ["c"]), node("Where", ["c", "x", "v"], ["y6"]),
                           node("Pad", ["x", "p"], ["y7"], mode="reflect"), node("Reshape", ["x", "f"], ["y8"]), node("GatherElements", ["x", "e"], ["y9"], axis=1)],
         {"x": x}, {"from": np.array([1, 0], np.int64), "to": np.array([3, 2], np.int64), "i": np.array([3, 0], np.int64), "p": np.array([1, 0, 0, 1], np.int64),
                    "v": np.float64(1e-310), "s": np.array([2, 1, 1], np.int64), "f": np.array([2, 6], np.int64), "e": np.array([[3, 1], [0, 2], [1, 1]], np.int64)})
    many("float64 casts", [node("Cast", ["x"], [f"y{t}"], to=t) for t in (1, 7, 9)], {"x": np.array([2.0**40 + 1, 123456789012, -1e15, 0.1, -0.6, 2.0**53], np.float64)})
    many("casts to float64", [node("Cast", ["i"], ["y0"], to=11), node("Cast", ["f"], ["y1"], to=11), node("Cast", ["u"], ["y2"], to=11)],
         {"i": np.array([2**53 - 1, -(2**40) - 3, 5], np.int64), "f": EDGES, "u": np.array([2**64 - 1, 2**63, 7], np.uint64)})
    many("float64 within", [node("Cast", ["x"], ["d"], to=11), node("Mul", ["d", "c"], ["m"]), node("Div", ["m", "c"], ["q"]), node("Cast", ["q"], ["y"], to=1)], {"x": X}, {"c": np.float64(1e100)})


def sizes():
    """Results whose size or places are easily missed."""
    rng = np.random.default_rng(3)
    f = lambda *s: rng.standard_normal(s).astype(np.float32)
    up = lambda x, w, shape, out, **more: node("ConvTranspose", [x, w, "b"], [out], output_shape=shape, **more)
    many("larger deconvolution", [up("x", "w", [10, 8], "y0", strides=[3, 2]), up("x", "w", [11, 8], "y1", strides=[3, 2]), up("x", "w", [6, 5], "y2", strides=[3, 2]),
                                  up("x", "w", [11, 7], "y3", strides=[3, 2], auto_pad="SAME_UPPER"), node("ConvTranspose", ["x", "w"], ["y4"], strides=[4, 4], auto_pad="SAME_LOWER")],
         {"x": f(1, 2, 3, 3)}, {"w": f(2, 3, 3, 3), "b": f(3)})
    many("larger deconvolution in groups", [node("ConvTranspose", ["x", "w"], ["y"], group=2, output_shape=[11], strides=[3])], {"x": f(1, 4, 3)}, {"w": f(4, 1, 3)})
    for n, scale in ((2, 1.6), (5, 0.6), (10, 0.7), (3, 1.4), (7, 3.3)):
        nodes = [node("Resize", ["x", "", "s"], [f"y{m[0]}{r}"], mode="nearest", nearest_mode=r, coordinate_transformation_mode=m)
                 for m in ("half_pixel", "asymmetric", "pytorch_half_pixel") for r in ("floor", "ceil", "round_prefer_floor", "round_prefer_ceil")]
        many(f"resize {n} by {scale}", nodes, {"x": np.arange(2 * n * n, dtype=np.float32).reshape(1, 2, n, n)}, {"s": np.float32([1, 1, scale, scale])}, opset=18)
    sides = [node("Resize", ["x", "", "", "s"], [f"y{m}"], mode="nearest", nearest_mode="floor", coordinate_transformation_mode=m) for m in ("half_pixel", "align_corners")]
    many("resize to sides", sides, {"x": np.arange(30, dtype=np.float32).reshape(1, 1, 5, 6)}, {"s": np.array([1, 1, 7, 9], np.int64)}, opset=18)
    many("mean of outer axes", [node("ReduceMean", ["x", "a"], ["y"], keepdims=1)], {"x": f(2, 5, 5, 4)}, {"a": np.array([-1, -4], np.int64)})
    many("no axes", [node("ReduceLogSum", ["x"], ["y"], noop_with_empty_axes=1)], {"x": abs(f(3, 4)) + 1})


def everything():
    sizes()
    doubles()
    functions()
    pairs()
    networks()
    along_axes()
    pools()
    integers()


if __name__ == "__main__":
    everything()
    write_goldens("special.bin", goldens)
    print(len(goldens), "models")
