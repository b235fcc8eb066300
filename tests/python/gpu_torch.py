#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The back end of torch.distributed between two GPUs over the software NIC: its results, training, and times beside NCCL's.

    gpu_torch.py              two processes. NCCL uses the same software NIC

With a single GPU both share it by turns, and the figures say nothing about the network. Exit code 77: there is no GPU or no
PyTorch that knows it. $GPUWIRE is the tool, and $GPUWIRE_LIBRARIES the folder of its libraries.
"""
import argparse
import statistics
import sys
import time

import gpu_ranks

COUNTS = [0, 1, 1000, 1 << 18, 10_000_019]
SIZES = [8 << 10, 64 << 10, 1 << 20, 64 << 20]  # bytes
ROUNDS = 200
LARGE_ROUNDS = 10
STEPS = 8


# ---- a rank ---------------------------------------------------------------------------------------------------------

def check(ok, what):
    if not ok:
        sys.exit(f"FAILED: {what}")


def values(torch, count, dtype, rank):
    """Small whole numbers: every order of adding them up gives the same, in each element type."""
    return ((torch.arange(count, device="cuda") * (rank + 2) + rank) % 7).to(dtype)


def look_at_results(torch, dist, rank):
    other = 1 - rank
    for dtype in (torch.float32, torch.float16, torch.bfloat16, torch.float64, torch.int32, torch.int64, torch.uint8):
        for count in COUNTS:
            what = f"{count} {dtype}"
            mine, theirs = values(torch, count, dtype, rank), values(torch, count, dtype, other)
            pair = torch.stack([mine, theirs] if rank == 0 else [theirs, mine])
            x = mine.clone()
            dist.all_reduce(x)
            check(torch.equal(x, mine + theirs), f"all_reduce of {what}")
            got = torch.empty_like(pair)
            dist.all_gather_into_tensor(got, mine)
            check(torch.equal(got, pair), f"all_gather of {what}")
            got = torch.empty_like(mine)
            dist.reduce_scatter_tensor(got, torch.stack([mine, mine + 1]))
            check(torch.equal(got, mine + theirs + 2 * rank), f"reduce_scatter of {what}")
            got, half = torch.empty_like(pair), torch.stack([mine, mine + 1])
            dist.all_to_all_single(got, half)
            check(torch.equal(got, pair + rank), f"all_to_all of {what}")
            x = mine.clone()
            dist.broadcast(x, 1)
            check(torch.equal(x, pair[1]), f"broadcast of {what}")
    x = torch.ones(1000, 30, device="cuda").t()[::2]  # the program's stream has work that the result depends on
    for _ in range(20):
        x.add_(1).mul_(0.5).add_(0.5)
    dist.all_reduce(x)
    check(torch.allclose(x, torch.full_like(x, 4.0)), "all_reduce of a strided tensor")


def losses(torch, dist, rank):
    torch.manual_seed(1)
    net = torch.nn.Sequential(torch.nn.Linear(256, 1024), torch.nn.ReLU(), torch.nn.Linear(1024, 10)).cuda()
    net = torch.nn.parallel.DistributedDataParallel(net, device_ids=[torch.cuda.current_device()])
    step = torch.optim.SGD(net.parameters(), 0.1)
    torch.manual_seed(2 + rank)
    found = []
    for _ in range(STEPS):
        x = torch.randn(64, 256, device="cuda")
        loss = torch.nn.functional.cross_entropy(net(x), x[:, :10].argmax(1))
        step.zero_grad()
        loss.backward()
        step.step()
        found.append(loss.item())
    check(found[-1] < found[0], f"it learns nothing: {found}")
    return found


def times(torch, dist):
    """Medians, in microseconds, from the call to the end of the stream."""
    found = {}
    for name in ("all_reduce", "all_to_all"):
        for size in SIZES:
            x = torch.zeros(size // 4, device="cuda")
            y = torch.empty_like(x)
            each = []
            for _ in range(LARGE_ROUNDS if size > 1 << 20 else ROUNDS):
                begin = time.perf_counter()
                dist.all_reduce(x) if name == "all_reduce" else dist.all_to_all_single(y, x)
                torch.cuda.current_stream().synchronize()
                each.append(time.perf_counter() - begin)
            found[f"{name} {size}"] = statistics.median(each[len(each) // 10:]) * 1e6
    return found


def rank_main(rank, meet, backend):
    import torch
    import torch.distributed as dist
    if backend == "gpuwire":
        import gpuwire.torch  # noqa: F401  it registers the back end
    torch.cuda.set_device(rank % torch.cuda.device_count())
    dist.init_process_group(backend, init_method=f"file://{meet}", rank=rank, world_size=2)
    if backend == "gpuwire":
        look_at_results(torch, dist, rank)
    gpu_ranks.tell({"losses": losses(torch, dist, rank), "times": times(torch, dist)})
    dist.destroy_process_group()


# ---- both -----------------------------------------------------------------------------------------------------------

def run(backend):
    nic = {"GPUWIRE_NIC": "addr=127.0.0.1", "MASTER_ADDR": "127.0.0.1"}
    if backend == "nccl":
        return gpu_ranks.run(["--backend", backend], dict(gpu_ranks.NCCL, **nic, NCCL_NET="IB"), under_nic=True)
    return gpu_ranks.run(["--backend", backend], dict(nic, GPUWIRE_DEVICE="softnic"), under_nic=False)


def main():
    args = argparse.ArgumentParser()
    args.add_argument("--rank", type=int)
    args.add_argument("--meet")
    args.add_argument("--backend")
    args = args.parse_args()
    if args.rank is not None:
        rank_main(args.rank, args.meet, args.backend)
        return
    if not gpu_ranks.gpus():
        print("skipped: this takes a GPU")
        sys.exit(77)
    ours = gpu_ranks.result_of(*run("gpuwire"))
    print("every result is right", flush=True)
    if gpu_ranks.gpus() < 2:
        print("ok; what NCCL gets is compared on two GPUs: two ranks of it take minutes on one")
        return
    theirs = gpu_ranks.result_of(*run("nccl"))
    for a, b in zip(ours["losses"], theirs["losses"]):
        check(abs(a - b) < 1e-3 * abs(b), f"losses: {ours['losses']}, with NCCL {theirs['losses']}")
    for what, took in ours["times"].items():
        name, size = what.split()
        other = theirs["times"][what]
        print(f"bench: torch {name} of {int(size) >> 10} KiB, two ranks on {gpu_ranks.gpus()} GPU(s), software NIC: {took:.0f} us, "
              f"NCCL {other:.0f} us, ratio {took / other:.2f}")
    print("ok")


main()
