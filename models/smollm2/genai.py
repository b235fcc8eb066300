# SPDX-License-Identifier: Apache-2.0
"""Writes a decoder as onnxruntime-genai's model builder does: model.onnx, model.onnx.data and genai_config.json.

Weights are numpy arrays by transformers' names. A matrix may also be a Q4: blocks of 4 bits, which become MatMulNBits.
"""
import json
import math

import numpy as np
import onnx
from onnx import TensorProto, helper

MS = "com.microsoft"
ONNX_TYPE = {"float32": TensorProto.FLOAT, "float16": TensorProto.FLOAT16, "uint8": TensorProto.UINT8,
             "int64": TensorProto.INT64, "int32": TensorProto.INT32}


class Q4:
    """Element (n, k) is (quant - zero) * scale of its block: quants [n, blocks, block / 2], scales [n, blocks], zeros None
    (all 8), bytes of two [n, ceil(blocks / 2)], or numbers of the scales' type [n, blocks]."""

    def __init__(self, quants, scales, zeros, k):
        self.quants, self.scales, self.zeros, self.n, self.k = quants, scales, zeros, quants.shape[0], k
        self.block = quants.shape[2] * 2

    def floats(self):
        q = np.stack([self.quants & 15, self.quants >> 4], -1).reshape(self.n, -1, self.block).astype(np.float32)
        z = np.full(self.scales.shape, 8, np.float32) if self.zeros is None else self.zeros
        if z.dtype == np.uint8:
            z = np.stack([z & 15, z >> 4], -1).reshape(self.n, -1)[:, :self.scales.shape[1]]
        w = (q - z[..., None].astype(np.float32)) * self.scales[..., None].astype(np.float32)
        return w.reshape(self.n, -1)[:, :self.k]


class Writer:
    def __init__(self, config, weights, dtype="float32"):
        """config: numbers by transformers' names; see make() for the choices of form in it."""
        self.c, self.w, self.dtype = config, weights, dtype
        self.nodes, self.tensors, self.made = [], [], set()

    # ---- pieces
    def tensor(self, name, array):
        if name not in self.made:
            self.made.add(name)
            array = np.ascontiguousarray(array)
            self.tensors.append(helper.make_tensor(name, ONNX_TYPE[str(array.dtype)], array.shape, array.tobytes(), raw=True))
        return name

    def constant(self, value, dtype="int64"):
        array = np.array(value, dtype)
        return self.tensor(f"/model/constants/{dtype}/{value}", array)

    def node(self, kind, inputs, name, outputs=None, domain="", **attributes):
        outputs = outputs or [name + "/output_0"]
        self.nodes.append(helper.make_node(kind, inputs, outputs, name=name, domain=domain, **attributes))
        return outputs[0]

    def number(self, value):
        return self.constant(float(value), self.dtype)

    def linear(self, x, name, key, node=None):
        """x times a matrix, with its bias where it has one."""
        w, node = self.w[key + ".weight"], node or f"{name}/MatMul"
        if isinstance(w, Q4):
            inputs = [x, self.tensor(f"{key}.MatMul.weight_Q4", w.quants),
                      self.tensor(f"{key}.MatMul.weight_scales", w.scales.astype(self.dtype).reshape(-1))]
            if w.zeros is not None:
                z = w.zeros if w.zeros.dtype == np.uint8 else w.zeros.astype(self.dtype)
                inputs.append(self.tensor(f"{key}.MatMul.weight_zp", z.reshape(-1)))
            y = self.node("MatMulNBits", inputs, node + "_Q4", domain=MS, K=w.k, N=w.n, bits=4, block_size=w.block)
        else:
            y = self.node("MatMul", [x, self.tensor(f"{key}.MatMul.weight", w.T.astype(self.dtype))], node)
        if key + ".bias" in self.w:
            y = self.node("Add", [y, self.tensor(f"{key}.Add.bias", self.w[key + ".bias"].astype(self.dtype))],
                          node.replace("/MatMul", "/Add"))
        return y

    # ---- parts of a decoder
    def gain(self, key):
        return self.tensor(key + ".weight", (self.w[key + ".weight"] + self.c.get("norm_offset", 0)).astype(self.dtype))

    def norm(self, key, x, name):
        return self.node("SimplifiedLayerNormalization", [x, self.gain(key)], name, axis=-1,
                         epsilon=self.c["rms_norm_eps"], stash_type=1)

    def skip_norm(self, key, x, skip, name):
        """The norm of the sum, and the sum."""
        outputs = [f"{name}/output_0", "", "", f"{name}/output_3"]
        self.node("SkipSimplifiedLayerNormalization", [x, skip, self.gain(key)], name, outputs, MS,
                  epsilon=self.c["rms_norm_eps"])
        return outputs[0], outputs[3]

    def head_norm(self, key, x, name, heads):
        head = self.c["head_dim"]
        x = self.node("Reshape", [x, self.constant([0, -1, head])], f"{name}/Reshape_1")
        x = self.norm(key, x, f"{name}/SimplifiedLayerNormalization")
        return self.node("Reshape", [x, self.constant([0, -1, heads * head])], f"{name}/Reshape_2")

    def mask(self):
        at = "/model/attn_mask_reformat/attn_mask_subgraph"
        n = self.node("ReduceSum", ["attention_mask", self.constant([1])], f"{at}/ReduceSum", keepdims=1)
        n = self.node("Sub", [n, self.constant([1])], f"{at}/Sub")
        self.node("Cast", [n, ], f"{at}/Sub/Cast", to=TensorProto.INT32)
        n = self.node("Shape", ["attention_mask"], f"{at}/Shape")
        n = self.node("Gather", [n, self.constant(1)], f"{at}/Gather", axis=0)
        self.node("Cast", [n], f"{at}/Gather/Cast", to=TensorProto.INT32)
        return f"{at}/Sub/Cast/output_0", f"{at}/Gather/Cast/output_0"

    def tables(self):
        c = self.c
        half = int(c["head_dim"] * c.get("partial_rotary_factor", 1)) // 2
        angle = np.outer(np.arange(c["max_position_embeddings"]), 1 / c["rope_theta"] ** (np.arange(half) / half))
        return [self.tensor(name, f(angle).astype(self.dtype)) for name, f in (("cos_cache", np.cos), ("sin_cache", np.sin))]

    def attention(self, x, i):
        c, key, at = self.c, f"model.layers.{i}.self_attn", f"/model/layers.{i}/attn"
        heads, kv, head = c["num_attention_heads"], c["num_key_value_heads"], c["head_dim"]
        if key + ".qkv_proj.weight" in self.w:
            q, k, v = self.linear(x, f"{at}/qkv_proj", key + ".qkv_proj"), "", ""
        else:
            q, k, v = (self.linear(x, f"{at}/{n}_proj", f"{key}.{n}_proj") for n in "qkv")
        if key + ".q_norm.weight" in self.w:
            q, k = self.head_norm(key + ".q_norm", q, f"{at}/q_norm", heads), self.head_norm(key + ".k_norm", k, f"{at}/k_norm", kv)
        rotary = c.get("rotary_in_attention", True)
        if not rotary:
            half = int(head * c.get("partial_rotary_factor", 1)) // 2
            more = {"num_heads": heads, "rotary_embedding_dim": 2 * half} if 2 * half < head else {}
            q, k = (self.node("RotaryEmbedding", [y, "position_ids", *self.tables()], f"{at}/{n}_rotary/RotaryEmbedding",
                              domain=MS, interleaved=0, **dict(more, num_heads=h) if more else {})
                    for n, y, h in (("q", q, heads), ("k", k, kv)))
        inputs = [q, k, v, f"past_key_values.{i}.key", f"past_key_values.{i}.value", *self.mask_names]
        y = self.node("GroupQueryAttention", inputs + (self.tables() if rotary else ["", ""]), f"{at}/GroupQueryAttention",
                      [f"{at}/GroupQueryAttention/output_0", f"present.{i}.key", f"present.{i}.value"], MS,
                      num_heads=heads, kv_num_heads=kv, scale=c.get("attention_multiplier", 1 / math.sqrt(head)),
                      do_rotary=int(rotary), rotary_interleaved=0, local_window_size=c.get("sliding_window") or -1,
                      softcap=c.get("attn_logit_softcapping", 0.0))
        return self.linear(y, f"{at}/o_proj", key + ".o_proj")

    def mlp(self, x, i):
        key, at = f"model.layers.{i}.mlp", f"/model/layers.{i}/mlp"
        gate, up = (self.linear(x, f"{at}/{n}_proj", f"{key}.{n}_proj") for n in ("gate", "up"))
        if self.c["hidden_act"] == "silu":
            y = self.node("Sigmoid", [gate], f"{at}/act_fn/Sigmoid")
            y = self.node("Mul", [gate, y], f"{at}/act_fn/Mul")
        else:
            kind = {"gelu": "Gelu", "gelu_pytorch_tanh": "FastGelu", "quick_gelu": "QuickGelu"}[self.c["hidden_act"]]
            y = self.node(kind, [gate], f"{at}/act_fn/{kind}", domain=MS)
        y = self.node("Mul", [y, up], f"{at}/Mul")
        return self.linear(y, f"{at}/down_proj", key + ".down_proj")

    def embed(self):
        c, w = self.c, self.w["model.embed_tokens.weight"]
        if isinstance(w, Q4):
            table = self.tensor("model.embed_tokens.weight_Q4", w.quants)
            table = self.node("Reshape", [table, self.constant([w.n, -1])], "/model/embed_tokens/Reshape")
            x = [table, "input_ids",
                 self.tensor("model.embed_tokens.weight_scales", w.scales.astype(self.dtype))]
            x += [] if w.zeros is None else [self.tensor("model.embed_tokens.weight_zp", w.zeros)]
            x = self.node("GatherBlockQuantized", x, "/model/embed_tokens/GatherBlockQuantized", domain=MS, bits=4,
                          block_size=w.block, gather_axis=0, quantize_axis=1)
        elif c.get("turned_embedding"):  # of the head's matrix, which lies column by column
            name = self.tensor("lm_head.MatMul.weight", w.T)
            self.table = name
            name = self.node("Transpose", [name], "/model/embed_tokens/Transpose", perm=[1, 0])
            x = self.node("Gather", [name, "input_ids"], "/model/embed_tokens/Gather")
        else:
            name = self.tensor("model.embed_tokens.weight", w)
            if str(w.dtype) != self.dtype:
                name = self.node("Cast", [name], "/model/embed_tokens/Cast", to=ONNX_TYPE[self.dtype])
            self.table = name
            x = self.node("Gather", [name, "input_ids"], "/model/embed_tokens/Gather")
        if "embed_scale" in c:
            x = self.node("Mul", [x, self.number(c["embed_scale"])], "/model/embed_tokens/Mul")
        return x

    def head(self, x):
        c = self.c
        if "lm_head.weight" in self.w:
            x = self.linear(x, "/lm_head", "lm_head")
        elif c.get("turned_embedding"):
            x = self.node("MatMul", [x, self.table], "/lm_head/MatMul")
        else:
            x = self.node("MatMul", [x, self.node("Transpose", [self.table], "/lm_head/Transpose", perm=[1, 0])], "/lm_head/MatMul")
        cap = c.get("final_logit_softcapping")
        if cap:
            x = self.node("Div", [x, self.number(cap)], "/lm_head/softcap/Div")
            x = self.node("Tanh", [x], "/lm_head/softcap/Tanh")
            x = self.node("Mul", [x, self.number(cap)], "/lm_head/softcap/Mul")
        self.nodes[-1].output[0] = "logits"

    def graph(self):
        """All nodes, in order."""
        self.mask_names = self.mask()
        x = self.embed()
        y, last = None, self.c["num_hidden_layers"]
        for i in range(last):
            key, at = f"model.layers.{i}", f"/model/layers.{i}"
            if i:
                n, x = self.skip_norm(key + ".input_layernorm", x, y, f"{at}/input_layernorm/SkipLayerNorm")
            else:
                n = self.norm(key + ".input_layernorm", x, f"{at}/input_layernorm/LayerNorm")
            n, x = self.skip_norm(key + ".post_attention_layernorm", x, self.attention(n, i),
                                  f"{at}/post_attention_layernorm/SkipLayerNorm")
            y = self.mlp(n, i)
        n, _ = self.skip_norm("model.norm", x, y, f"/model/layers.{last}/final_norm_layernorm/SkipLayerNorm")
        self.head(n)

    def save(self, folder, external=True):
        c, kind = self.c, ONNX_TYPE[self.dtype]
        cache = ["batch_size", c["num_key_value_heads"], "past_sequence_length", c["head_dim"]]
        more = cache[:2] + ["total_sequence_length"] + cache[3:]
        ids = ["input_ids", "attention_mask"] + ([] if c.get("rotary_in_attention", True) else ["position_ids"])
        inputs = [helper.make_tensor_value_info(n, TensorProto.INT64, ["batch_size", "sequence_length" if n != ids[1]
                                                                       else "total_sequence_length"]) for n in ids]
        outputs = [helper.make_tensor_value_info("logits", kind, ["batch_size", "sequence_length", c["vocab_size"]])]
        for i in range(c["num_hidden_layers"]):
            for n in ("key", "value"):
                inputs.append(helper.make_tensor_value_info(f"past_key_values.{i}.{n}", kind, cache))
                outputs.append(helper.make_tensor_value_info(f"present.{i}.{n}", kind, more))
        model = helper.make_model(helper.make_graph(self.nodes, "main_graph", inputs, outputs, self.tensors),
                                  opset_imports=[helper.make_opsetid("", 14), helper.make_opsetid(MS, 1)])
        model.ir_version = 7
        path = str(folder / "model.onnx")
        if external:
            (folder / "model.onnx.data").unlink(missing_ok=True)  # onnx appends to it
            onnx.save(model, path, save_as_external_data=True, location="model.onnx.data", size_threshold=256)
        else:
            onnx.save(model, path)


def genai_config(c, search):
    decoder = {
        "session_options": {"log_id": "onnxruntime-genai", "provider_options": []}, "filename": "model.onnx",
        "head_size": c["head_dim"], "hidden_size": c["hidden_size"],
        "inputs": {"input_ids": "input_ids", "attention_mask": "attention_mask",
                   "past_key_names": "past_key_values.%d.key", "past_value_names": "past_key_values.%d.value"},
        "outputs": {"logits": "logits", "present_key_names": "present.%d.key", "present_value_names": "present.%d.value"},
        "num_attention_heads": c["num_attention_heads"], "num_hidden_layers": c["num_hidden_layers"],
        "num_key_value_heads": c["num_key_value_heads"],
    }
    if not c.get("rotary_in_attention", True):
        decoder["inputs"]["position_ids"] = "position_ids"
    defaults = {"do_sample": False, "max_length": c["max_position_embeddings"], "min_length": 0, "num_beams": 1,
                "past_present_share_buffer": False, "repetition_penalty": 1.0, "temperature": 1.0, "top_k": 50, "top_p": 1.0}
    return {"model": {"bos_token_id": c["bos_token_id"], "context_length": c["max_position_embeddings"], "decoder": decoder,
                      "eos_token_id": c["eos_token_id"], "pad_token_id": c["pad_token_id"], "type": c["model_type"],
                      "vocab_size": c["vocab_size"]},
            "search": dict(defaults, **search)}


def make(folder, config, weights, dtype="float32", search=None, external=True):
    """config has transformers' numbers, and choices: rotary_in_attention (else RotaryEmbedding), norm_offset, embed_scale."""
    w = Writer(config, weights, dtype)
    w.graph()
    w.save(folder, external)
    (folder / "genai_config.json").write_text(json.dumps(genai_config(config, search or {}), indent=2) + "\n")
