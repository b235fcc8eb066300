#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes 1/model.onnx: a model whose output is its input, 1x1x224x224. Needs the onnx package."""
import pathlib

import onnx
from onnx import TensorProto, helper

SHAPE = [1, 1, 224, 224]
graph = helper.make_graph([helper.make_node("Identity", ["input"], ["output"], name="identity")], "identity",
                          [helper.make_tensor_value_info("input", TensorProto.FLOAT, SHAPE)],
                          [helper.make_tensor_value_info("output", TensorProto.FLOAT, SHAPE)])
model = helper.make_model(graph, producer_name="gpuwire", opset_imports=[helper.make_opsetid("", 13)])
model.ir_version = 8
onnx.checker.check_model(model, full_check=True)
path = pathlib.Path(__file__).parent / "1" / "model.onnx"
path.parent.mkdir(exist_ok=True)
path.write_bytes(model.SerializeToString())
print(path, path.stat().st_size, "bytes")
