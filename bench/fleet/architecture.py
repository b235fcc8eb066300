#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""gpuwire's fleet beside a controller that all tensors pass (baseline.c): the same emulated workers, models and load.

    bench/fleet/architecture.py [--bin BUILD/bin] [--rounds N] [--workers N] [--models N] [--deadline-ms N] [SIZE...]

SIZE is the bytes of a request's tensors (4096 61440 602112). For each it measures fixed loads and the most that this machine
reaches, one system after the other, and prints medians: requests in time a second, the controller's CPU time for a request, and
requests a second for a core that the controller fills. For the most, it first tries how many open requests are best, for each
system on its own. All processes share this machine's cores.
With CSV=FILE and MACHINE=NAME in the environment it appends rows for docs/performance.md to FILE.
"""
import argparse
import csv
import datetime
import os
import pathlib
import signal
import statistics
import subprocess
import tempfile
import time

TREE = pathlib.Path(__file__).resolve().parent.parent.parent
EXEC = "exec_ns 447000 501000 608000 822000 1252000\nspread_ns 15000\nload_ns 2000000\nanswer_bytes 4000\n"  # resnet50-h200's
LOADS = {4096: [15000], 61440: [5000], 602112: [200, 800]}  # requests a second that both systems can serve
MOST = 1_000_000                                            # more than any can
FLYING = 16, 64, 256                                        # open requests, at most
WARM, RUN = 2000, 3000                                      # milliseconds: leases follow the demand of the last second


def cpu_seconds(pid):
    """What all threads of a process have run."""
    threads = pathlib.Path(f"/proc/{pid}/task").iterdir()
    return sum(int((t / "schedstat").read_text(encoding="ascii").split()[0]) for t in threads) * 1e-9


class System:
    """A controller and its workers, for one measurement."""

    def __init__(self, lab, ours, profile):
        self.lab, self.ours, self.profile, self.running = lab, ours, profile, []

    def start(self, *words):
        p = subprocess.Popen([str(w) for w in words], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.running.append(p)
        return p

    def __enter__(self):
        o = self.lab
        if self.ours:
            self.controller = self.start(o.bin / "gpuwire", "controller", "--standalone", "--listen", "127.0.0.1:0", "--http", "off")
            self.at = address(self.controller.stdout.readline())
            workers = self.start(o.bin / "gpuwire", "fleet", "emulate", "--controller", self.at, "--workers", o.workers, "--models",
                                 o.models, "--profile", self.profile, "--quiet", "--drain-seconds", 0)
            workers.stdout.readline()
        else:
            self.controller = self.start(o.bin / "baseline", "controller", "--controller", "127.0.0.1:0", *self.words())
            self.at = "127.0.0.1:" + self.controller.stdout.readline().split()[-1]
            self.start(o.bin / "baseline", "workers", "--controller", self.at, *self.words())
            for _ in range(o.workers):
                self.controller.stdout.readline()
        return self

    def __exit__(self, *_):
        for p in reversed(self.running):
            p.send_signal(signal.SIGTERM)
        for p in self.running:
            try:
                p.wait(3)
            except subprocess.TimeoutExpired:
                p.kill()
                p.wait()
            p.stdout.close()

    def words(self):
        return "--workers", self.lab.workers, "--models", self.lab.models, "--profile", self.profile

    def load(self, rate, flying):
        """Requests in time a second, and what the controller spent."""
        p = self.start(self.lab.bin / "baseline", "load", "--fleet" if self.ours else "--controller", self.at, *self.words(),
                       "--rate", rate, "--flying", flying, "--deadline-ms", self.lab.deadline_ms, "--warm-ms", WARM,
                       "--run-ms", RUN)
        assert p.stdout.readline() == "counts\n"
        before, began = cpu_seconds(self.controller.pid), time.monotonic()
        words = p.stdout.readline().split()
        cpu, took = cpu_seconds(self.controller.pid) - before, time.monotonic() - began
        got = {key: int(value) for key, value in zip(words[::2], words[1::2])}
        assert not got["wrong"], got
        sent = got["sent"]
        if self.lab.verbose:
            print("   ", "ours" if self.ours else "baseline", rate, flying, got, f"cpu {cpu:.4f} s of {took:.2f} s", flush=True)
        if not sent or not cpu:
            return None
        return {"good": got["good"] / RUN * 1e3, "cpu": cpu / sent * 1e6, "core": sent / cpu, "part": 100 * got["good"] / sent,
                "busy": 100 * cpu / took, "p99": got["p99_us"] / 1e3}


def address(line):
    """The HOST:PORT that a controller says it listens on."""
    return next(word.strip(",;") for word in line.split() if ":" in word and word.strip(",;").rsplit(":", 1)[1].isdigit())


def once(lab, ours, profile, rate, flying):
    """One measurement; again if the machine stood still for all of it."""
    for _ in range(3):
        with System(lab, ours, profile) as system:
            got = system.load(rate, flying)
        if got:
            return got
    raise SystemExit("bench/fleet/architecture.py: no request was sent in three measurements")


def measure(lab, size, rate):
    """Medians of ours and the baseline."""
    with tempfile.TemporaryDirectory() as folder:
        profile = pathlib.Path(folder) / "profile"
        profile.write_text(f"request_bytes {size}\n{EXEC}", encoding="ascii")
        flying = {True: FLYING[-1], False: FLYING[-1]}
        for ours in flying if rate == MOST else ():
            flying[ours] = max(FLYING, key=lambda n: once(lab, ours, profile, rate, n)["good"])
        got = {True: [], False: []}
        for _ in range(lab.rounds):
            for ours in got:
                got[ours].append(once(lab, ours, profile, rate, flying[ours]))
    both = [{k: statistics.median(r[k] for r in runs) for k in runs[0]} for runs in (got[True], got[False])]
    return [{**system, "flying": flying[ours]} for system, ours in zip(both, got)]


def number(x):
    return f"{x:.0f}" if x >= 100 else f"{x:.3g}"


def report(lab, size, rate, ours, base):
    """Prints the lines of one load; they also are rows of a CSV file."""
    load = "the most" if rate == MOST else f"{rate}/s"
    kb = f"{size // 1000} KB" if size > 4096 else "4 KB"
    lines = [("in time", "good", "requests/s", "more", ""),
             ("controller's CPU for a request", "cpu", "µs", "less", "<=0.01x" if size == 602112 else "")]
    if rate == MOST:
        lines.append(("for a controller's core", "core", "requests/s", "more", ">=100000"))
    notes = {"good": "{part:.4g} % in time, p99 {p99:.3g} ms", "cpu": "controller {busy:.2g} % of a core"}
    if rate == MOST:
        notes["good"] += ", {flying} open"
    rows = []
    for what, key, unit, better, goal in lines:
        print(f"{kb}, {load}, {what}: ours {number(ours[key])} {unit}, baseline {number(base[key])}, "
              f"ratio {ours[key] / max(base[key], 1e-9):.3g}", flush=True)
        note = "; ".join(notes[key].format(**of) for of in (ours, base)) if key in notes else ""
        rows.append([f"{kb}, {load}, {what}", number(ours[key]), unit, better, "controller in the way", number(base[key]),
                     f"{ours[key] / max(base[key], 1e-9):.3g}", goal, "bench/fleet/architecture.py", os.environ.get("MACHINE", ""),
                     datetime.date.today().isoformat(), lab.commit, note])
    return rows


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--bin", type=pathlib.Path, default=TREE / "build/bin")
    for name, value in (("rounds", 3), ("workers", 4), ("models", 8), ("deadline-ms", 100)):
        p.add_argument("--" + name, type=int, default=value)
    p.add_argument("--verbose", action="store_true")
    p.add_argument("sizes", type=int, nargs="*", metavar="SIZE")
    lab = p.parse_args()
    lab.commit = subprocess.run(["git", "-C", TREE, "rev-parse", "--short", "HEAD"], capture_output=True, text=True,
                                check=False).stdout.strip()
    for size in lab.sizes or LOADS:
        for rate in (*LOADS.get(size, [200]), MOST):
            rows = report(lab, size, rate, *measure(lab, size, rate))
            if os.environ.get("CSV"):
                with open(os.environ["CSV"], "a", encoding="utf-8", newline="") as f:
                    csv.writer(f, lineterminator="\n").writerows(rows)


main()
