#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Experiments in real time with emulated workers: gpuwire's controller and client as they are, durations from a measured profile.

    bench/fleet/experiments.py [--bin BUILD/bin] [--rounds N] [--seconds N] [--profile NAME] [NAME...]

Without names it makes all; `--list` says which there are. Each point is a fleet of its own, measured --rounds times; a row has the
medians. Rows are printed, and with CSV=FILE MACHINE=NAME in the environment appended to FILE, in the columns of bench/results.
The machine must be quiet: what it does beside this makes answers late.
"""
import argparse
import contextlib
import csv
import datetime
import json
import math
import os
import pathlib
import random
import statistics
import subprocess
import sys
import tempfile
import time
import types

TREE = pathlib.Path(__file__).resolve().parent.parent.parent
# Milliseconds of a batch of one (p99), as src/fleet/worker/profile.c has them.
EXEC_MS = {"resnet50-h200": 0.447, "resnet50-v100": 2.73}
FULL = 0.8  # the part of what batches of one can do


class Fleet:
    """A controller and emulated workers, until it is left."""

    def __init__(self, lab, workers, models):
        self.lab, self.workers, self.models = lab, workers, models

    def __enter__(self):
        with contextlib.ExitStack() as stack:
            self.stack = stack
            self.folder = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory()))
            began = time.monotonic()
            self.controller = self.start("gpuwire", "controller", "--standalone", "--listen", "127.0.0.1:0", "--http", "off")
            self.at = self.controller.stdout.readline().split()[2].strip(",\n")
            self.emulated = self.start("gpuwire", "fleet", "emulate", "--controller", self.at, "--workers", self.workers, "--models",
                                       self.models, "--profile", self.lab.profile, "--quiet", "--drain-seconds", 0)
            self.emulated.stdout.readline()
            while sum(w["state"] == "active" for w in self.table()["workers"]) < self.workers:
                time.sleep(0.02)
            self.here = time.monotonic() - began
            self.stack = stack.pop_all()
        return self

    def __exit__(self, *_):
        self.stack.close()

    def start(self, program, *words):
        with open(self.folder / "log", "a", encoding="utf-8") as log:
            p = subprocess.Popen([self.lab.bin / program, *map(str, words)], stdout=subprocess.PIPE, stderr=log, text=True)
        self.stack.callback(lambda: (p.kill(), p.wait(), p.stdout.close()))
        return p

    def table(self):
        done = subprocess.run([self.lab.bin / "gpuwire", "fleet", "--json", "--controller", self.at], capture_output=True, text=True, check=True)
        return json.loads(done.stdout)

    def load(self, model, rate, deadline_ms, seconds=None):
        """Begins Poisson requests for one model; the function that it returns waits, and gives the level."""
        seconds, out = seconds or self.lab.seconds, self.folder / f"{model}-{time.monotonic_ns()}.json"
        p = self.start("gpuwire", "load", f"resnet50-{model}", "--fleet", self.at, "--rate", f"{rate:.3f}", "--deadline",
                       f"{deadline_ms}ms", "--warmup", 2, "--window", 1, "--windows", seconds, "--stability", 0.1, "--json", out)

        def result():
            p.wait()
            if not out.exists():
                raise SystemExit("gpuwire load: " + (self.folder / "log").read_text()[-500:])
            level = json.loads(out.read_text())["levels"][0]
            asked = sum(level[k] for k in ("within", "late", "refused", "lost"))
            return types.SimpleNamespace(kept=100 * level["within"] / asked if asked else 0.0, asked=asked, p50=level["p50_us"] / 1e3,
                                         p99=level["p99_us"] / 1e3, p999=level["p99.9_us"] / 1e3)
        return result

    def play(self, lines, deadline_ms, seconds):
        """Plays a trace: [(seconds, model)]."""
        trace = self.folder / "trace"
        trace.write_text("".join(f"{int(t * 1e6)} {m}\n" for t, m in lines))
        p = self.start("baseline", "load", "--fleet", self.at, "--profile", self.lab.profile, "--models", self.models, "--trace", trace,
                       "--deadline-ms", deadline_ms, "--warm-ms", 3000, "--run-ms", int(seconds * 1000), "--flying", 16000)
        assert p.stdout.readline() == "counts\n"
        busy = self.cpu()
        words = p.stdout.readline().split()
        got = {k: int(v) for k, v in zip(words[::2], words[1::2])}
        return types.SimpleNamespace(kept=100 * got["good"] / got["sent"], asked=got["sent"], p50=got["p50_us"] / 1e3,
                                     p99=got["p99_us"] / 1e3, cpu=100 * (self.cpu() - busy) / seconds)

    def cpu(self):
        """Seconds that the controller has run."""
        threads = pathlib.Path(f"/proc/{self.controller.pid}/task").iterdir()
        return sum(int((t / "schedstat").read_text().split()[0]) for t in threads) * 1e-9


def poisson(rng, rate, seconds, model, start=0.0):
    t, out = start, []
    while (t := t + rng.expovariate(rate)) < start + seconds:
        out.append((t, model))
    return out


def medians(lab, one):
    """The medians of what `one()` returns, by name."""
    got = [vars(one()) for _ in range(lab.rounds)]
    return types.SimpleNamespace(**{k: statistics.median(g[k] for g in got) for k in got[0]})


# ---- the experiments: each yields (what, value, unit, better, goal, note)

def deadlines(lab):
    """One worker with one model at 80 % of what batches of one can do; deadlines from twice the model's time on."""
    exec_ms, best = EXEC_MS[lab.profile], None
    rate = FULL * 1e3 / exec_ms
    for ms in [2 * exec_ms, *(d for d in (3, 5, 10, 15, 25, 50, 100, 250, 500) if d > 2 * exec_ms)]:
        def one():
            with Fleet(lab, 1, 1) as f:
                return f.load(0, rate, round(ms, 3))()
        r = medians(lab, one)
        if r.kept >= 99.9 and best is None:
            best = ms
        yield f"deadline {ms:.3g} ms, {rate:.0f}/s: kept", r.kept, "%", "more", ">=99.99" if ms == 10 else "", f"p99 {r.p99:.3g} ms, p99.9 {r.p999:.3g} ms"
    yield "smallest deadline of these that 99.9 % keep", best or math.inf, "ms", "less", "", f"{rate:.0f}/s"


def isolation(lab):
    """A client with a tight deadline beside one of another model that asks for 0 to 2 times what the worker can do."""
    exec_ms = EXEC_MS[lab.profile]
    tight = max(10, round(4 * exec_ms))
    for part in (0, 0.5, 1, 2):
        def one():
            with Fleet(lab, 1, 2) as f:
                noise = f.load(1, part * 1e3 / exec_ms, 500, lab.seconds + 4) if part else None
                time.sleep(2 if part else 0)
                r = f.load(0, 0.1 * 1e3 / exec_ms, tight)()
                r.noise = noise().kept if noise else 100
                return r
        r = medians(lab, one)
        yield f"deadline {tight} ms beside a client that asks for {part:g} of the worker: kept", r.kept, "%", "more", "", \
            f"p99 {r.p99:.3g} ms; the other client, 500 ms: {r.noise:.4g} % kept"


def tighten(lab):
    """Four workers, eight models, 80 % of what batches of one can do, deadlines that tighten until they break."""
    exec_ms, rng = EXEC_MS[lab.profile], random.Random(1)
    rate = FULL * 4e3 / exec_ms
    lines = sorted(x for m in range(8) for x in poisson(rng, rate / 8, lab.seconds + 3, m))
    for factor in (20, 10, 5, 3, 2, 1.5):
        ms = max(1, round(factor * exec_ms))

        def one():
            with Fleet(lab, 4, 8) as f:
                return f.play(lines, ms, lab.seconds)
        r = medians(lab, one)
        yield f"4 workers, 8 models, {rate:.0f}/s, deadline {ms} ms: kept", r.kept, "%", "more", "", f"p50 {r.p50:.3g} ms, p99 {r.p99:.3g} ms"


def azure(rng, models, rate, seconds):
    """Requests with the published statistics of Azure's functions, as src/fleet/sim/load.c has them; a day takes `seconds`."""
    a_day = []
    for _ in range(models):
        u, v = rng.random(), rng.random()
        a_day.append(0.1 * 240 ** v if u < 0.45 else 24 * 60 ** v if u < 0.81 else 1440 * (1e8 / 1440) ** v)
    lines = []
    for m, n in enumerate(a_day):
        mine = n * rate / sum(a_day)
        wave = lambda t, phase=rng.random(): 0.75 + 0.5 * math.sin(2 * math.pi * (t / seconds + phase)) / 2
        if rng.random() >= 0.6:
            lines += [x for x in poisson(rng, mine, seconds, m) if rng.random() < wave(x[0])]
            continue
        t, on = 0.0, rng.random() * 4 > 1
        while t < seconds:  # bursts of four times the rate, a quarter of the time
            length = (1 if on else 3) / 3 * rng.paretovariate(1.5)
            if on:
                lines += [x for x in poisson(rng, 4 * mine, min(length, seconds - t), m, t) if rng.random() < wave(x[0])]
            t, on = t + length, not on
    return sorted(lines)


def trace(lab):
    """Ten workers, 300 models, a day of Azure's functions in the time that there is."""
    seconds, exec_ms = max(10, 3 * lab.seconds), EXEC_MS[lab.profile]
    lines = azure(random.Random(1), 300, 0.3 * 1e4 / exec_ms, seconds + 3)

    def one():
        with Fleet(lab, 10, 300) as f:
            return f.play(lines, 100, seconds)
    r = medians(lab, one)
    yield "10 workers, 300 models, Azure's statistics, deadline 100 ms: kept", r.kept, "%", "more", "", \
        f"{r.asked:.0f} requests in {seconds} s, p50 {r.p50:.3g} ms, p99 {r.p99:.3g} ms, controller {r.cpu:.2g} % of a core"


def scale(lab):
    """10 to 1,000 workers of ten models each, at one rate: what grows is the fleet alone."""
    for workers in (10, 30, 100, 300, 1000):
        rng = random.Random(1)
        lines = sorted(x for m in range(10) for x in poisson(rng, 30, lab.seconds + 3, m))

        def one():
            with Fleet(lab, workers, 10) as f:
                r = f.play(lines, 100, lab.seconds)
                r.here, r.round = f.here, f.table()["round_us"] / 1e3
                return r
        r = medians(lab, one)
        note = f"all there after {r.here:.2g} s, p99 {r.p99:.3g} ms"
        yield f"{workers} workers, 10 models, 300/s, deadline 100 ms: kept", r.kept, "%", "more", "", note
        yield f"{workers} workers: a round of the controller", r.round, "ms", "less", "<=5" if workers == 1000 else "", f"controller {r.cpu:.2g} % of a core"


ALL = {f.__name__: f for f in (deadlines, isolation, tighten, trace, scale)}


def number(x):
    return f"{x:.6g}"


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--bin", type=pathlib.Path, default=TREE / "build/bin")
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--seconds", type=int, default=10, help="of a measurement; three at least")
    p.add_argument("--profile", choices=EXEC_MS, default="resnet50-v100")
    p.add_argument("--list", action="store_true")
    p.add_argument("names", nargs="*", metavar="NAME")
    lab = p.parse_args()
    if lab.list:
        return print(*(f"{name}: {f.__doc__}" for name, f in ALL.items()), sep="\n")
    if unknown := set(lab.names) - set(ALL):
        sys.exit(f"bench/fleet/experiments.py: {', '.join(unknown)}: --list says which there are")
    commit = subprocess.run(["git", "-C", TREE, "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False).stdout.strip()
    out = csv.writer(sys.stdout, lineterminator="\n")
    for name in lab.names or ALL:
        for what, value, unit, better, goal, note in ALL[name](lab):
            row = [what, number(value), unit, better, "", "", "", goal, f"bench/fleet/experiments.py {name}", os.environ.get("MACHINE", ""),
                   datetime.date.today().isoformat(), commit, f"{lab.profile}, {lab.rounds} x {lab.seconds} s; {note}"]
            out.writerow(row)
            sys.stdout.flush()
            if os.environ.get("CSV"):
                with open(os.environ["CSV"], "a", encoding="utf-8", newline="") as f:
                    csv.writer(f, lineterminator="\n").writerow(row)
    return None


main()
