#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tokens a second on CPU threads: ours beside onnxruntime-genai and llama.cpp, with the same number of threads.

    cpu.py [--bench PATH] [--gguf FILE] [--threads N] [--prompt N] [--tokens N] [--rounds N] FOLDER

FOLDER is an onnxruntime-genai folder (models/smollm2/make.py makes one). The peers are the packages onnxruntime-genai and
llama-cpp-python, where Python finds them; the latter takes a GGUF file. All take turns, round after round, each in a process
of its own. Printed are the medians, and ours as a multiple of each peer's. On a host that does other work, too, the tokens in
a second of a processor say more (all programs spin while they wait for their own threads: take one thread there).
"""
import argparse
import csv
import importlib.util
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

VOCAB = 1000  # prompts have tokens below that
COLUMNS = "read_per_s", "made_per_s", "read_per_cpu_s", "made_per_cpu_s"


def measure(read, make, a):
    """Runs the functions that read a prompt and make one token; returns tokens a second, and a second of a processor."""
    prompt = [(i * 7919) % VOCAB + 10 for i in range(a.prompt)]
    at = [(time.perf_counter(), time.process_time())]
    read(prompt)
    at.append((time.perf_counter(), time.process_time()))
    for _ in range(a.tokens):
        make()
    at.append((time.perf_counter(), time.process_time()))
    return [n / (at[i + 1][k] - at[i][k]) for k in (0, 1) for i, n in enumerate((a.prompt, a.tokens))]


def peer_onnx(a):
    import onnxruntime_genai as og

    with tempfile.TemporaryDirectory() as folder:
        for f in pathlib.Path(a.folder).resolve().iterdir():
            os.symlink(f, pathlib.Path(folder) / f.name)
        config = json.loads((pathlib.Path(a.folder) / "genai_config.json").read_text(encoding="utf-8"))
        config["model"]["decoder"]["session_options"]["intra_op_num_threads"] = a.threads
        (pathlib.Path(folder) / "genai_config.json").unlink()
        (pathlib.Path(folder) / "genai_config.json").write_text(json.dumps(config), encoding="utf-8")
        model = og.Model(folder)
        params = og.GeneratorParams(model)
        params.set_search_options(max_length=a.prompt + a.tokens + 8, min_length=a.prompt + a.tokens + 8, do_sample=False)
        generator = og.Generator(model, params)
        return measure(generator.append_tokens, generator.generate_next_token, a)


def peer_llama(a):
    import llama_cpp

    model = llama_cpp.Llama(a.gguf, n_ctx=a.prompt + a.tokens + 8, n_threads=a.threads, n_threads_batch=a.threads,
                            n_batch=256, verbose=False)
    return measure(model.eval, lambda: model.eval([model.sample(temp=0.0)]), a)


def peer_ours(a):
    out = subprocess.run([a.bench, a.folder, "--threads", str(a.threads), "--prompt", str(a.prompt), "--tokens", str(a.tokens)],
                         check=True, capture_output=True, text=True).stdout
    row = next(csv.DictReader(out.splitlines()))
    return [float(row[name]) for name in COLUMNS]


PEERS = {"ours": peer_ours, "onnxruntime-genai": peer_onnx, "llama.cpp": peer_llama}


def arguments():
    p = argparse.ArgumentParser()
    p.add_argument("folder")
    p.add_argument("--bench", default="build/bin/generate_cpu_bench")
    p.add_argument("--gguf")
    p.add_argument("--threads", type=int, default=2)
    p.add_argument("--prompt", type=int, default=128)
    p.add_argument("--tokens", type=int, default=128)
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--one", choices=PEERS, help=argparse.SUPPRESS)
    return p.parse_args()


def main():
    a = arguments()
    if a.one:
        print(json.dumps(PEERS[a.one](a)))
        return
    peers = ["ours"]
    if importlib.util.find_spec("onnxruntime_genai"):
        peers.append("onnxruntime-genai")
    if a.gguf and importlib.util.find_spec("llama_cpp"):
        peers.append("llama.cpp")
    got = {peer: [] for peer in peers}
    for _ in range(a.rounds):
        for peer in peers:
            out = subprocess.run([sys.executable, __file__, *sys.argv[1:], "--one", peer], check=True, stdout=subprocess.PIPE, text=True)
            got[peer].append(json.loads(out.stdout.splitlines()[-1]))
    median = {peer: [statistics.median(column) for column in zip(*rows)] for peer, rows in got.items()}
    print("program,threads", *COLUMNS, *(f"ours_{name}" for name in COLUMNS), sep=",")
    for peer in peers:
        ratio = [ours / other for ours, other in zip(median["ours"], median[peer])]
        print(peer, a.threads, *(f"{x:.1f}" for x in median[peer]), *(f"{x:.2f}" for x in ratio), sep=",")


if __name__ == "__main__":
    main()
