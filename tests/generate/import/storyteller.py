#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The answers of models/storyteller are transformers': data/storyteller.json has what it made of 200 prompts, greedily.

    storyteller.py LOGITS FOLDER              the first ten, by the reference's logits after each token; and what is known of
                                              the folder
    storyteller.py GREEDY FOLDER --network    all, by the network on CPU threads
"""
import json
import pathlib
import struct
import subprocess
import sys

VOCAB = 1024
TOKENS = 48  # of an answer, at most


def answers(greedy, folder, cases):
    lines = "".join(" ".join(map(str, c["prompt"])) + "\n" for c in cases)
    done = subprocess.run([greedy, folder, str(TOKENS)], input=lines.encode(), capture_output=True, check=False)
    if done.returncode:
        sys.exit(done.stderr.decode())
    return [list(map(int, line.split())) for line in done.stdout.decode().splitlines()]


def likeliest(logits, folder, case):
    """The most likely token at each place of the answer."""
    tokens = case["prompt"] + case["answer"]
    done = subprocess.run([logits, folder, *map(str, tokens)], capture_output=True, check=False)
    if done.returncode:
        sys.exit(done.stderr.decode())
    want = {"name": "storyteller", "family": "llama", "format": "transformers", "context": 2048, "layers": 4, "bos": 0,
            "eos": [1], "sample": 1, "temperature": 0.7, "top_p": 0.95, "top_k": 0, "min_p": 0, "repetition": 1}
    if json.loads(done.stderr) != want:
        sys.exit(f"the folder says {done.stderr.decode()}, not {want}")
    rows = [struct.unpack_from(f"<{VOCAB}f", done.stdout, 4 * VOCAB * i) for i in range(len(tokens))]
    return [row.index(max(row)) for row in rows[len(case["prompt"]) - 1:-1]]


def main():
    program, folder = sys.argv[1:3]
    cases = json.loads((pathlib.Path(__file__).parent / "data/storyteller.json").read_text())
    if "--network" in sys.argv:
        ours = answers(program, folder, cases)
    else:
        cases = cases[:10]
        ours = [likeliest(program, folder, c) for c in cases]
    bad = [f"{c['said']}: {o}, not {c['answer']}" for c, o in zip(cases, ours) if o != c["answer"]]
    if bad or len(ours) != len(cases):
        sys.exit("\n".join(bad + [f"{len(bad)} of {len(cases)} answers differ"]))
    print(f"{len(cases)} answers are equal")


if __name__ == "__main__":
    main()
