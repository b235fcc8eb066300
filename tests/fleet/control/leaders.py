#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Two controllers, three emulated workers and a real etcd, under load. The leader is killed, then etcd is silent for a while,
then a worker is killed: leaders.py GPUWIRE"""
import contextlib
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

GPUWIRE = sys.argv[1]
SKIP = 77
ROW = re.compile(r"^\s+60\s+([\d.]+).*?(\d+)\s+(\d+)\s+(\d+)\s+(\d+)\s+([\d.]+)%", re.M)  # late, failed, refused, lost, kept


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def until(what, seconds=30):
    end = time.monotonic() + seconds
    while not (found := what()):
        assert time.monotonic() < end, what
        time.sleep(0.05)
    return found


class Fleet:
    def __init__(self, folder, stack):
        self.folder, self.stack = folder, stack
        ports = [free_port() for _ in range(4)]
        self.url = f"http://127.0.0.1:{ports[0]}"
        self.where = [f"127.0.0.1:{ports[2]}", f"127.0.0.1:{ports[3]}"]
        peer = f"http://127.0.0.1:{ports[1]}"
        self.etcd = self.start("etcd", "etcd", "--data-dir", str(folder / "data"), "--listen-client-urls", self.url,
                               "--advertise-client-urls", self.url, "--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer,
                               "--initial-cluster", f"default={peer}")
        self.controllers = [self.start(f"c{i}", GPUWIRE, "controller", "--etcd", self.url, "--listen", where, "--http", "off", "--name", f"c{i}")
                            for i, where in enumerate(self.where)]

    def start(self, name, *command):
        with open(self.folder / f"{name}.log", "wb") as log:
            p = subprocess.Popen(command, stdout=log, stderr=log)
        self.stack.callback(p.wait)
        self.stack.callback(p.kill)
        return p

    def log(self, name):
        return (self.folder / f"{name}.log").read_text(errors="replace")

    def table(self, where):
        done = subprocess.run([GPUWIRE, "fleet", "--json", "--controller", where], capture_output=True, text=True, timeout=30, check=False)
        return json.loads(done.stdout) if done.returncode == 0 else None

    def leader(self, workers, frozen=None, but=None):
        """The leader's number and term, when these workers are with it. Whichever is asked names the leader."""
        for i, where in enumerate(self.where):
            t = self.table(where) if i != but else None
            if t and sum(w["state"] == "active" for w in t["workers"]) == workers and frozen in (None, t["frozen"]):
                return int(t["controller"][1]), t["term"]
        return None


AWAY = 12  # seconds: longer than a lease is valid


def main(fleet):
    lists = ",".join(fleet.where)
    workers = [fleet.start(f"w{i}", GPUWIRE, "fleet", "emulate", "--controller", lists, "--models", "3", "--name", f"w{i}") for i in range(3)]
    first, term = until(lambda: fleet.leader(3))
    load = fleet.start("load", GPUWIRE, "load", "resnet50-1", "--fleet", lists, "--deadline", "400ms", "--rate", "60", "--window", "1",
                       "--windows", "17", "--stability", "0.1")
    until(lambda: fleet.table(fleet.where[first])["leases"] > 0)
    time.sleep(0.5)
    # Silence of etcd: the leader knows that it may not lead. It goes on to renew, beyond the end of what was granted.
    fleet.etcd.send_signal(signal.SIGSTOP)
    until(lambda: "may lead no more" in fleet.log(f"c{first}"))
    time.sleep(AWAY)
    silent = fleet.table(fleet.where[first])
    assert silent["frozen"] and silent["leases"] > 0 and sum(w["state"] == "active" for w in silent["workers"]) == 3, silent
    fleet.etcd.send_signal(signal.SIGCONT)
    until(lambda: fleet.leader(3, frozen=False))
    # A worker dies.
    workers[0].kill()
    until(lambda: fleet.leader(2))
    assert load.wait(90) in (0, 1), fleet.log("load")
    late, failed, refused, lost, kept = (float(x) for x in ROW.search(fleet.log("load")).groups()[1:])
    print(f"late {late:g}, failed {failed:g}, refused {refused:g}, lost {lost:g}, kept {kept} %")
    assert failed == 0 and lost <= 30 and kept > 80, fleet.log("load")
    # The leader is stopped, and another one leads, with a larger term and with what was granted. Then the old one finds out.
    first, term = until(lambda: fleet.leader(2, frozen=False))
    fleet.controllers[first].send_signal(signal.SIGSTOP)
    second, later = until(lambda: fleet.leader(2, but=first))
    assert second != first and later > term
    fleet.controllers[first].send_signal(signal.SIGCONT)
    until(lambda: "leads no more" in fleet.log(f"c{first}"))
    return 0


if not shutil.which("etcd"):
    sys.exit(SKIP)
# etcd waits for the disk at each write, and a busy disk makes it lose leases and leaders.
MEMORY = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
with tempfile.TemporaryDirectory(dir=MEMORY) as name, contextlib.ExitStack() as stack:
    fleet = Fleet(pathlib.Path(name), stack)
    try:
        sys.exit(main(fleet))
    except BaseException as e:
        if not isinstance(e, SystemExit) or e.code:
            for log in sorted(pathlib.Path(name).glob("[cwl]*.log")):
                sys.stderr.write(f"--- {log.name}\n{log.read_text(errors='replace')[-3000:]}")
        raise
