#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""gpuwire fleet emulate, as a user runs it: emulate.py GPUWIRE"""
import os
import signal
import subprocess
import sys

GPUWIRE = sys.argv[1]


def refused(*args):
    done = subprocess.run([GPUWIRE, "fleet", "emulate", *args], capture_output=True, text=True, timeout=20, check=False)
    assert done.returncode in (1, 2) and done.stderr.count("\n") == 1, (args, done)
    return done.stderr


assert "either --controller or --etcd" in refused()
assert "HOST:PORT" in refused("--controller", "here")
assert "a number" in refused("--controller", "127.0.0.1:1", "--workers", "0")
assert "no such word" in refused("--controller", "127.0.0.1:1", "now")
assert "nor a file" in refused("--controller", "127.0.0.1:1", "--profile", "/none")
assert "clients" in refused("--controller", "127.0.0.1:1", "--host", "0.0.0.0")
assert "too long" in refused("--controller", "127.0.0.1:1", "--name", "x" * 70)

# A thousand workers of ten thousand models, without a controller. They end in order when they are told to.
with subprocess.Popen([GPUWIRE, "fleet", "emulate", "--controller", "127.0.0.1:1", "--workers", "1000", "--models", "10000",
                       "--threads", "2", "--quiet"], stdout=subprocess.PIPE, text=True) as many:
    try:
        assert many.stdout.readline() == "emulating 1000 workers of 10000 models (resnet50-v100) on 2 threads\n"
        with open(f"/proc/{many.pid}/status", encoding="ascii") as status:
            size = [int(line.split()[1]) for line in status if line.startswith("VmRSS")][0]
        assert size < 400_000, size  # KB
        many.send_signal(signal.SIGTERM)
        assert many.wait(20) == 0
    finally:
        many.poll() is None and os.kill(many.pid, signal.SIGKILL)
