#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the small models that the serving tests use. Needs the onnx package."""
import pathlib

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

here = pathlib.Path(__file__).parent


def write(path, nodes, inputs, outputs, check=True, weights=(), opset=13):
    tensor = lambda t: helper.make_tensor_value_info(t[0], TensorProto.FLOAT, t[1])
    graph = helper.make_graph(nodes, path.parent.parent.name, [tensor(t) for t in inputs], [tensor(t) for t in outputs],
                              [numpy_helper.from_array(w, name) for name, w in weights])
    model = helper.make_model(graph, producer_name="gpuwire", opset_imports=[helper.make_opsetid("", opset)])
    model.ir_version = 8
    if check:
        onnx.checker.check_model(model, full_check=True)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(model.SerializeToString())


# Requests so small that the way there and back is all that is measured.
write(here / "models/echo/1/model.onnx", [helper.make_node("Identity", ["x"], ["y"])], [("x", [1, 64])], [("y", [1, 64])])
# Two inputs.
write(here / "models/sum/1/model.onnx", [helper.make_node("Add", ["a", "b"], ["y"])],
      [("a", [1, 64]), ("b", [1, 64])], [("y", [1, 64])])
# Two inputs and two outputs, whose bytes are no multiple of what tensors begin at.
write(here / "models/pair/1/model.onnx",
      [helper.make_node("Identity", ["a"], ["p"]), helper.make_node("Identity", ["b"], ["q"])],
      [("a", [1, 3]), ("b", [1, 21])], [("p", [1, 3]), ("q", [1, 21])])
# As many samples as a request brings.
write(here / "batch_models/mirror/1/model.onnx",
      [helper.make_node("Identity", ["a"], ["p"]), helper.make_node("Identity", ["b"], ["q"])],
      [("a", ["n", 3]), ("b", ["n", 21])], [("p", ["n", 3]), ("q", ["n", 21])])
# A valid file that cannot be served.
write(here / "bad_models/operator/1/model.onnx", [helper.make_node("NoSuchOperator", ["x"], ["y"], name="odd")],
      [("x", [1, 64])], [("y", [1, 64])], check=False)


def small():
    """A network of a few small layers: products with factors in both orders, a sum, a norm, functions, a softmax."""
    rng = np.random.default_rng(5)
    w = lambda *shape: (rng.standard_normal(shape) / np.sqrt(shape[-1])).astype(np.float32)
    weights = [("w1", w(64, 37)), ("b1", w(64)), ("w2", w(64, 64)), ("b2", w(64)), ("g", 1 + w(64)), ("h", w(64)),
               ("w3", w(10, 64)), ("b3", w(10))]
    nodes = [helper.make_node("Gemm", ["x", "w1", "b1"], ["a"], transB=1), helper.make_node("Relu", ["a"], ["r"]),
             helper.make_node("MatMul", ["r", "w2"], ["m"]), helper.make_node("Add", ["m", "b2"], ["mb"]),
             helper.make_node("Tanh", ["mb"], ["t"]), helper.make_node("Add", ["t", "r"], ["s"]),
             helper.make_node("LayerNormalization", ["s", "g", "h"], ["z"], axis=-1),
             helper.make_node("Gemm", ["z", "w3", "b3"], ["c"], transB=1), helper.make_node("Softmax", ["c"], ["y"], axis=-1)]
    write(here.parent / "model/data/mlp.onnx", nodes, [("x", ["n", 37])], [("y", ["n", 10]), ("z", ["n", 64])],
          weights=weights, opset=17)


def wide():
    """One sample is little work, and eight are too much for a resident kernel."""
    w = (np.random.default_rng(6).standard_normal((16, 16, 3, 3)) / 12).astype(np.float32)
    write(here.parent / "model/data/wide.onnx", [helper.make_node("Conv", ["x", "w"], ["y"], pads=[1, 1, 1, 1])],
          [("x", ["n", 16, 64, 64])], [("y", ["n", 16, 64, 64])], weights=[("w", w)])


small()
wide()
