#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the small models that the serving tests use. Needs the onnx package."""
import pathlib

import onnx
from onnx import TensorProto, helper

here = pathlib.Path(__file__).parent


def write(path, nodes, inputs, outputs, check=True):
    tensor = lambda t: helper.make_tensor_value_info(t[0], TensorProto.FLOAT, t[1])
    graph = helper.make_graph(nodes, path.parent.parent.name, [tensor(t) for t in inputs], [tensor(t) for t in outputs])
    model = helper.make_model(graph, producer_name="gpuwire", opset_imports=[helper.make_opsetid("", 13)])
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
# A sound file that cannot be served.
write(here / "bad_models/operator/1/model.onnx", [helper.make_node("NoSuchOperator", ["x"], ["y"], name="odd")],
      [("x", [1, 64])], [("y", [1, 64])], check=False)
