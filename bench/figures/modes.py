#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Figures 1, 2, 6 and 7 of "Toward GPU-centric Networking on Commodity Hardware", out of what bench/serve_modes.py has measured.

    modes.py OUT                 OUT/bandwidth.csv, levels.csv, parts.csv and cpu.csv, and with gnuplot their plots
    modes.py --rows MACHINE DATE COMMIT   rows for bench/results: serving-goals-MACHINE.csv and serving-modes-MACHINE.csv

The measurements are modes/NAME.csv: first and second of h200-16, third of h100-16. second.csv has no bandwidths and no idle servers.
NAME.json has the graphs alone, of the same run. paper.csv has the paper's own numbers.
"""
import csv
import json
import pathlib
import shutil
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
NAMES = {"ours": "D, GPU-driven", "copy": "B, copies by the CPU", "direct": "C, launches by the CPU", "queued": "C', queued launches",
         "http": "A, the HTTP door", "aiohttp": "PyTorch behind aiohttp"}
RUNS = {"h200-16": ("first", "second"), "h100-16": ("third", "third")}
COMMAND = "bench/serve_modes.py run OUT"
COLUMNS = "row ours unit better peer peer_value ratio goal command machine date commit note".split()


class Run:
    def __init__(self, name):
        with open(HERE / f"modes/{name}.csv", newline="", encoding="utf-8") as f:
            self.rows = list(csv.DictReader(f))
        with open(HERE / f"modes/{name}.json", encoding="utf-8") as f:
            self.bare = json.load(f)

    def all(self, **want):
        return [r for r in self.rows if all(r[k] == str(v) for k, v in want.items())]

    def one(self, run, mode, model, **want):
        return self.all(run=run, mode=mode, model=model, **want)[0]

    def gpu_us(self, model):
        """The model's time on the GPU, as the GPU's clock has it in the loop: the least that was seen of it."""
        return min(self.bare[model]["behind_us"], float(self.one("alone", "ours", model)["server_infer"]))

    def beyond(self, mode, model, what):
        row = self.one("alone", mode, model)
        parts = ("p50",) if what == "client" else ("server_queue", "server_input", "server_infer", "server_output")
        return sum(float(row[p]) for p in parts) - self.gpu_us(model)

    def cpu_ms(self, mode, model):
        row = self.one("alone", mode, model)
        return float(row["own_cpu"]) / int(row["answered"]) * 1e6

    def joule(self, mode, model):
        row = self.one("alone", mode, model)
        return float(row["gpu_joule"]) / int(row["answered"])


FIRST, SECOND = (Run(name) for name in RUNS["h200-16"])  # of the figures; print_rows takes those of its machine

# ---- figures


def write(out, name, head, rows):
    with open(out / f"{name}.csv", "w", newline="", encoding="utf-8") as f:
        csv.writer(f, lineterminator="\n").writerows([head, *rows])


def figures(out):
    out.mkdir(parents=True, exist_ok=True)
    rows = []
    for r in FIRST.all(run="bandwidth"):
        tensor = FIRST.bare[r["model"]]
        gbit = [f"{float(r['rate']) * tensor[way] * 8 / 1e9:.3f}" for way in ("in", "out")]
        rows.append([r["model"], r["mode"], r["rate"], *gbit])
    write(out, "bandwidth", ["model", "mode", "requests_per_s", "in_gbit", "out_gbit"], rows)
    percents = ("p50", "p90", "p95", "p99", "p99.9", "max")
    write(out, "levels", ["mode", "in_flight", "requests_per_s", *percents],
          [[r["mode"], r["concurrency"], r["rate"], *(r[p] for p in percents)] for r in SECOND.all(run="levels")])
    rows = []
    for r in SECOND.all(run="parts"):
        server = [float(r[f"server_{p}"]) for p in ("queue", "input", "infer", "output")]
        before, run, after = (float(r[f"copy_{p}"] or 0) for p in ("in", "run", "out"))
        if r["mode"] == "copy":  # within `infer`: CUDA's events tell it apart
            server[1:] = [before, run, after + server[2] - before - run - after + server[3]]
        network = float(r["mean"]) - sum(server)
        rows.append([r["mode"], *(f"{v:.1f}" for v in [network, *server])])
    write(out, "parts", ["mode", "network_us", "wait_us", "input_us", "model_us", "output_us"], rows)
    # The NIC's thread never sleeps (poll=busy), so that its CPU time is the time that has passed.
    write(out, "cpu", ["run", "mode", "own_percent_of_a_core"],
          [[r["run"], r["mode"], f"{float(r['own_cpu']) / float(r['nic_cpu']) * 100:.2f}"] for r in FIRST.rows
           if r["run"].split("_")[0] in ("sleep", "spin", "polls")])
    shutil.copy(HERE / "paper.csv", out / "paper.csv")
    if shutil.which("gnuplot"):
        subprocess.run(["gnuplot", "-e", f"folder='{out}'", str(HERE / "modes.gp")], check=True)
    else:
        print("gnuplot is not installed: there are CSV files, and no plots", file=sys.stderr)


# ---- rows of the performance page


def number(value):
    return f"{value:.3g}" if value < 1000 else f"{value:.0f}"


def both(get):
    """The figure of both runs: a range, or one number."""
    low, high = sorted((get(FIRST), get(SECOND)))
    return number(low) if number(low) == number(high) else f"{number(low)}–{number(high)}"


def ratio_of_both(ours, peer):
    low, high = sorted(ours(run) / peer(run) for run in (FIRST, SECOND))
    return f"{low:.2g}" if f"{low:.2g}" == f"{high:.2g}" else f"{low:.2g}–{high:.2g}"


def compare(row, unit, better, peer, ours, theirs, goal="", note="", now=False):
    """`now`: the second run alone, as the code has changed since the first."""
    if now:
        a, b = ours(SECOND), theirs(SECOND)
        return [row, number(a), unit, better, peer, number(b), f"{a / b:.2g}", goal, note]
    return [row, both(ours), unit, better, peer, both(theirs), ratio_of_both(ours, theirs), goal, note]


def goals():
    rows = []
    for what, name in (("server", "server's own time beyond the model's GPU time"),
                       ("client", "client to client, p50, beyond the model's GPU time")):
        for model, text, peer, goal in (("resnet50", "600 KB in, resnet50", "copy", "<=0.5x"),
                                        ("identity600k", "600 KB in and out, identity", "copy", "<=0.5x"),
                                        ("identity4k", "4 KB in, identity", "queued", "<=0.8x")):
            if SECOND.beyond(peer, model, "server") < 0:  # each process captures its own graph, and the peer's was the faster one
                continue
            rows.append(compare(f"{name}, {text}", "µs", "less", NAMES[peer], lambda r, m=model, w=what: r.beyond("ours", m, w),
                                lambda r, m=model, p=peer, w=what: r.beyond(p, m, w), goal, now=True))
    busy = lambda mode, model: lambda r: float(r.one("busy", mode, model)["p99"])
    counts = lambda mode, model: " : ".join(f"{int(SECOND.one('busy', m, model)['answered']):,}" for m in ("ours", mode)) + " requests"
    for peer, goal in (("copy", "<=0.2x"), ("aiohttp", "<=0.05x")):
        rows.append(compare("p99 with every core busy, resnet50", "µs", "less", NAMES[peer], busy("ours", "resnet50"),
                            busy(peer, "resnet50"), goal, counts(peer, "resnet50")))
    rows.append(compare("the same, identity, 4 KB", "µs", "less", NAMES["copy"], busy("ours", "identity4k"), busy("copy", "identity4k"),
                        "<=0.2x", counts("copy", "identity4k")))
    for model in ("resnet50", "identity4k", "identity600k"):
        rows.append(compare(f"CPU time per 1,000 requests, without the NIC's, {model}", "ms", "less", NAMES["copy"],
                            lambda r, m=model: r.cpu_ms("ours", m), lambda r, m=model: r.cpu_ms("copy", m), "<=0.01x"))
    best = lambda r: max(r.bare["static"]["rates"].values())
    for flying, text in ((64, "one request each"), (128, "two requests each")):
        rows.append(compare(f"64 clients, {text}, resnet50 in fp16", "1/s", "more", "static batches of 64 in a loop",
                            lambda r, n=flying: float(r.one("batches", "ours", "resnet50_half", concurrency=n)["rate"]), best, ">=0.95x",
                            now=True))
    for model in ("resnet50", "squeezenet", "superresolution", "identity4k"):
        run = "alone" if model in ("resnet50", "identity4k") else "levels" if model == "squeezenet" else "parts"
        bare = SECOND.bare[model]["us"]
        served = float(SECOND.one(run, "ours", model, concurrency=1)["model_us"])
        rows.append([f"served through Python, the model's own time, {model}", number(served), "µs", "less", "its graph's replay",
                     number(bare), f"{served / bare:.2g}", f"<={1.05 * bare + 10:.0f}", "mean beside a median; the goal is 1.05 × + 10 µs"])
    return rows


def others():
    rows = []
    for model in ("identity4k", "identity600k", "resnet50"):
        for mode in ("copy", "direct", "queued", "http", "aiohttp"):
            row = lambda r, m=mode, n=model: float(r.one("alone", m, n)["p50"])
            mine, its = SECOND.one("alone", "ours", model), SECOND.one("alone", mode, model)
            note = f"p99 {float(mine['p99']):.0f} : {float(its['p99']):.0f}; max {float(mine['max']):.0f} : {float(its['max']):.0f}; " \
                   f"{int(mine['answered']):,} : {int(its['answered']):,} requests"
            rows.append(compare(f"{model}, one in flight, p50", "µs", "less", NAMES[mode], lambda r, n=model: row(r, "ours", n), row,
                                note=note, now=True))
    for mode in ("copy", "aiohttp"):
        rows.append(compare("the GPU's energy per request, resnet50", "J", "less", NAMES[mode], lambda r: r.joule("ours", "resnet50"),
                            lambda r, m=mode: r.joule(m, "resnet50"), note="by NVML, with what the GPU takes when idle"))
    level = lambda mode: lambda r: float(r.one("levels", mode, "squeezenet", concurrency=16)["rate"])
    for mode in ("copy", "direct", "queued"):
        rows.append(compare("squeezenet, 16 in flight, no batches", "1/s", "more", NAMES[mode], level("ours"), level(mode), now=True))
    return rows


def print_rows(machine, date, commit):
    global FIRST, SECOND
    FIRST, SECOND = (Run(name) for name in RUNS[machine])
    for name, rows in (("goals", goals()), ("modes", others())):
        path = HERE.parent / f"results/serving-{name}-{machine}.csv"
        with open(path, "w", newline="", encoding="utf-8") as f:
            out = csv.writer(f, lineterminator="\n")
            out.writerow(COLUMNS)
            out.writerows([*row[:-1], COMMAND, machine, date, commit, row[-1]] for row in rows)


if len(sys.argv) == 5 and sys.argv[1] == "--rows" and sys.argv[2] in RUNS:
    print_rows(*sys.argv[2:])
elif len(sys.argv) == 2 and sys.argv[1][0] != "-":
    figures(pathlib.Path(sys.argv[1]))
else:
    sys.exit(__doc__)
