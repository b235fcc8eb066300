# SPDX-License-Identifier: Apache-2.0
"""Ours against SentencePiece's own library: sentence.py PIPE STRINGS. Trains small BPE models of all kinds, and compares ids and texts."""
import os
import random
import sys
import tempfile

import sentencepiece

import strings
from equal import ask

count = int(sys.argv[2])
r = random.Random(5)
corpus = [strings.string(r).replace("\0", "").replace("\n", " ") for _ in range(3000)]


def train(folder, **how):
    model = os.path.join(folder, "tokenizer")
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(corpus), model_prefix=model, model_type="bpe", vocab_size=8000, normalization_rule_name="identity",
        minloglevel=2, character_coverage=0.98, hard_vocab_limit=False, num_threads=1, **how)
    return sentencepiece.SentencePieceProcessor(model_file=model + ".model")


for how in ({"byte_fallback": True, "remove_extra_whitespaces": False}, {"byte_fallback": True, "remove_extra_whitespaces": True},
            {"byte_fallback": False, "add_dummy_prefix": False, "remove_extra_whitespaces": False},
            {"byte_fallback": True, "add_dummy_prefix": False, "remove_extra_whitespaces": False, "user_defined_symbols": ["<tool>", "▁▁"]}):
    with tempfile.TemporaryDirectory() as folder:
        sp = train(folder, **how)
        with open(os.path.join(folder, "tokenizer_config.json"), "w") as f:
            f.write('{"bos_token": "<s>", "eos_token": "</s>", "add_eos_token": true}')
        texts = [strings.string(r, ["<tool>", "<s>", "  "]).replace("\0", "") for _ in range(count)]
        ids = [sp.encode(t) for t in texts]
        shown = [[i for i in one if i] for one in ids]  # the unknown token does not show here; there it is a mark of its own
        asked = [("e", t.encode()) for t in texts] + [("s", t.encode()) for t in texts] + [("d", i) for i in shown]
        want = ids + [[1] + i + [2] for i in ids] + [sp.decode(i).encode() for i in shown]
        for (kind, data), got, right in zip(asked, ask(folder, asked), want):
            if got != right:
                raise SystemExit(f"FAIL: {how} {kind} {data!r}\n  ours:   {got}\n  theirs: {right}\n"
                                 f"  {[sp.id_to_piece(i) for i in got] if kind != 'd' else ''}\n  {[sp.id_to_piece(i) for i in right] if kind != 'd' else ''}")
        print(f"{how}: {len(asked)} equal")
