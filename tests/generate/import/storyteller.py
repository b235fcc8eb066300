#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The answers of models/storyteller are transformers': data/storyteller.json has what it made of some prompts, greedily.

    storyteller.py LOGITS FOLDER
"""
import json
import pathlib
import struct
import subprocess
import sys

VOCAB = 1024


def likeliest(logits, folder, tokens):
    """The most likely next token after each of these, and what the folder says."""
    done = subprocess.run([logits, folder, *map(str, tokens)], capture_output=True, check=False)
    if done.returncode:
        sys.exit(done.stderr.decode())
    best = []
    for i in range(len(tokens)):
        row = struct.unpack_from(f"<{VOCAB}f", done.stdout, 4 * VOCAB * i)
        best.append(row.index(max(row)))
    return best, json.loads(done.stderr)


def main():
    logits, folder = sys.argv[1:]
    for case in json.loads((pathlib.Path(__file__).parent / "data/storyteller.json").read_text()):
        prompt, answer = case["prompt"], case["answer"]
        best, info = likeliest(logits, folder, prompt + answer)
        if best[len(prompt) - 1:-1] != answer:
            sys.exit(f"{case['said']}: the answer differs: {best[len(prompt) - 1:-1]}, not {answer}")
    want = {"name": "storyteller", "family": "llama", "format": "transformers", "context": 2048, "layers": 4, "bos": 0,
            "eos": [1], "sample": 1, "temperature": 0.7, "top_p": 0.95, "top_k": 0, "min_p": 0, "repetition": 1}
    if info != want:
        sys.exit(f"the folder says {info}, not {want}")


if __name__ == "__main__":
    main()
