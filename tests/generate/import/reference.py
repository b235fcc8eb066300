# SPDX-License-Identifier: Apache-2.0
"""Families of transformers in numpy: what the importer is compared with. All in double precision.

It was written from the families' definitions, not from the importer; `families.py --transformers` compares it and the
importer with transformers itself.
"""
import math

import numpy as np


def act(name, x):
    tanh = 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x ** 3)))
    if name == "silu":
        return x / (1 + np.exp(-x))
    if name == "gelu":
        return 0.5 * x * (1 + np.vectorize(math.erf)(x / math.sqrt(2)))
    if name in ("gelu_new", "gelu_pytorch_tanh"):
        return tanh
    if name == "relu":
        return np.maximum(x, 0)
    raise KeyError(name)


def inverse(c, dim, theta, scaling):
    """Radians per position of each pair, and the factor of sines and cosines."""
    inv = (1 / theta ** (np.arange(0, dim, 2) / dim)).astype(np.float64)
    s = scaling or {}
    kind = s.get("rope_type", s.get("type", "default"))
    old = s.get("original_max_position_embeddings", c.get("original_max_position_embeddings", c["max_position_embeddings"]))
    if kind == "linear":
        return inv / s["factor"], 1
    if kind == "llama3":
        wave = 2 * math.pi / inv
        low, high = s["low_freq_factor"], s["high_freq_factor"]
        smooth = (old / wave - low) / (high - low)
        mixed = (1 - smooth) * inv / s["factor"] + smooth * inv
        return np.where(wave > old / low, inv / s["factor"], np.where(wave < old / high, inv, mixed)), 1
    if kind == "yarn":
        def pair(turns):
            return dim * math.log(old / (turns * 2 * math.pi)) / (2 * math.log(theta))
        low, high = max(math.floor(pair(32)), 0), min(math.ceil(pair(1)), dim - 1)
        ramp = np.clip((np.arange(dim // 2) - low) / (high - low), 0, 1)
        return inv / s["factor"] * ramp + inv * (1 - ramp), 0.1 * math.log(s["factor"]) + 1
    if kind == "longrope":
        factor = c["max_position_embeddings"] / old
        return inv / np.array(s["short_factor"]), math.sqrt(1 + math.log(factor) / math.log(old))
    assert kind == "default", kind
    return inv, 1


class Net:
    def __init__(self, config, weights):
        self.c, self.w = config, {k: np.asarray(v, np.float64) for k, v in weights.items()}
        c = config
        self.kind = c["model_type"]
        self.gpt2, self.gemma = self.kind == "gpt2", self.kind.startswith("gemma")
        self.heads = c.get("num_attention_heads") or c["n_head"]
        self.hidden = c.get("hidden_size") or c["n_embd"]
        self.kv = c.get("num_key_value_heads") or self.heads
        self.head = c.get("head_dim") or self.hidden // self.heads
        self.layers = c.get("num_hidden_layers") or c["n_layer"]

    def rms(self, x, name):
        w = self.w[name + ".weight"]
        x = x / np.sqrt((x * x).mean(-1, keepdims=True) + self.c.get("rms_norm_eps", 1e-6))
        return x * (1 + w if self.gemma else w)

    def norm(self, x, name):
        if self.kind not in ("gpt2", "phi"):
            return self.rms(x, name)
        eps = self.c.get("layer_norm_eps", self.c.get("layer_norm_epsilon"))
        x = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + eps)
        return x * self.w[name + ".weight"] + self.w[name + ".bias"]

    def linear(self, x, name):
        w = self.w[name + ".weight"]
        y = x @ (w if self.gpt2 else w.T)
        return y + self.w[name + ".bias"] if name + ".bias" in self.w else y

    def window(self, i):
        c = self.c
        size = c.get("sliding_window")
        if not size or (self.kind in ("qwen2", "qwen3", "smollm3") and not c.get("use_sliding_window")):
            return None
        if self.kind in ("qwen2", "qwen3"):
            return size if i >= c["max_window_layers"] else None
        if self.kind == "gemma2":
            return size if i % 2 == 0 else None
        if self.kind == "gemma3_text":
            return size if c["layer_types"][i] == "sliding_attention" else None
        return size

    def turn(self, x, i):
        """Rotates heads: the first half of what turns with the second half."""
        c, t = self.c, x.shape[0]
        if self.gpt2 or (self.kind == "smollm3" and not c["no_rope_layers"][i]):
            return x
        dim = int(self.head * c.get("partial_rotary_factor", 1))
        local = self.kind == "gemma3_text" and self.window(i)
        theta = c["rope_local_base_freq"] if local else c["rope_theta"]
        inv, scale = inverse(c, dim, theta, None if local else c.get("rope_scaling"))
        angle = np.outer(np.arange(t), inv)
        cos, sin = np.cos(angle)[:, None] * scale, np.sin(angle)[:, None] * scale
        a, b, rest = x[..., :dim // 2], x[..., dim // 2:dim], x[..., dim:]
        return np.concatenate([a * cos - b * sin, b * cos + a * sin, rest], -1)

    def qkv(self, x, at):
        wide, narrow = self.heads * self.head, self.kv * self.head
        packed = {"gpt2": at + "attn.c_attn", "phi3": at + "self_attn.qkv_proj"}.get(self.kind)
        if packed:
            return np.split(self.linear(x, packed), [wide, wide + narrow], -1)
        return [self.linear(x, at + f"self_attn.{n}_proj") for n in "qkv"]

    def attention(self, x, i, at):
        c, t = self.c, x.shape[0]
        q, k, v = self.qkv(x, at)
        if self.kind == "olmo2":
            q, k = self.rms(q, at + "self_attn.q_norm"), self.rms(k, at + "self_attn.k_norm")
        q, k, v = q.reshape(t, self.heads, -1), k.reshape(t, self.kv, -1), v.reshape(t, self.kv, -1)
        if self.kind in ("qwen3", "gemma3_text"):
            q, k = self.rms(q, at + "self_attn.q_norm"), self.rms(k, at + "self_attn.k_norm")
        q, k = self.turn(q, i), self.turn(k, i)
        scale = c.get("attention_multiplier") or c.get("query_pre_attn_scalar", self.head) ** -0.5
        out = np.zeros((t, self.heads, self.head))
        for h in range(self.heads):
            s = q[:, h] @ k[:, h * self.kv // self.heads].T * scale
            cap = c.get("attn_logit_softcapping")
            s = np.tanh(s / cap) * cap if cap else s
            far = np.subtract.outer(np.arange(t), np.arange(t))
            s[(far < 0) | (far >= (self.window(i) or t))] = -np.inf
            s = np.exp(s - s.max(-1, keepdims=True))
            out[:, h] = s / s.sum(-1, keepdims=True) @ v[:, h * self.kv // self.heads]
        name = {"gpt2": "attn.c_proj", "phi": "self_attn.dense"}.get(self.kind, "self_attn.o_proj")
        return self.linear(out.reshape(t, -1), at + name)

    def mlp(self, x, at):
        c = self.c
        if self.kind in ("gpt2", "phi"):
            up, down = ("c_fc", "c_proj") if self.gpt2 else ("fc1", "fc2")
            name = c.get("activation_function") or c["hidden_act"]
            return self.linear(act(name, self.linear(x, at + "mlp." + up)), at + "mlp." + down)
        if self.kind == "phi3":
            gate, up = np.split(self.linear(x, at + "mlp.gate_up_proj"), 2, -1)
        else:
            gate, up = self.linear(x, at + "mlp.gate_proj"), self.linear(x, at + "mlp.up_proj")
        name = c.get("hidden_activation") or c["hidden_act"]
        return self.linear(act(name, gate) * up, at + "mlp.down_proj")

    def layer(self, x, i, at):
        k = c = self.c.get("residual_multiplier", 1)
        if self.kind == "phi":
            y = self.norm(x, at + "input_layernorm")
            return x + self.attention(y, i, at) + self.mlp(y, at)
        if self.kind == "olmo2":
            x = x + self.norm(self.attention(x, i, at), at + "post_attention_layernorm")
            return x + self.norm(self.mlp(x, at), at + "post_feedforward_layernorm")
        if self.kind in ("gemma2", "gemma3_text"):
            y = self.attention(self.norm(x, at + "input_layernorm"), i, at)
            x = x + self.norm(y, at + "post_attention_layernorm")
            y = self.mlp(self.norm(x, at + "pre_feedforward_layernorm"), at)
            return x + self.norm(y, at + "post_feedforward_layernorm")
        first, second = ("ln_1", "ln_2") if self.gpt2 else ("input_layernorm", "post_attention_layernorm")
        x = x + k * self.attention(self.norm(x, at + first), i, at)
        return x + c * self.mlp(self.norm(x, at + second), at)

    def logits(self, tokens):
        c, w = self.c, self.w
        if self.gpt2:
            embed, stem, layer, last = "transformer.wte", "transformer.", "h", "ln_f"
        else:
            embed, stem, layer = "model.embed_tokens", "model.", "layers"
            last = "final_layernorm" if self.kind == "phi" else "norm"
        x = w[embed + ".weight"][tokens]
        if self.gpt2:
            x = x + w["transformer.wpe.weight"][:len(tokens)]
        if self.gemma:
            x = x * math.sqrt(self.hidden)
        x = x * c.get("embedding_multiplier", 1)
        for i in range(self.layers):
            x = self.layer(x, i, f"{stem}{layer}.{i}.")
        x = self.norm(x, stem + last)
        y = self.linear(x, "lm_head") if "lm_head.weight" in w else x @ w[embed + ".weight"].T
        y = y / c.get("logits_scaling", 1)
        cap = c.get("final_logit_softcapping")
        return np.tanh(y / cap) * cap if cap else y
