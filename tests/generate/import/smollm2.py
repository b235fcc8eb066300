# SPDX-License-Identifier: Apache-2.0
"""smollm2.py GREEDY FOLDER [NUMBER]: greedy answers to 200 prompts are those of onnxruntime with the same folder.

Sums in another order may choose another token where two are as likely: then the two logits must be that close.
"""
import json
import pathlib
import subprocess
import sys

import numpy as np
import onnxruntime
from tokenizers import Tokenizer

COUNT = 24
CLOSE = 1e-3
ASKED = ["What is {}?", "Tell me a short story about {}.", "Write a poem about {}.", "Name three facts about {}.",
         "Why do people like {}?", "Translate '{}' into French.", "How does one draw {}?", "Explain {} to a child.",
         "Is {} dangerous?", "Give me a recipe with {}."]
OF = ["the moon", "a bridge", "rain", "apples", "trains", "music", "the ocean", "a clock", "honey", "mathematics", "a fox",
      "paper", "the sun", "tea", "chess", "glass", "mountains", "bread", "winter", "a library"]


class Session:
    def __init__(self, folder):
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1  # more would wait for each other where other programs are busy
        self.run = onnxruntime.InferenceSession(folder / "model.onnx", options, providers=["CPUExecutionProvider"]).run
        d = json.loads((folder / "genai_config.json").read_text())["model"]
        self.eos, d = d["eos_token_id"], d["decoder"]
        shape = (1, d["num_key_value_heads"], 0, d["head_size"])
        self.empty = {f"past_key_values.{i}.{n}": np.zeros(shape, np.float32)
                      for i in range(d["num_hidden_layers"]) for n in ("key", "value")}
        self.names = ["logits"] + [n.replace("past_key_values", "present") for n in self.empty]

    def answer(self, prompt):
        """The most likely tokens, and how much likelier each is than the others: [(token, logits)]."""
        past, tokens, total, out = self.empty, prompt, 0, []
        while len(out) < COUNT:
            total += len(tokens)
            logits, *new = self.run(self.names, dict(past, input_ids=np.array([tokens]),
                                                     attention_mask=np.ones((1, total), np.int64)))
            past = dict(zip(self.empty, new))
            out.append((int(logits[0, -1].argmax()), logits[0, -1]))
            tokens = [out[-1][0]]
            if tokens[0] == self.eos:
                break
        return out


def main():
    folder = pathlib.Path(sys.argv[2])
    t, session = Tokenizer.from_file(str(folder / "tokenizer.json")), Session(folder)
    said = [a.format(o) for o in OF for a in ASKED][:int(sys.argv[3]) if len(sys.argv) > 3 else None]
    prompts = [t.encode(f"<|im_start|>user\n{s}<|im_end|>\n<|im_start|>assistant\n").ids for s in said]
    lines = "".join(" ".join(map(str, p)) + "\n" for p in prompts)
    done = subprocess.run([sys.argv[1], folder, str(COUNT)], input=lines.encode(), capture_output=True, check=True)
    close = 0
    for s, p, line in zip(said, prompts, done.stdout.decode().splitlines()):
        ours, theirs = list(map(int, line.split())), session.answer(p)
        at = next((i for i, (token, _) in enumerate(theirs) if i >= len(ours) or ours[i] != token), None)
        if at is None and len(ours) == len(theirs):
            continue
        gap = theirs[at][1].max() - theirs[at][1][ours[at]] if at is not None and at < len(ours) else np.inf
        print(f"{s} token {at} differs; the logits' distance is {gap:.1e}", flush=True)
        close += 1
        if gap > CLOSE:
            sys.exit(f"{s}: the answers differ: {t.decode(ours)!r}, not {t.decode([x for x, _ in theirs])!r}")
    print(f"{len(prompts)} answers; {close} differ where two tokens are as likely; the last: {t.decode(ours)!r}")


if __name__ == "__main__":
    main()
