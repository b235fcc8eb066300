#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Collectives of gpuwire beside PyTorch's, between two processes over the software NIC, in turn.

    collective.py [--exec gpu|cpu] [--runs N] [--rounds N] [--nic NIC]

On two GPUs the peer is NCCL over the same software NIC; on CPU threads it is gloo over TCP. Each run has its own processes.
Figures are microseconds, the median of the runs. `call`: the host starts one and waits for its end. `queued`: many are
started one after the other (NCCL: in a stream; gpuwire: inside one kernel). $GPUWIRE is the tool, which stands in a bundle or
a build: collective_bench lies beside it in bin/ or tests/. Exit code 77: there is no PyTorch, or there are not two GPUs.
"""
import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time

RANKS = 2
LIMIT_S = 200
CASES = [("allreduce", 8 << 10), ("allreduce", 64 << 10), ("allreduce", 1 << 20), ("allreduce", 64 << 20),
         ("alltoall", 64 << 10), ("alltoall", 1 << 20), ("alltoall", 64 << 20)]
GOALS = {("allreduce", 8 << 10): ("<= 0.7", lambda r: r <= 0.7), ("alltoall", 64 << 10): ("<= 1", lambda r: r <= 1),
         ("alltoall", 1 << 20): ("<= 1", lambda r: r <= 1)}


# ---- a rank of PyTorch's ---------------------------------------------------------------------------------------------

def peer_main(args):
    import torch
    import torch.distributed as dist
    gpu = args.exec == "gpu"
    if gpu:
        torch.cuda.set_device(args.rank)
    dist.init_process_group("nccl" if gpu else "gloo", init_method=f"file://{args.meet}", rank=args.rank, world_size=RANKS)
    sync = torch.cuda.synchronize if gpu else (lambda: None)
    figures = {}
    for op, size in cases(args):
        x, y = (torch.zeros(size // 4, device="cuda" if gpu else "cpu") for _ in range(2))
        if op == "alltoall" and not gpu:
            continue  # gloo has none
        one = (lambda: dist.all_reduce(x)) if op == "allreduce" else (lambda: dist.all_to_all_single(y, x))
        rounds = args.rounds if size < 1 << 22 else max(5, args.rounds // 10)
        for _ in range(5):
            one()
        sync()
        calls = []
        for _ in range(rounds):
            begin = time.perf_counter()
            one()
            sync()
            calls.append(time.perf_counter() - begin)
        begin = time.perf_counter()
        for _ in range(rounds):
            one()
        sync()
        figures[f"{op} {size}"] = (statistics.median(calls) * 1e6, (time.perf_counter() - begin) / rounds * 1e6)
    dist.barrier()
    dist.destroy_process_group()
    print("RESULT " + json.dumps(figures), flush=True)


# ---- both -----------------------------------------------------------------------------------------------------------

def cases(args):
    return [c for c in CASES if args.exec == "gpu" or c[1] <= 1 << 20]


def pair(commands, environments):
    """Both processes' outputs; ends the program when one fails."""
    with tempfile.TemporaryDirectory() as folder:
        logs = [open(os.path.join(folder, str(r)), "w+") for r in range(RANKS)]
        ranks = [subprocess.Popen(c, env=e, stdout=l, stderr=subprocess.STDOUT) for c, e, l in zip(commands, environments, logs)]
        codes = []
        for p in ranks:
            try:
                codes.append(p.wait(LIMIT_S))
            except subprocess.TimeoutExpired:
                p.kill()
                codes.append(p.wait())
        texts = []
        for log in logs:
            log.seek(0)
            texts.append(log.read())
            log.close()
    if 77 in codes:
        print(texts[codes.index(77)].strip())
        sys.exit(77)
    if any(codes):
        sys.exit(f"FAILED: exit codes {codes}\n" + "\n".join(t[-3000:] for t in texts))
    return texts


def peer_run(args):
    with tempfile.TemporaryDirectory() as folder:
        mine = [sys.executable, os.path.abspath(__file__), "--exec", args.exec, "--rounds", str(args.rounds), "--meet",
                os.path.join(folder, "meet"), "--rank"]
        tool = [os.environ["GPUWIRE"], "run", "--"] if args.exec == "gpu" else []
        env = dict(os.environ, GPUWIRE_NIC=args.nic, NCCL_P2P_DISABLE="1", NCCL_SHM_DISABLE="1", NCCL_NET="IB",
                   NCCL_IB_HCA="mlx5_0", NCCL_IB_GID_INDEX="0", NCCL_CUMEM_ENABLE="1", NCCL_SOCKET_IFNAME="lo",
                   GLOO_SOCKET_IFNAME="lo", NCCL_DEBUG="WARN")
        texts = pair([tool + mine + [str(r)] for r in range(RANKS)], [env] * RANKS)
    line = [l for l in texts[0].splitlines() if l.startswith("RESULT ")][-1]
    return {tuple([k.split()[0], int(k.split()[1])]): v for k, v in json.loads(line[len("RESULT "):]).items()}


def bench_path():
    here = os.path.dirname(os.path.abspath(os.environ["GPUWIRE"]))
    for path in (os.path.join(here, "collective_bench"), os.path.join(here, "..", "tests", "collective_bench")):
        if os.access(path, os.X_OK):
            return path
    sys.exit("FAILED: no collective_bench beside the tool")


LINE = re.compile(r"^(\w+)\s+(\d+) B  way \d+ +\d+ blocks +([\d.]+) us a call +([\d.]+) us in a kernel.*?(registered)?\s*$", re.M)


def ours_run(args, port):
    """{(op, size): (call, queued)}: the better of plain and registered memory."""
    figures = {}
    for large in (False, True):
        sizes = sorted({s for _, s in cases(args) if (s >= 1 << 22) == large})
        if not sizes:
            continue
        rounds = max(5, args.rounds // 10) if large else args.rounds
        command = [bench_path(), "--exec", args.exec, "--rounds", str(rounds), "--ops", "allreduce,alltoall", "--sizes",
                   ",".join(map(str, sizes))]
        envs = [dict(os.environ, GPUWIRE_NIC=args.nic, GPUWIRE_DEVICE="softnic", GPUWIRE_RANK=str(r), GPUWIRE_SIZE=str(RANKS),
                     GPUWIRE_RENDEZVOUS=f"127.0.0.1:{port}") for r in range(RANKS)]
        for op, size, call, queued, _ in LINE.findall(pair([command] * RANKS, envs)[0]):
            key, now = (op, int(size)), (float(call), float(queued))
            figures[key] = tuple(map(min, figures.get(key, now), now))
    return figures


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--exec", default="gpu", choices=["gpu", "cpu"])
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--nic", default="addr=127.0.0.1")
    parser.add_argument("--rank", type=int)
    parser.add_argument("--meet")
    args = parser.parse_args()
    if args.rank is not None:
        peer_main(args)
        return
    try:
        import torch
    except ImportError:
        print("skipped: there is no PyTorch")
        sys.exit(77)
    if args.exec == "gpu" and torch.cuda.device_count() < RANKS:
        print("skipped: this takes two GPUs")
        sys.exit(77)
    port = 20000 + os.getpid() % 10000
    runs = [(peer_run(args), ours_run(args, port + i)) for i in range(args.runs)]
    name = "NCCL" if args.exec == "gpu" else "gloo"
    for case in cases(args):
        theirs, ours = ([run[k][case] for run in runs if case in run[k]] for k in (0, 1))
        middle = [[statistics.median(v[i] for v in side) if side else float("nan") for i in range(2)] for side in (ours, theirs)]
        ratio = [middle[0][i] / middle[1][i] for i in range(2)]
        goal = ""
        if args.exec == "gpu" and case in GOALS:
            text, met = GOALS[case]
            goal = f"goal {text}: {'met' if met(ratio[0]) else 'missed'} by call, {'met' if met(ratio[1]) else 'missed'} queued"
        print(f"bench: {case[0]:9} {case[1]:9} B  call: ours {middle[0][0]:9.1f}, {name} {middle[1][0]:9.1f} us, {ratio[0]:5.2f} x"
              f"  queued: ours {middle[0][1]:9.1f}, {name} {middle[1][1]:9.1f} us, {ratio[1]:5.2f} x  {goal}")


main()
