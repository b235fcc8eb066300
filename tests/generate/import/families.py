#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Small models of each family with random weights: the importer's logits must be the reference's.

    families.py LOGITS                    LOGITS: the program of logits.c; the reference is numpy's (reference.py)
    families.py LOGITS --transformers     the reference is transformers, where torch and transformers are installed
    families.py LOGITS --only qwen2
    families.py --seeds FILE              writes data/families.bin, from which the fuzzer starts: smaller models of each kind
"""
import argparse
import json
import pathlib
import struct
import subprocess
import sys
import tempfile

import numpy as np

from reference import Net

COMMON = {"vocab_size": 96, "hidden_size": 48, "intermediate_size": 80, "num_hidden_layers": 3, "num_attention_heads": 4,
          "num_key_value_heads": 2, "max_position_embeddings": 64, "rms_norm_eps": 1e-5, "rope_theta": 10000.0,
          "hidden_act": "silu", "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0, "tie_word_embeddings": False}
GEMMA = {"hidden_activation": "gelu_pytorch_tanh", "hidden_act": "gelu_pytorch_tanh", "head_dim": 16,
         "tie_word_embeddings": True}
GEMMA2 = dict(GEMMA, query_pre_attn_scalar=24, sliding_window=5, attn_logit_softcapping=5.0, final_logit_softcapping=3.0)


def rope(kind, **more):
    return {"rope_scaling": dict({"rope_type": kind}, **more)}


CASES = {  # name: (model_type, what differs from COMMON, type of the weights, number of files)
    "llama": ("llama", {}, "F32", 1),
    "llama_bf16": ("llama", {"tie_word_embeddings": True, "head_dim": 20}, "BF16", 1),
    "llama_biases": ("llama", {"attention_bias": True, "mlp_bias": True, "num_key_value_heads": 1}, "F16", 2),
    "llama3": ("llama", rope("llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
                             original_max_position_embeddings=32), "F32", 1),
    "linear": ("llama", rope("linear", factor=4.0), "F32", 1),
    "yarn": ("llama", rope("yarn", factor=4.0, original_max_position_embeddings=16), "F32", 1),
    "mistral": ("mistral", {"sliding_window": 7}, "F32", 3),
    "qwen2": ("qwen2", {"rms_norm_eps": 1e-6}, "F32", 1),
    "qwen2_window": ("qwen2", {"use_sliding_window": True, "sliding_window": 6, "max_window_layers": 1}, "F32", 1),
    "qwen3": ("qwen3", {"head_dim": 16, "tie_word_embeddings": True}, "F32", 1),
    "gemma": ("gemma", GEMMA, "F32", 1),
    "gemma2": ("gemma2", GEMMA2, "F32", 1),
    "gemma3": ("gemma3_text", dict(GEMMA, query_pre_attn_scalar=16, sliding_window=4, rope_theta=1e6,
                                   rope_local_base_freq=10000.0, num_hidden_layers=4,
                                   layer_types=["sliding_attention"] * 2 + ["full_attention", "sliding_attention"]), "F32", 1),
    "phi": ("phi", {"partial_rotary_factor": 0.5, "num_key_value_heads": 4, "hidden_act": "gelu_new",
                    "layer_norm_eps": 1e-5}, "F32", 1),
    "phi3": ("phi3", {"sliding_window": 9}, "F32", 1),
    "phi3_long": ("phi3", {"rope_scaling": {"type": "longrope", "short_factor": [1.0, 1.1, 1.3, 1.5, 1.6, 1.8], "long_factor": [2.0] * 6},
                           "original_max_position_embeddings": 32, "sliding_window": None}, "F32", 1),
    "gpt2": ("gpt2", {"n_embd": 48, "n_layer": 2, "n_head": 4, "n_positions": 64, "activation_function": "gelu_new",
                      "layer_norm_epsilon": 1e-5, "tie_word_embeddings": True}, "F32", 1),
    "olmo2": ("olmo2", {}, "F32", 1),
    "granite": ("granite", {"embedding_multiplier": 6.0, "attention_multiplier": 0.2, "residual_multiplier": 0.4,
                            "logits_scaling": 4.0}, "F32", 1),
    "smollm3": ("smollm3", {"no_rope_layers": [1, 0, 1], "use_sliding_window": False}, "F32", 1),
}


def config_of(kind, more):
    if kind == "gpt2":
        return dict({k: COMMON[k] for k in ("vocab_size", "bos_token_id", "eos_token_id")}, model_type=kind, **more)
    return dict(COMMON, model_type=kind, **more)


def gpt2_shapes(c):
    n = c["n_embd"]
    yield "transformer.wte.weight", (c["vocab_size"], n)
    yield "transformer.wpe.weight", (c["n_positions"], n)
    for i in range(c["n_layer"]):
        at = f"transformer.h.{i}."
        for name, rows, cols in (("attn.c_attn", n, 3 * n), ("attn.c_proj", n, n), ("mlp.c_fc", n, 4 * n),
                                 ("mlp.c_proj", 4 * n, n)):
            yield at + name + ".weight", (rows, cols)
            yield at + name + ".bias", (cols,)
        for name in ("ln_1", "ln_2"):
            yield at + name + ".weight", (n,)
            yield at + name + ".bias", (n,)
    yield "transformer.ln_f.weight", (n,)
    yield "transformer.ln_f.bias", (n,)


def layer_shapes(c, at):
    kind, hidden, inner = c["model_type"], c["hidden_size"], c["intermediate_size"]
    head = c.get("head_dim") or hidden // c["num_attention_heads"]
    wide, narrow = c["num_attention_heads"] * head, c["num_key_value_heads"] * head
    phi = kind == "phi"
    qkv = kind == "qwen2" or c.get("attention_bias") or phi
    o, mlp = c.get("attention_bias") or phi, c.get("mlp_bias") or phi
    if kind == "phi3":
        linear = [("self_attn.qkv_proj", wide + 2 * narrow, hidden, False), ("mlp.gate_up_proj", 2 * inner, hidden, False)]
    else:
        linear = [(f"self_attn.{n}_proj", wide if n == "q" else narrow, hidden, qkv) for n in "qkv"]
        linear += [("mlp.fc1", inner, hidden, True)] if phi else [(f"mlp.{n}_proj", inner, hidden, mlp) for n in ("gate", "up")]
    linear += [("self_attn.dense" if phi else "self_attn.o_proj", hidden, wide, o),
               ("mlp.fc2" if phi else "mlp.down_proj", hidden, inner, mlp)]
    for name, n, k, bias in linear:
        yield at + name + ".weight", (n, k)
        if bias:
            yield at + name + ".bias", (n,)
    norms = ["input_layernorm", "post_attention_layernorm", "pre_feedforward_layernorm", "post_feedforward_layernorm"]
    norms = {"phi": norms[:1], "gemma2": norms, "gemma3_text": norms, "olmo2": [norms[1], norms[3]]}.get(kind, norms[:2])
    for name in norms:
        yield at + name + ".weight", (hidden,)
        if phi:
            yield at + name + ".bias", (hidden,)
    if kind in ("qwen3", "gemma3_text", "olmo2"):
        for n, width in (("q", wide), ("k", narrow)):
            yield at + f"self_attn.{n}_norm.weight", (width if kind == "olmo2" else head,)


def shapes(c):
    if c["model_type"] == "gpt2":
        yield from gpt2_shapes(c)
        return
    hidden, phi = c["hidden_size"], c["model_type"] == "phi"
    yield "model.embed_tokens.weight", (c["vocab_size"], hidden)
    for i in range(c["num_hidden_layers"]):
        yield from layer_shapes(c, f"model.layers.{i}.")
    yield "model.final_layernorm.weight" if phi else "model.norm.weight", (hidden,)
    if phi:
        yield "model.final_layernorm.bias", (hidden,)
        yield "lm_head.bias", (c["vocab_size"],)
    if not c["tie_word_embeddings"]:
        yield "lm_head.weight", (c["vocab_size"], hidden)


def random_weights(c, kind, r):
    """Weights that the type holds exactly: {name: (values as float32, their bytes)}."""
    out = {}
    for name, shape in shapes(c):
        v = r.standard_normal(shape).astype(np.float32) * 0.25
        if "norm" in name or "ln_" in name:
            v = v * 0.5 + (0 if c["model_type"].startswith("gemma") or name.endswith("bias") else 1)
        v = v.astype(np.float32)
        if kind == "BF16":
            bits = v.view(np.uint32) >> 16
            out[name] = ((bits << 16).view(np.float32), bits.astype(np.uint16).tobytes())
        else:
            v = v.astype({"F32": np.float32, "F16": np.float16}[kind])
            out[name] = (v.astype(np.float32), v.tobytes())
    return out


def safetensors(weights, kind):
    header, at = {"__metadata__": {"format": "pt"}}, 0
    for name, (v, data) in weights.items():
        header[name] = {"dtype": kind, "shape": list(v.shape), "data_offsets": [at, at + len(data)]}
        at += len(data)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + b"".join(data for _, data in weights.values())


def write_folder(folder, c, weights, kind, files):
    (folder / "config.json").write_text(json.dumps(c))
    if files == 1:
        (folder / "model.safetensors").write_bytes(safetensors(weights, kind))
        return
    names, where = list(weights), {}
    for i in range(files):
        part = f"model-{i + 1:05}-of-{files:05}.safetensors"
        mine = names[i::files]
        (folder / part).write_bytes(safetensors({n: weights[n] for n in mine}, kind))
        where.update((n, part) for n in mine)
    (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": where}))


def by_transformers(folder, tokens):
    import torch
    from transformers import AutoModelForCausalLM
    model = AutoModelForCausalLM.from_pretrained(folder, torch_dtype=torch.float32, attn_implementation="eager")
    with torch.no_grad():
        return model(torch.tensor([tokens])).logits[0].numpy()


def run(logits, folder, tokens, vocab):
    done = subprocess.run([logits, folder, *map(str, tokens)], capture_output=True, check=False)
    if done.returncode:
        sys.exit(f"{done.stderr.decode()}")
    info = json.loads(done.stderr)
    return np.frombuffer(done.stdout, np.float32).reshape(len(tokens), vocab), info


def check(name, args):
    kind, more, dtype, files = CASES[name]
    r = np.random.default_rng(sum(map(ord, name)))
    c = config_of(kind, more)
    weights = random_weights(c, dtype, r)
    tokens = r.integers(0, c["vocab_size"], 24).tolist()
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        write_folder(folder, c, weights, dtype, files)
        ours, info = run(args.logits, folder, tokens, c["vocab_size"])
        if args.transformers:
            want = by_transformers(folder, tokens)
        else:
            want = Net(c, {n: v for n, (v, _) in weights.items()}).logits(np.array(tokens))
    far = np.abs(ours - want).max() / np.abs(want).max()
    same = (ours.argmax(-1) == want.argmax(-1)).all()
    print(f"{name}: largest difference {far:.1e} of the largest logit", flush=True)
    context = 32 if name == "phi3_long" else 64
    return far < 2e-5 and same and info["family"] == kind and info["context"] == context and info["eos"] == [2]


def seeds(path):
    """For each case: the bytes of config.json, their number before them (2 bytes), and of model.safetensors (4 bytes)."""
    small, out = {"vocab_size": 8, "hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2}, b""
    gpt2 = {"vocab_size": 8, "n_embd": 8, "n_layer": 1, "n_head": 2, "n_positions": 8}
    for name, (kind, more, dtype, _) in CASES.items():
        c = config_of(kind, more)
        c.update(gpt2 if kind == "gpt2" else small)
        c.update({k: 4 for k in ("head_dim",) if k in c})
        c.update({k: c[k][-1:] for k in ("layer_types", "no_rope_layers") if k in c})
        if name == "phi3_long":
            c["rope_scaling"].update(short_factor=[1.0, 2.0], long_factor=[1.0, 2.0])
        c["num_key_value_heads"] = min(2, c.get("num_key_value_heads", 2))
        config, file = json.dumps(c).encode(), safetensors(random_weights(c, dtype, np.random.default_rng(1)), dtype)
        out += struct.pack("<H", len(config)) + config + struct.pack("<I", len(file)) + file
    pathlib.Path(path).write_bytes(out)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("logits", nargs="?")
    p.add_argument("--seeds")
    p.add_argument("--transformers", action="store_true")
    p.add_argument("--only")
    args = p.parse_args()
    if args.seeds:
        seeds(args.seeds)
        return
    bad = [name for name in CASES if args.only in (None, name) and not check(name, args)]
    if bad:
        sys.exit(f"these differ: {', '.join(bad)}")


if __name__ == "__main__":
    main()
