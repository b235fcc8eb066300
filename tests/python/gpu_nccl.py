#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""NCCL, as PyTorch brings it, between two GPUs over the software NIC: two processes, all_reduce and all_to_all.

    gpu_nccl.py               every result is looked at; figures beside NCCL's own socket transport
    gpu_nccl.py --faults      the same where packets get lost: each result is right, or the program ends with an error

With a single GPU both share it by turns, and the figures say nothing about the network. Exit code 77: there is no GPU.
$GPUWIRE is the tool.
"""
import argparse
import json
import os
import subprocess
import sys
import time

import gpu_ranks

FAULTS_LARGE = 1 << 18  # floats where packets get lost: each lost one costs a time-out
LARGE = 64 << 20  # floats: 256 MiB
SIZES = [1, 1000, 1 << 18, LARGE]
ROUNDS = 10


# ---- a rank ---------------------------------------------------------------------------------------------------------

def check(ok, what):
    if not ok:
        sys.exit(f"FAILED: rank {os.environ['RANK']}: {what}")


def reduce_once(torch, dist, n, rank):
    x = torch.arange(n, device="cuda", dtype=torch.float32).remainder_(1 << 20).add_(rank)
    want = x * 2 + (1 - 2 * rank)  # the other's differs by one
    dist.all_reduce(x)
    check(torch.equal(x, want), f"all_reduce of {n} floats is wrong")


def exchange_once(torch, dist, n, rank):
    half = max(1, n // 2)
    mine = torch.arange(2 * half, device="cuda", dtype=torch.float32).remainder_(1 << 20).add_(rank * 5)
    got = torch.empty_like(mine)
    dist.all_to_all_single(got, mine)
    part = torch.arange(rank * half, (rank + 1) * half, device="cuda", dtype=torch.float32).remainder_(1 << 20)
    check(torch.equal(got[:half], part) and torch.equal(got[half:], part + 5), f"all_to_all of {n} floats is wrong")


def speed(torch, dist, large):
    x = torch.zeros(large, device="cuda")
    for _ in range(3):
        dist.all_reduce(x)
    torch.cuda.synchronize()
    begin = time.monotonic()
    for _ in range(ROUNDS):
        dist.all_reduce(x)
    torch.cuda.synchronize()
    return ROUNDS * x.numel() * 4 / (time.monotonic() - begin) / 1e9


def copied():
    """Bytes that this process's NICs copied from or to a GPU's memory, without packets."""
    out = subprocess.run([os.environ["GPUWIRE"], "nic", "--json", "--pid", str(os.getpid())], capture_output=True, check=False)
    try:
        return sum(nic["counters"].get("direct_gpu_bytes", 0) for nic in json.loads(out.stdout))
    except (ValueError, KeyError, TypeError):
        return 0


def rank_main(rank, meet, faulty):
    import torch
    import torch.distributed as dist
    torch.cuda.set_device(rank % torch.cuda.device_count())
    dist.init_process_group("nccl", init_method=f"file://{meet}", rank=rank, world_size=2)
    large = FAULTS_LARGE if faulty else LARGE
    for _ in range(2):
        for n in SIZES:
            reduce_once(torch, dist, min(n, large), rank)
            exchange_once(torch, dist, min(n, large), rank)
    result = {"speed": speed(torch, dist, large), "copied": copied(), "nccl": ".".join(map(str, torch.cuda.nccl.version()))}
    dist.barrier()
    dist.destroy_process_group()
    gpu_ranks.tell(result)


# ---- both -----------------------------------------------------------------------------------------------------------

def run_nccl(net, nic):
    settings = dict(gpu_ranks.NCCL, NCCL_NET=net, GPUWIRE_NIC=nic)
    return gpu_ranks.run(["--faults"] if "loss" in nic else [], settings, under_nic=net == "IB")


def plain():
    soft = gpu_ranks.result_of(*run_nccl("IB", "addr=127.0.0.1"))
    sockets = gpu_ranks.result_of(*run_nccl("Socket", "addr=127.0.0.1"))
    print(f"bench: NCCL {soft['nccl']}, all_reduce of 256 MiB between two ranks on {gpu_ranks.gpus()} GPU(s): software NIC {soft['speed']:.2f} GB/s, "
          f"its sockets {sockets['speed']:.2f} GB/s, ratio {soft['speed'] / sockets['speed']:.2f}")
    if soft["copied"] < LARGE * 4:
        sys.exit(f"FAILED: only {soft['copied']} bytes went without packets")


def faults():
    for nic in ("addr=127.0.0.1,loss=1%,reorder=1%,dup=1%", "addr=127.0.0.1,loss=30%"):
        codes, outputs = run_nccl("IB", nic)
        text = "\n".join(outputs)
        if "FAILED" in text:
            sys.exit(f"FAILED: with {nic} a result was wrong\n{text[-3000:]}")
        if codes != [0, 0] and not ("gpuwire:" in text or "NCCL WARN" in text or "NCCL error" in text):
            sys.exit(f"FAILED: with {nic} the ranks ended with {codes}, and no line says why\n{text[-3000:]}")
        print(f"with {nic}: exit codes {codes}")


def main():
    args = argparse.ArgumentParser()
    args.add_argument("--faults", action="store_true")
    args.add_argument("--rank", type=int)
    args.add_argument("--meet")
    args = args.parse_args()
    if args.rank is not None:
        rank_main(args.rank, args.meet, args.faults)
        return
    if not gpu_ranks.gpus():
        print("skipped: this takes a GPU")
        sys.exit(77)
    faults() if args.faults else plain()
    print("ok")


main()
