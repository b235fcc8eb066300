#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The experiments with simulated fleets, as CSV files; figures.gp plots them.

    bench/fleet/figures.py [--sim FLEET_SIM] [--out FOLDER] [NAME...]

Without names it makes all of them; `--list` says which there are. A row has the first columns that its experiment names, then
those of fleet_sim. The policies: `leases` (ours), `clockwork` (5 ms of work ahead for a GPU, as published), `clockwork0` (the
same policy with 0.1 ms ahead) and `deferred`. The policies that plan single requests have each model on every GPU that has
memory for it (--replicas), which is best for them; ours places models by itself.
"""
import argparse
import concurrent.futures
import os
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
POLICIES = {
    "leases": {"policy": "leases"},
    "clockwork": {"policy": "clockwork"},
    "clockwork0": {"policy": "clockwork", "ahead": "100us"},
    "deferred": {"policy": "deferred"},
}
RESNET = {"exec": "447us", "marginal": 0.12}  # resnet50 fp16 on an H200: 447 us measured; batches assumed
V100 = {"exec": "2730us", "marginal": 0.3}    # resnet50 on a V100: 2.73 ms published; batches assumed


class Lab:
    def __init__(self, sim, out):
        self.sim, self.out = sim, out
        self.columns = self.call("--header")[2:]

    def call(self, *args):
        text = subprocess.run([self.sim, *map(str, args)], check=True, capture_output=True, text=True).stdout
        return text.strip().split(",")

    def run(self, policy, **options):
        """One simulation: {column: number}. Pooled copies of models for the policies that plan single requests."""
        options = {**options, **POLICIES[policy]}
        if policy != "leases":
            options.setdefault("replicas", options.get("workers", 10))
        args = [word for name, value in options.items() for word in ("--" + name.replace("_", "-"), value)]
        return dict(zip(self.columns, self.call("--csv", *args)[2:]))

    def table(self, name, keys, points):
        """points: (values of the keys, policy, options). All run side by side; the file has them in order."""
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            rows = list(pool.map(lambda p: self.run(p[1], **p[2]), points))
        with open(self.out / f"{name}.csv", "w", encoding="utf-8") as file:
            print(*keys, "how", *self.columns, sep=",", file=file)
            for (values, policy, _), row in zip(points, rows):
                print(*values, policy, *row.values(), sep=",", file=file)

    def most(self, policy, good, low, high, field, **options):
        """The largest (field=rate) or smallest (field=workers) value at which `good` percent are in time."""
        rising = field == "rate"
        for _ in range(8):
            middle = (low * high) ** 0.5 if rising else (low + high) // 2
            fits = float(self.run(policy, **{**options, field: middle})["good_pc"]) >= good
            if fits == rising:
                low = middle
            else:
                high = middle
            if not rising and high - low <= 1:
                break
        return low if rising else high


def deadlines(lab):
    """One worker, ten models, deadlines from 1 to 500 ms."""
    points = [((ms,), p, {**RESNET, "workers": 1, "models": 10, "rate": 1500, "deadline": f"{ms}ms", "requests": 100000})
              for ms in (1, 1.5, 2, 3, 4, 5, 6, 7, 8, 10, 15, 25, 50, 100, 250, 500) for p in POLICIES]
    lab.table("deadlines", ["deadline"], points)


def cold(lab):
    """Ten workers with room for 285 models each, and more and more models; Azure's rates."""
    points = [((n,), p, {**V100, "workers": 10, "models": n, "rate": 2000, "deadline": "100ms", "load": "azure",
                         "requests": 100000, "replicas": 0}) for n in (100, 300, 1000, 3000)
              for p in ("leases", "clockwork", "deferred")]
    lab.table("cold", ["models_there"], points)


def tighten(lab):
    """Deadlines that tighten, in times of the model's own time; 80 % of what GPUs do one by one."""
    points = [((f,), p, {**V100, "workers": 10, "models": 50, "rate": 2930, "factor": f, "requests": 300000})
              for f in (20, 10, 7, 5, 4, 3, 2.5, 2, 1.5, 1.2) for p in POLICIES]
    lab.table("tighten", ["factor"], points)


def isolation(lab):
    """A third of the models with 10 ms, the others with 500 ms and more and more load."""
    points = [((rate,), p, {**V100, "workers": 10, "models": 60, "rate": rate, "deadline": "500ms", "tight": 0.3,
                            "tight-deadline": "10ms", "requests": 300000})
              for rate in (1000, 2000, 3000, 4000, 6000, 8000) for p in POLICIES]
    lab.table("isolation", ["load"], points)


def trace(lab):
    """A day of Azure's load in a minute: 1,000 models, 30 workers."""
    points = [((seed,), p, {**V100, "workers": 30, "models": 1000, "rate": 6000, "deadline": "100ms", "load": "azure",
                            "seed": seed, "requests": 360000, "replicas": 0}) for seed in (1, 2)
              for p in ("leases", "clockwork", "deferred")]
    lab.table("trace", ["seed_of"], points)


def scale(lab):
    """From 10 to 1,000 workers, ten models for each."""
    points = [((n,), p, {**V100, "workers": n, "models": 10 * n, "rate": 300 * n, "deadline": "25ms",
                         "requests": 100000 + 600 * n, "replicas": 0}) for n in (10, 30, 100, 300, 1000)
              for p in ("leases", "clockwork0", "deferred")]
    lab.table("scale", ["workers_there"], points)


def overload(lab):
    """More and more load on ten workers; 3,660 a second is what they do one by one."""
    points = [((rate,), p, {**V100, "workers": 10, "models": 100, "rate": rate, "deadline": "25ms", "requests": 300000})
              for rate in (2000, 3000, 4000, 5000, 6000, 8000, 12000, 16000, 24000) for p in POLICIES]
    lab.table("overload", ["load"], points)


def faults(lab):
    """A fault of one kind every five seconds, on average."""
    points = [((kind,), p, {**V100, "workers": 20, "models": 100, "rate": 4000, "deadline": "50ms", "requests": 300000,
                            "faults": kind, "fault-every": 5}) for kind in ("death", "pause", "cut", "lie", "load", "clock", "drain")
              for p in ("leases", "clockwork", "deferred")]
    lab.table("faults", ["fault"], points)


def wait(lab):
    """Ours: the part of the possible time that a device waits for larger batches; and leases for what others refuse."""
    base = {**V100, "workers": 10, "models": 100, "deadline": "25ms", "requests": 100000}
    points = [((d, s), "leases", {**base, "rate": rate, "defer": d, "spills": s})
              for rate in (3000, 4000, 5000, 8000) for d, s in ((0, 0), (0.25, 0), (0.5, 0), (1, 0), (0, 1), (0, 2), (0, 4))]
    lab.table("wait", ["defer", "spills"], points)


def searched(lab, name, keys, points):
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        found = list(pool.map(lambda p: lab.most(p[1], *p[2], **p[3]), points))
    with open(lab.out / f"{name}.csv", "w", encoding="utf-8") as file:
        print(*keys, "how", "found", sep=",", file=file)
        for (values, policy, _, _), value in zip(points, found):
            print(*values, policy, round(value), sep=",", file=file)


def goodput(lab):
    """The highest rate at which 99 % are in time: ten workers, by deadline and GPU."""
    points = [((ms, kind), p, (99, 300, 120000, "rate"),
               {**profile, "workers": 10, "models": 100, "deadline": f"{ms}ms", "requests": requests, "warm": "300ms"})
              for kind, profile, requests in (("v100", V100, 60000), ("h200", RESNET, 200000))
              for ms in (7, 10, 15, 25, 50, 100) for p in POLICIES]
    searched(lab, "goodput", ["deadline", "gpu"], points)


def gpus(lab):
    """The fewest workers with which 99 % of 10,000 requests a second are in time."""
    points = [((ms,), p, (99, 5, 80, "workers"), {**V100, "models": 100, "rate": 10000, "deadline": f"{ms}ms", "requests": 100000,
                                                "warm": "300ms"}) for ms in (10, 25, 50, 100) for p in POLICIES]
    searched(lab, "gpus", ["deadline"], points)


EXPERIMENTS = [deadlines, cold, tighten, isolation, trace, scale, overload, faults, wait, goodput, gpus]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--sim", default=HERE.parent.parent / "build" / "bin" / "fleet_sim")
    parser.add_argument("--out", type=pathlib.Path, default=HERE / "results")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("names", nargs="*")
    args = parser.parse_args()
    known = {e.__name__: e for e in EXPERIMENTS}
    if args.list:
        for name, experiment in known.items():
            print(f"{name:10} {experiment.__doc__}")
        return 0
    unknown = [n for n in args.names if n not in known]
    if unknown:
        print(f"figures.py: no experiment {unknown[0]}; --list says which there are", file=sys.stderr)
        return 2
    args.out.mkdir(parents=True, exist_ok=True)
    lab = Lab(args.sim, args.out)
    for name in args.names or known:
        print(name, flush=True)
        known[name](lab)
    return 0


if __name__ == "__main__":
    sys.exit(main())
