#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes data/storyteller.json: 200 prompts, and the tokens that transformers makes of them, greedily and in float32, with
models/storyteller. It needs torch and transformers; the tests need neither.

Prompts after which two tokens are about as likely are left out: other orders of sums may choose the other one.
"""
import json
import pathlib
import random
import sys

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

HERE = pathlib.Path(__file__).resolve().parent
MODELS = HERE.parent.parent.parent / "models"
sys.path.insert(0, str(MODELS / "train"))
import stories  # noqa: E402

COUNT, TOKENS, GAP = 200, 48, 1e-3


def prompts():
    """What people may say to it, and what it was not made for."""
    r, i = random.Random(7), 0
    while True:
        i += 1
        yield r.choice([stories.ask(r)[0], stories.small(r)[0], f"{i} plus {i * i}?", f"Grüße {i} 你好 {'é' * (i % 9)}",
                        f"Write about {r.choice(stories.NAMES)} and {r.choice(stories.NAMES)}'s {r.choice(stories.THINGS)}"])


def main():
    model = AutoModelForCausalLM.from_pretrained(MODELS / "storyteller", dtype=torch.float32)
    t, cases = AutoTokenizer.from_pretrained(MODELS / "storyteller"), {}
    for said in prompts():
        prompt = t.apply_chat_template([{"role": "user", "content": said}], add_generation_prompt=True)
        out = model.generate(torch.tensor([prompt]), max_new_tokens=TOKENS, do_sample=False,
                             attention_mask=torch.ones(1, len(prompt)))
        with torch.no_grad():
            best = model(out).logits[0, len(prompt) - 1:-1].topk(2, -1).values
        if (best[:, 0] - best[:, 1]).min() > GAP:
            cases[said] = {"said": said, "prompt": prompt, "answer": out[0, len(prompt):].tolist()}
        if len(cases) == COUNT:
            break
    text = ",\n".join(json.dumps(c, ensure_ascii=False) for c in cases.values())
    (HERE / "data/storyteller.json").write_text(f"[\n{text}\n]\n")


if __name__ == "__main__":
    main()
