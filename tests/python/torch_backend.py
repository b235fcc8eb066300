#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The back end of torch.distributed, beside gloo's results.

    torch_backend.py             groups of 2 and 4 processes: every operation, training, and ranks that die
    torch_backend.py torchrun    training, started by PyTorch's launcher

Values are small whole numbers, so that every order of adding them up has the same result in every element type. Exit code
77: there is no PyTorch. It tries the distribution's own Python, too, which may have it.
"""
import argparse
import faulthandler
import importlib.util
import multiprocessing
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import traceback

SYSTEM_PYTHON = "/usr/bin/python3"
LIMIT_S = float(os.environ.get("PATIENCE") or 120)  # of all ranks of a group
SHORT_S = LIMIT_S / 4  # what a rank may wait for one that is dead
SETTINGS = {"OMP_NUM_THREADS": "1", "MASTER_ADDR": "127.0.0.1"}

if importlib.util.find_spec("torch") is None:
    has_torch = [SYSTEM_PYTHON, "-c", "import importlib.util as u, sys; sys.exit(u.find_spec('torch') is None)"]
    if sys.executable == SYSTEM_PYTHON or not os.access(SYSTEM_PYTHON, os.X_OK) or \
            subprocess.run(has_torch, check=False).returncode:
        print("skipped: there is no PyTorch")
        sys.exit(77)
    os.execv(SYSTEM_PYTHON, [SYSTEM_PYTHON, *sys.argv])


os.environ.update(SETTINGS)  # before PyTorch looks at them
import torch_scenes  # pylint: disable=wrong-import-position

FORK = multiprocessing.get_context("fork")


def rank_main(out, args):
    """What a rank's process does. It writes to `out`."""
    os.dup2(out.fileno(), 1)
    os.dup2(out.fileno(), 2)
    faulthandler.enable(out)
    code = 1
    try:
        torch_scenes.run(args)
        code = 0
    except BaseException:  # pylint: disable=broad-except
        traceback.print_exc()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def start(scene, size, meet, victim):
    """The ranks of a group, as processes, with the files that they write to. They are forked: PyTorch takes two seconds to
    load. Nothing of it, or of gpuwire, has run here yet."""
    ranks = []
    for rank in range(size):
        out = tempfile.TemporaryFile("w+")
        args = argparse.Namespace(scene=scene, rank=rank, size=size, meet=meet, limit=SHORT_S, victim=victim)
        process = FORK.Process(target=rank_main, args=(out, args))
        process.start()
        ranks.append((process, out))
    return ranks


def finish(ranks):
    """Exit codes and outputs. None: a rank had to be ended."""
    end, codes, outputs = time.monotonic() + LIMIT_S, [], []
    for process, out in ranks:
        process.join(max(0.1, end - time.monotonic()))
        codes.append(process.exitcode)
        if process.exitcode is None:
            os.kill(process.pid, signal.SIGABRT)  # its threads' stacks are printed
            process.join()
        out.seek(0)
        outputs.append(out.read())
        out.close()
    return codes, outputs


def play(scene, size, victim=None):
    """All ranks must end well, but for the one that is killed."""
    with tempfile.TemporaryDirectory() as folder:
        begin = time.monotonic()
        codes, outputs = finish(start(scene, size, f"file://{folder}/meet", victim))
    bad = [f"rank {rank}:\n{output[-3000:]}" for rank, (code, output) in enumerate(zip(codes, outputs))
           if not (code == -signal.SIGKILL if rank == victim else code == 0 and "ENDED WELL" in output)]
    if bad:
        sys.exit("\n".join([f"FAILED: {scene} of {size}: exit codes {codes}", *bad]))
    print(f"{scene} of {size}: ok, {time.monotonic() - begin:.1f} s", flush=True)


def torchrun(size):
    """The same training, started by PyTorch's launcher, whose store the ranks use."""
    begin = time.monotonic()
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    with tempfile.TemporaryDirectory() as folder:
        # PyTorch 1.13's launcher fails on Python 3.11 if it is not told for each rank where its output goes.
        outputs = ",".join(f"{rank}:1" for rank in range(size))
        command = [sys.executable, "-m", "torch.distributed.run", "--nproc_per_node", str(size), "--master_addr", "127.0.0.1",
                   "--master_port", str(port), "-r", outputs, "-t", outputs, "--log_dir", folder,
                   os.path.abspath(__file__), "--scene", "training", "--meet", "env://"]
        ran = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S,
                             check=False)
    if ran.returncode or ran.stdout.count("ENDED WELL") != size:
        sys.exit(f"FAILED: torchrun: exit code {ran.returncode}\n{ran.stdout[-2000:]}\n{ran.stderr[-3000:]}")
    print(f"torchrun of {size}: ok, {time.monotonic() - begin:.1f} s", flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("what", nargs="?", choices=["all", "torchrun"], default="all")
    for name in ("scene", "meet"):  # a rank that torchrun starts
        parser.add_argument("--" + name)
    args = parser.parse_args()
    if args.scene:
        faulthandler.enable()
        torch_scenes.run(argparse.Namespace(scene=args.scene, meet=args.meet, rank=-1, size=-1, limit=SHORT_S, victim=None))
    elif args.what == "torchrun":
        torchrun(2)
    else:
        for size in (2, 4):
            play("operations", size)
        play("death", 3, 1)
        play("death", 3, 0)
        play("silence", 2)
        print("ok")


main()
