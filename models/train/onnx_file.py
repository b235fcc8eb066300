# SPDX-License-Identifier: Apache-2.0
"""Writes the network as an ONNX file, node by node: Conv, Relu, Add and DepthToSpace, nothing else."""
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper


def build(base, layers, scale, side, doc):
    """The model: `layers` is [(weight, bias)], each but the last followed by Relu; their sum with the convolution
    of the input by `base` (no bias) is spread into scale x scale blocks."""
    nodes, weights = [], []

    def conv(source, result, name, weight, bias=None):
        inputs = [source, f"{name}.weight"]
        weights.append(numpy_helper.from_array(np.ascontiguousarray(weight, dtype=np.float32), inputs[1]))
        if bias is not None:
            inputs.append(f"{name}.bias")
            weights.append(numpy_helper.from_array(np.ascontiguousarray(bias, dtype=np.float32), inputs[2]))
        k = weight.shape[2]
        nodes.append(helper.make_node("Conv", inputs, [result], name=name, kernel_shape=[k, k],
                                      pads=[k // 2] * 4, strides=[1, 1], dilations=[1, 1], group=1))

    at = "input"
    for i, (weight, bias) in enumerate(layers):
        last = i == len(layers) - 1
        name = f"conv{i + 1}"
        conv(at, "detail" if last else f"{name}.sum", name, weight, bias)
        if not last:
            nodes.append(helper.make_node("Relu", [f"{name}.sum"], [f"{name}.out"], name=f"relu{i + 1}"))
            at = f"{name}.out"
    conv("input", "bicubic", "bicubic", base)
    nodes.append(helper.make_node("Add", ["bicubic", "detail"], ["phases"], name="add"))
    nodes.append(helper.make_node("DepthToSpace", ["phases"], ["output"], name="spread", blocksize=scale, mode="DCR"))
    graph = helper.make_graph(
        nodes, "superresolution",
        [helper.make_tensor_value_info("input", TensorProto.FLOAT, [1, 1, side, side])],
        [helper.make_tensor_value_info("output", TensorProto.FLOAT, [1, 1, side * scale, side * scale])],
        weights, doc_string=doc)
    model = helper.make_model(graph, producer_name="gpuwire", opset_imports=[helper.make_opsetid("", 13)])
    model.ir_version = 8
    onnx.checker.check_model(model, full_check=True)
    return model
