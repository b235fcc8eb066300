# SPDX-License-Identifier: Apache-2.0
"""Two controllers and a real etcd, in processes of their own, for tests of what happens when parts die or are cut off."""
import contextlib
import json
import os
import pathlib
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time

GPUWIRE = sys.argv[1]
SKIP = 77


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


class Wire:
    """A way to a port of this host that can be cut: then nothing passes, and nothing is said."""

    def __init__(self, to):
        self.to, self.whole = to, threading.Event()
        self.whole.set()
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.do(self.accept)

    def do(self, what, *args):
        threading.Thread(target=what, args=args, daemon=True).start()

    def accept(self):
        while True:
            near = self.listener.accept()[0]
            self.whole.wait()
            with contextlib.suppress(OSError):
                far = socket.create_connection(("127.0.0.1", self.to))
                self.do(self.relay, near, far)
                self.do(self.relay, far, near)

    def relay(self, one, other):
        with contextlib.suppress(OSError):
            while data := one.recv(65536):
                self.whole.wait()
                other.sendall(data)
        for s in (one, other):
            with contextlib.suppress(OSError):
                s.shutdown(socket.SHUT_RDWR)


class Fleet:
    def __init__(self, folder, stack, wires=False):
        """wires: each controller has a wire of its own to etcd."""
        self.folder, self.stack = folder, stack
        ports = [free_port() for _ in range(4)]
        self.url = f"http://127.0.0.1:{ports[0]}"
        self.where = [f"127.0.0.1:{ports[2]}", f"127.0.0.1:{ports[3]}"]
        peer = f"http://127.0.0.1:{ports[1]}"
        self.etcd = self.start("etcd", "etcd", "--data-dir", str(folder / "data"), "--listen-client-urls", self.url,
                               "--advertise-client-urls", self.url, "--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer,
                               "--initial-cluster", f"default={peer}")
        self.wires = [Wire(ports[0]) for _ in self.where] if wires else []
        urls = [f"http://127.0.0.1:{w.port}" for w in self.wires] or [self.url] * 2
        self.controllers = [self.start(f"c{i}", GPUWIRE, "controller", "--etcd", urls[i], "--listen", where, "--http", "off", "--name", f"c{i}",
                                       "--audit", str(folder / f"c{i}.audit"))
                            for i, where in enumerate(self.where)]

    def start(self, name, *command):
        with open(self.folder / f"{name}.log", "wb") as log:
            p = subprocess.Popen(command, stdout=log, stderr=log)
        self.stack.callback(p.wait)
        self.stack.callback(p.kill)
        return p

    def log(self, name):
        return (self.folder / f"{name}.log").read_text(errors="replace")

    def moves(self, name):
        """What this controller has had moved, as leader: (action, worker, model)."""
        lines = [json.loads(line) for line in (self.folder / f"{name}.audit").read_text().splitlines()]
        return [(a["action"], a["worker"], a["model"]) for a in lines if a["action"] in ("LOAD", "EVICT", "DROP")]

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


def run(main, wires=False):
    if not shutil.which("etcd"):
        sys.exit(SKIP)
    # etcd waits for the disk at each write, and a busy disk makes it lose leases and leaders.
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=memory) as name, contextlib.ExitStack() as stack:
        fleet = Fleet(pathlib.Path(name), stack, wires)
        try:
            sys.exit(main(fleet))
        except BaseException as e:
            if not isinstance(e, SystemExit) or e.code:
                for log in sorted(pathlib.Path(name).glob("[cwl]*.log")):
                    sys.stderr.write(f"--- {log.name}\n{log.read_text(errors='replace')[-3000:]}")
            raise
