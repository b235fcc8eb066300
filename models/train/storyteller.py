#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Trains `storyteller`: a Llama of 0.9 million parameters that tells little stories, as a folder of transformers.

    python3 storyteller.py --out ../storyteller

It needs torch, numpy, tokenizers and safetensors. The text is made by stories.py, so nothing is downloaded. Training
takes 15 to 30 minutes on one core; --steps 20 shows in seconds that everything fits.
"""
import argparse
import json
import math
import pathlib
import random
import time

import torch
import torch.nn.functional as F
from safetensors.torch import save_file
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from torch import nn

import stories

SPECIAL = ["<|begin|>", "<|end|>", "<|system|>", "<|user|>", "<|assistant|>"]
TEMPLATE = ("{{ bos_token }}{% for message in messages %}{{ '<|' + message['role'] + '|>' + message['content'] + eos_token }}"
            "{% endfor %}{% if add_generation_prompt %}{{ '<|assistant|>' }}{% endif %}")
CONFIG = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "torch_dtype": "bfloat16", "vocab_size": 1024,
    "hidden_size": 128, "intermediate_size": 352, "num_hidden_layers": 4, "num_attention_heads": 2,
    "num_key_value_heads": 1, "head_dim": 64, "hidden_act": "silu", "max_position_embeddings": 2048,
    "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "rope_scaling": None, "tie_word_embeddings": True,
    "attention_bias": False, "mlp_bias": False, "attention_dropout": 0.0, "bos_token_id": 0, "eos_token_id": 1,
    "pad_token_id": 1, "initializer_range": 0.02, "use_cache": True,
}
LENGTH = 384  # tokens of a piece of text that the network learns from


class Norm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + CONFIG["rms_norm_eps"]) * self.weight


def rotate(x, cosine, sine):
    a, b = x.chunk(2, -1)
    return torch.cat([a * cosine - b * sine, b * cosine + a * sine], -1)


class Attention(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.heads, self.kv, self.head = c["num_attention_heads"], c["num_key_value_heads"], c["head_dim"]
        width = c["hidden_size"]
        self.q_proj = nn.Linear(width, self.heads * self.head, bias=False)
        self.k_proj = nn.Linear(width, self.kv * self.head, bias=False)
        self.v_proj = nn.Linear(width, self.kv * self.head, bias=False)
        self.o_proj = nn.Linear(self.heads * self.head, width, bias=False)

    def forward(self, x, cosine, sine, mask):
        b, t, _ = x.shape
        q = rotate(self.q_proj(x).view(b, t, self.heads, self.head).transpose(1, 2), cosine, sine)
        k = rotate(self.k_proj(x).view(b, t, self.kv, self.head).transpose(1, 2), cosine, sine)
        v = self.v_proj(x).view(b, t, self.kv, self.head).transpose(1, 2)
        scores = q @ k.transpose(-1, -2) / math.sqrt(self.head) + mask  # one head of keys serves all of queries
        return self.o_proj((scores.softmax(-1) @ v).transpose(1, 2).reshape(b, t, -1))


class Mlp(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.gate_proj = nn.Linear(c["hidden_size"], c["intermediate_size"], bias=False)
        self.up_proj = nn.Linear(c["hidden_size"], c["intermediate_size"], bias=False)
        self.down_proj = nn.Linear(c["intermediate_size"], c["hidden_size"], bias=False)

    def forward(self, x):
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class Layer(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.input_layernorm, self.post_attention_layernorm = Norm(c["hidden_size"]), Norm(c["hidden_size"])
        self.self_attn, self.mlp = Attention(c), Mlp(c)

    def forward(self, x, *tables):
        x = x + self.self_attn(self.input_layernorm(x), *tables)
        return x + self.mlp(self.post_attention_layernorm(x))


class Inner(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.embed_tokens = nn.Embedding(c["vocab_size"], c["hidden_size"])
        self.layers = nn.ModuleList(Layer(c) for _ in range(c["num_hidden_layers"]))
        self.norm = Norm(c["hidden_size"])


class Net(nn.Module):
    """Its parameters have transformers' names."""

    def __init__(self, c):
        super().__init__()
        self.model = Inner(c)
        for name, p in self.named_parameters():
            if p.dim() == 2:
                nn.init.normal_(p, std=0.02 if "embed" in name else 1 / math.sqrt(p.shape[1]) / 2)
        angle = torch.outer(torch.arange(LENGTH).float(),
                            c["rope_theta"] ** (-torch.arange(0, c["head_dim"], 2) / c["head_dim"]))
        self.tables = angle.cos(), angle.sin(), torch.full((LENGTH, LENGTH), -1e9).triu(1)

    def forward(self, tokens):
        x = self.model.embed_tokens(tokens)
        for layer in self.model.layers:
            x = layer(x, *self.tables)
        return self.model.norm(x) @ self.model.embed_tokens.weight.T


def tokenizer(r):
    t = Tokenizer(models.BPE())
    t.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    t.decoder = decoders.ByteLevel()
    t.post_processor = processors.ByteLevel(trim_offsets=False)
    text = [said for _ in range(4000) for _, said in stories.talk(r)]
    t.train_from_iterator(text, trainers.BpeTrainer(
        vocab_size=CONFIG["vocab_size"], initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False,
        special_tokens=[AddedToken(s, special=True, normalized=False) for s in SPECIAL]))
    if t.get_vocab_size() < CONFIG["vocab_size"]:  # fewer words than there is room for
        CONFIG["vocab_size"] = t.get_vocab_size()
    return t


def pieces(t, r):
    """Endless pieces of LENGTH tokens; mostly talks, and some stories alone."""
    ids = []
    while True:
        while len(ids) <= LENGTH:
            if r.random() < 0.15:
                ids += t.encode("<|begin|>" + stories.story(r)[0] + "<|end|>").ids
            else:
                ids += t.encode("<|begin|>" + "".join(f"<|{who}|>{said}<|end|>" for who, said in stories.talk(r))).ids
        yield ids[:LENGTH + 1]
        ids = []  # a piece begins with a talk: the rest of the last one would have lost its beginning


def train(net, t, r, steps, batch):
    decay = [p for p in net.parameters() if p.dim() == 2]
    plain = [p for p in net.parameters() if p.dim() != 2]
    opt = torch.optim.AdamW([{"params": decay, "weight_decay": 0.05}, {"params": plain, "weight_decay": 0.0}],
                            lr=0.0, betas=(0.9, 0.98))
    source, start, mean = pieces(t, r), time.time(), None
    for step in range(steps):
        for group in opt.param_groups:
            group["lr"] = 4e-3 * min(1, (step + 1) / 50, 0.02 + 0.98 * (1 + math.cos(math.pi * step / steps)) / 2)
        ids = torch.tensor([next(source) for _ in range(batch)])
        loss = F.cross_entropy(net(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten())
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        opt.step()
        mean = loss.item() if mean is None else 0.95 * mean + 0.05 * loss.item()
        if step % 50 == 0 or step == steps - 1:
            print(f"step {step}: loss {mean:.3f}, {time.time() - start:.0f} s", flush=True)
        yield step


def write(net, t, out):
    out.mkdir(parents=True, exist_ok=True)
    t.save(str(out / "tokenizer.json"), pretty=False)
    save_file({n: p.detach().to(torch.bfloat16).contiguous() for n, p in net.named_parameters()},
              str(out / "model.safetensors"), metadata={"format": "pt"})
    files = {
        "config.json": CONFIG,
        "generation_config.json": {"bos_token_id": 0, "eos_token_id": 1, "pad_token_id": 1, "do_sample": True,
                                   "temperature": 0.7, "top_p": 0.95},
        "tokenizer_config.json": {"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": SPECIAL[0],
                                  "eos_token": SPECIAL[1], "pad_token": SPECIAL[1], "add_bos_token": False,
                                  "clean_up_tokenization_spaces": False, "model_max_length": 2048,
                                  "chat_template": TEMPLATE},
    }
    for name, content in files.items():
        (out / name).write_text(json.dumps(content, indent=2) + "\n")


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--out", type=pathlib.Path, required=True)
    p.add_argument("--steps", type=int, default=3000)
    p.add_argument("--batch", type=int, default=8)
    p.add_argument("--threads", type=int, default=1)
    args = p.parse_args()
    torch.set_num_threads(args.threads)
    torch.manual_seed(1)
    t = tokenizer(random.Random(1))
    net = Net(CONFIG)
    print(sum(p.numel() for p in net.parameters()), "parameters,", CONFIG["vocab_size"], "tokens", flush=True)
    for step in train(net, t, random.Random(2), args.steps, args.batch):
        if step % 500 == 499 or step == args.steps - 1:
            write(net, t, args.out)


if __name__ == "__main__":
    main()
