# SPDX-License-Identifier: Apache-2.0
"""Families of transformers as networks of steps: lanes whose rows mix, with pages in any order, say what `generate` says.

It needs PyTorch and transformers 4.56 or newer. Attention is a plain one here, so it needs no GPU."""
import importlib.util
import sys
import unittest

from gpuwire import decoder, errors

SMALL = dict(vocab_size=300, hidden_size=64, intermediate_size=96, num_hidden_layers=3, num_attention_heads=4,
             num_key_value_heads=2, max_position_embeddings=512, pad_token_id=0, bos_token_id=1, eos_token_id=2)
EXPERTS = dict(head_dim=16, num_experts=4, num_experts_per_tok=2, moe_intermediate_size=32)
FAMILIES = [
    ("Llama", {}), ("Qwen2", {}), ("Qwen3", dict(head_dim=16)), ("Mistral", dict(sliding_window=16)),
    ("Gemma", dict(head_dim=16)), ("Gemma2", dict(head_dim=16, sliding_window=16)),
    ("Gemma3Text", dict(head_dim=16, sliding_window=16)), ("Phi", {}), ("Phi3", {}), ("SmolLM3", {}),
    ("GPTNeoX", dict(num_key_value_heads=4)), ("GPT2", dict(num_key_value_heads=None)), ("Qwen3Moe", EXPERTS),
    ("GptOss", dict(head_dim=16, num_local_experts=4, num_experts_per_tok=2)),
]
LENGTHS, TOKENS = (7, 33, 18), 8


def pages_of(memory, lane, layer, kind, tokens, width):
    pages = memory.page[lane][:-(-tokens // decoder.PAGE)].long()
    return memory.cache[layer, kind][pages].transpose(0, 1).flatten(1, 2)[:, :tokens, :width]


def attend(a):
    """What a kernel does, row by row."""
    m = a.memory
    there = [r for r in range(a.rows) if int(m.lane[r]) >= 0]
    for r in there:
        position = int(m.position[r])
        page = int(m.page[int(m.lane[r]), position // decoder.PAGE])
        for kind, rows in enumerate((a.key, a.value)):
            m.cache[a.layer, kind, page, :, position % decoder.PAGE, :rows.shape[2]] = rows[r]
    a.out.zero_()
    for r in there:
        tokens = int(m.position[r]) + 1
        first = max(0, tokens - a.window) if a.window else 0
        k, v = (pages_of(m, int(m.lane[r]), a.layer, kind, tokens, rows.shape[2])[:, first:]
                .repeat_interleave(a.query.shape[1] // rows.shape[1], 0) for kind, rows in enumerate((a.key, a.value)))
        scores = torch.einsum("hd,hnd->hn", a.query[r], k) * a.scale
        if a.cap:
            scores = torch.tanh(scores / a.cap) * a.cap
        if a.sink is not None:
            scores = torch.cat([scores, a.sink[:, None]], 1)
        weights = torch.softmax(scores, -1)[:, :k.shape[1]]
        a.out[r] = torch.einsum("hn,hnd->hd", weights, v)


def step(running, memory, rows, size):
    """Rows are (token, position, lane, wanted). Returns the most likely token of each wanted one."""
    rows = rows + [(0, 0, -1, False)] * (size - len(rows))
    for i, (token, position, lane, _) in enumerate(rows):
        memory.token[i], memory.position[i], memory.lane[i] = token, position, lane
    wanted = [i for i, row in enumerate(rows) if row[3]]
    memory.out[:len(wanted)] = torch.tensor(wanted)
    with torch.inference_mode():
        running.run(size)
    running.check()
    return memory.logits[:len(wanted)].argmax(-1).tolist()


def prompt_rows(prompt, lane):
    return [(token, i, lane, i == len(prompt) - 1) for i, token in enumerate(prompt)]


def answers(model, prompts, name):
    """One prompt alone; the others beside its second token; then all three lanes together."""
    memory = decoder.memory(torch, "cpu", torch.float32, decoder.shape(model, name), 4, 128, 64, 64)
    memory.page[:3] = 1 + torch.randperm(63)[:24].reshape(3, 8).int()
    with decoder.Decoder(model, memory, attend, name) as running:
        made = [step(running, memory, prompt_rows(prompts[0], 0), 8), [], []]
        rows = [(made[0][-1], len(prompts[0]), 0, True)] + prompt_rows(prompts[1], 1) + prompt_rows(prompts[2], 2)
        for lane, token in enumerate(step(running, memory, rows, 64)):
            made[lane].append(token)
        while len(made[2]) < TOKENS:
            rows = [(made[i][-1], len(prompts[i]) + len(made[i]) - 1, i, True) for i in range(3)]
            for lane, token in enumerate(step(running, memory, rows, 4)):
                made[lane].append(token)
    return [m[:TOKENS] for m in made]


def small(family, options):
    torch.manual_seed(0)
    given = {k: v for k, v in {**SMALL, **options}.items() if v is not None}
    model = transformers.AutoModelForCausalLM.from_config(getattr(transformers, family + "Config")(**given)).eval().float()
    model.set_attn_implementation("eager")
    return model


class Decoder(unittest.TestCase):
    def test_families(self):
        for family, options in FAMILIES:
            with self.subTest(family):
                model = small(family, options)
                prompts = [torch.randint(5, 290, (n,)).tolist() for n in LENGTHS]
                with torch.inference_mode():
                    wanted = [model.generate(torch.tensor([p]), attention_mask=torch.ones(1, len(p), dtype=torch.long),
                                             max_new_tokens=TOKENS, do_sample=False, eos_token_id=None,
                                             pad_token_id=0)[0, len(p):].tolist() for p in prompts]
                self.assertEqual(answers(model, prompts, family), wanted)
                self.assertEqual(model.config._attn_implementation, "eager")  # as it was

    def test_refused(self):
        for family, why in (("Falcon", "does not take its attention"), ("Mamba", "layers of type"),
                            ("Llama4Text", "layers of type chunked_attention")):
            with self.subTest(family), self.assertRaisesRegex(errors.Unsupported, why):
                answers(small(family, {}), [[1]] * 3, family)


if __name__ == "__main__":
    if not all(importlib.util.find_spec(m) for m in ("torch", "transformers")):
        print("skipped: needs PyTorch and transformers")
        sys.exit(77)
    import torch
    import transformers
    transformers.logging.set_verbosity_error()
    unittest.main()
