#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes data/onnx/NAME: small decoders in the forms that onnxruntime-genai's builder knows, with random weights, and in
golden.json what onnxruntime makes of some tokens. It needs onnx and onnxruntime; the tests need neither.
"""
import json
import pathlib
import sys

import numpy as np
import onnxruntime

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent.parent.parent / "models/smollm2"))
import genai  # noqa: E402

COMMON = {"model_type": "llama", "vocab_size": 48, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2,
          "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 16, "hidden_act": "silu", "rms_norm_eps": 1e-5,
          "rope_theta": 10000.0, "max_position_embeddings": 40, "bos_token_id": 1, "eos_token_id": [2, 3], "pad_token_id": 0}
TOKENS = [1, 7, 40, 3, 22, 22, 9, 31, 17, 5, 11, 46]
CASES = {  # name: (what differs from COMMON, kind of zeros or None for float matrices, parts, float type)
    "floats": ({}, None, {"biases"}, "float32"),
    "halves": ({"num_key_value_heads": 2}, None, {"tied"}, "float16"),
    "bytes": ({}, "bytes", {"tied"}, "float32"),
    "symmetric": ({"hidden_act": "gelu_pytorch_tanh"}, "none", {"packed", "head"}, "float32"),
    "zeros": ({"hidden_act": "gelu", "num_attention_heads": 4, "num_key_value_heads": 2}, "floats", {"gathered", "head"}, "float32"),
    "gathered": ({}, "none", {"gathered", "head"}, "float32"),
    "turned": ({"turned_embedding": True}, "bytes", {"tied"}, "float32"),
    "outside": ({"rotary_in_attention": False, "partial_rotary_factor": 0.5, "hidden_act": "quick_gelu"}, "bytes",
                {"biases", "tied"}, "float32"),
    "norms": ({"sliding_window": 4, "final_logit_softcapping": 3.0, "attn_logit_softcapping": 4.0, "embed_scale": 5.5,
               "norm_offset": 1, "attention_multiplier": 0.3}, "bytes", {"tied", "head norms"}, "float32"),
}


def quantized(r, n, k, zeros, block=16):
    blocks = -(-k // block)
    q = r.integers(0, 256, (n, blocks, block // 2), np.uint8)
    scales = (r.random((n, blocks)) * 0.02 + 0.02).astype(np.float32)
    z = {"none": lambda: None, "bytes": lambda: r.integers(100, 156, (n, (blocks + 1) // 2)).astype(np.uint8),
         "floats": lambda: (r.random((n, blocks)) * 3 + 6).astype(np.float32)}[zeros]()
    return genai.Q4(q, scales, z, k)


def weights(c, zeros, parts, dtype, r):
    hidden, inner, wide = c["hidden_size"], c["intermediate_size"], c["num_attention_heads"] * c["head_dim"]
    narrow, out = c["num_key_value_heads"] * c["head_dim"], {}

    def matrix(name, n, k):
        out[name + ".weight"] = quantized(r, n, k, zeros) if zeros else (r.standard_normal((n, k)) * 0.2).astype(dtype)
        if "biases" in parts:
            out[name + ".bias"] = (r.standard_normal(n) * 0.2).astype(np.float32)

    def gain(name, n):
        out[name + ".weight"] = (r.standard_normal(n) * 0.2 + 1 - c.get("norm_offset", 0)).astype(np.float32)
    if "gathered" in parts:
        out["model.embed_tokens.weight"] = quantized(r, c["vocab_size"], hidden, "none" if zeros == "none" else "bytes")
    else:
        out["model.embed_tokens.weight"] = (r.standard_normal((c["vocab_size"], hidden)) * 0.3).astype(dtype)
    for i in range(c["num_hidden_layers"]):
        at = f"model.layers.{i}."
        if "packed" in parts:
            matrix(at + "self_attn.qkv_proj", wide + 2 * narrow, hidden)
        else:
            for n, size in (("q", wide), ("k", narrow), ("v", narrow)):
                matrix(at + f"self_attn.{n}_proj", size, hidden)
        matrix(at + "self_attn.o_proj", hidden, wide)
        for n, size in (("gate", inner), ("up", inner)):
            matrix(at + f"mlp.{n}_proj", size, hidden)
        matrix(at + "mlp.down_proj", hidden, inner)
        gain(at + "input_layernorm", hidden)
        gain(at + "post_attention_layernorm", hidden)
        if "head norms" in parts:
            gain(at + "self_attn.q_norm", c["head_dim"])
            gain(at + "self_attn.k_norm", c["head_dim"])
    gain("model.norm", hidden)
    if "tied" not in parts:
        matrix("lm_head", c["vocab_size"], hidden)
    return out


def golden(folder, c, dtype):
    s = onnxruntime.InferenceSession(folder / "model.onnx", providers=["CPUExecutionProvider"])
    feed = {i.name: np.zeros((1, c["num_key_value_heads"], 0, c["head_dim"]), dtype) for i in s.get_inputs() if "past" in i.name}
    feed.update(input_ids=np.array([TOKENS]), attention_mask=np.ones((1, len(TOKENS)), np.int64))
    if not c.get("rotary_in_attention", True):
        feed["position_ids"] = np.arange(len(TOKENS))[None]
    return s.run(["logits"], feed)[0][0].astype(np.float64)


def main():
    for name, (more, zeros, parts, dtype) in CASES.items():
        folder = HERE / "data/onnx" / name
        folder.mkdir(parents=True, exist_ok=True)
        c = dict(COMMON, **more)
        w = weights(c, zeros, parts, dtype, np.random.default_rng(sum(map(ord, name))))
        genai.make(folder, c, w, dtype, external=name != "floats")
        logits = golden(folder, c, dtype)
        rows = [[float(f"{v:.6g}") for v in row] for row in logits]
        (folder / "golden.json").write_text(json.dumps({"tokens": TOKENS, "logits": rows}) + "\n")
        print(name, sum(f.stat().st_size for f in folder.iterdir()), "bytes; largest logit", abs(logits).max())


if __name__ == "__main__":
    main()
