#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The baseline of bench/fleet: requests through its controller come back right, though a worker is killed: baseline.py BASELINE"""
import os
import subprocess
import sys
import tempfile
import time

# Batches are slow, so that the worker has some when it dies.
with tempfile.NamedTemporaryFile("w", delete=False, encoding="ascii") as profile:
    profile.write("exec_ns 10000000 12000000 14000000 16000000 20000000\nload_ns 5000000\nrequest_bytes 4096\n")
COMMON = ["--models", "6", "--workers", "3", "--profile", profile.name]
running = []


def start(mode, *words):
    running.append(subprocess.Popen([sys.argv[1], mode, *COMMON, *words], stdout=subprocess.PIPE, text=True))
    return running[-1]


try:
    controller = start("controller", "--controller", "127.0.0.1:0")
    at = ["--controller", "127.0.0.1:" + controller.stdout.readline().split()[-1]]
    workers = [start("workers", *at, "--workers", "1") for _ in range(3)]
    for _ in workers:
        assert "is there" in controller.stdout.readline()
    load = start("load", *at, "--rate", "300", "--warm-ms", "1", "--run-ms", "2000", "--deadline-ms", "10000")
    assert load.stdout.readline() == "counts\n"
    # Models were loaded on the worker with least to do: all three have some. Each answer says whose it is.
    time.sleep(0.5)
    workers[0].kill()
    assert "is gone" in controller.stdout.readline()
    words = load.stdout.readline().split()
    got = dict(zip(words[::2], map(int, words[1::2])))
    assert load.wait(20) == 0
    assert got["sent"] > 300 and got["good"] == got["sent"] and not got["wrong"], got
    # A client learns what it did wrong: a model that is not there.
    load = start("load", *at, "--models", "7", "--rate", "70", "--warm-ms", "1", "--run-ms", "500", "--deadline-ms", "10000")
    words = load.communicate(timeout=20)[0].split()[1:]
    got = dict(zip(words[::2], map(int, words[1::2])))
    assert got["failed"] and got["good"] > got["failed"] and got["good"] + got["failed"] == got["sent"], got
finally:
    for p in reversed(running):
        p.kill()
        p.wait()
    os.unlink(profile.name)
