#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Ways of serving beside each other: the same graphs, the same client, the same NIC. See bench/README.md.

    serve_modes.py run OUT [--exec cpu] [--quick] [--limit SECONDS] [--only TEXT] [--tool bin/gpuwire]

`run` writes OUT/modes.csv, a line for each measurement, and OUT/bare.json. It needs PyTorch, torchvision and aiohttp, and a GPU;
with --exec cpu it needs none of them, tries the programs on identities alone, and its figures say nothing about a GPU. After --limit
seconds it begins no further measurement, and says what it has left out.

It finds gpuwire's libraries and program in a bundle around it, or in the folder build of the tree; else GPUWIRE_LIBRARIES names the
folder of the libraries, and --tool the program.
"""
import argparse
import contextlib
import csv
import json
import os
import pathlib
import select
import subprocess
import sys
import tempfile
import time
from typing import Any, Dict, Iterator, List, Optional, Sequence

HERE = pathlib.Path(__file__).resolve().parent
BUILT = HERE.parent if (HERE.parent / "bin/gpuwire").exists() else HERE.parent / "build"
OURS = ("ours", "copy", "direct", "queued")  # D, B, C and C' of the page
COLUMNS = ("run mode model concurrency busy answered failed wrong seconds rate p50 p90 p95 p99 p99.9 max mean net_in wait model_us post "
           "net_out server_queue server_input server_infer server_output own_cpu nic_cpu gpu_joule cpu_joule copy_in copy_run copy_out "
           "batch").split()
SIZES = (1, 2, 4, 8, 12, 16, 20, 24, 28, 32, 36, 40, 44, 48, 56, 64)
PATIENCE = 45  # seconds for a child's answer


class Cores:
    """Who runs where. On a small machine everybody runs everywhere."""

    def __init__(self) -> None:
        n = os.cpu_count() or 1
        self.apart = n >= 8
        self.all = range(n)
        self.clients, self.many_clients = ("2,3", "2-9") if self.apart else ("", "")
        self.server = f"4-{n - 1}" if self.apart else ""
        self.busy = range(4, n) if self.apart else ()

    def nic(self, who: int) -> str:
        """The NIC of the server (0) or of the clients (1)."""
        return f"addr=127.0.0.1,verbose=0,poll=busy,cpu={who}" if self.apart else "addr=127.0.0.1,verbose=0"

    @staticmethod
    def on(cores: str) -> List[str]:
        return ["taskset", "-c", cores] if cores else []


CORES = Cores()


class Child:
    """A server in a process of its own: modes/server.py."""

    def __init__(self, mode: str, where: str, package: str):
        paths = [str(HERE / "modes"), package, os.environ.get("PYTHONPATH", "")]
        env = {"GPUWIRE_LIBRARIES": str(BUILT / "lib"), **os.environ, "GPUWIRE_NIC": CORES.nic(0), "CUDA_MODULE_LOADING": "EAGER",
               "CUDA_DEVICE_MAX_CONNECTIONS": "32", "PYTHONPATH": os.pathsep.join(p for p in paths if p), "PYTHONDONTWRITEBYTECODE": "1"}
        self.mode = mode
        self.process = subprocess.Popen([*CORES.on(CORES.server), sys.executable, str(HERE / "modes/server.py"), mode, where], env=env,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)

    def tell(self, do: str, **arguments: Any) -> None:
        self.process.stdin.write(json.dumps({"do": do, **arguments}) + "\n")
        self.process.stdin.flush()

    def hear(self) -> Any:
        if not select.select([self.process.stdout], [], [], PATIENCE)[0]:
            raise RuntimeError(f"{self.mode}: no answer in {PATIENCE} s")
        line = self.process.stdout.readline()
        found = json.loads(line) if line else {"error": "it has ended"}
        if "error" in found:
            raise RuntimeError(f"{self.mode}: {found['error']}")
        return found["result"]

    def ask(self, do: str, **arguments: Any) -> Any:
        self.tell(do, **arguments)
        return self.hear()

    def end(self) -> None:
        self.process.stdin.close()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


class Energy:
    """Joules so far: of the GPU by NVML, of the processors by RAPL; None where there is no counter."""

    def __init__(self, on_gpu: bool) -> None:
        self.gpu: Any = None
        with contextlib.suppress(Exception):
            import pynvml
            if on_gpu:
                pynvml.nvmlInit()
                self.handle, self.gpu = pynvml.nvmlDeviceGetHandleByIndex(0), pynvml
        self.cpus = [p for p in pathlib.Path("/sys/class/powercap").glob("intel-rapl:[0-9]*/energy_uj") if os.access(p, os.R_OK)]

    def read(self) -> Dict[str, Optional[float]]:
        gpu = cpu = None
        with contextlib.suppress(Exception):
            gpu = self.gpu.nvmlDeviceGetTotalEnergyConsumption(self.handle) / 1e3
        with contextlib.suppress(OSError):
            cpu = sum(int(p.read_text()) for p in self.cpus) / 1e6 if self.cpus else None
        return {"gpu_joule": gpu, "cpu_joule": cpu}


@contextlib.contextmanager
def every_core_busy() -> Iterator[None]:
    """Two threads of others on every core that is not the NIC's or the clients'."""
    spin = [sys.executable, "-c", "while True: pass"]
    spinners = [subprocess.Popen([*CORES.on(str(core)), *spin]) for core in CORES.busy or CORES.all for _ in range(2)]
    try:
        time.sleep(0.5)
        yield
    finally:
        for s in spinners:
            s.kill()
        for s in spinners:
            s.wait()


class Bench:
    def __init__(self, args: argparse.Namespace):
        self.args, self.out = args, pathlib.Path(args.out)
        self.on_gpu = args.exec == "gpu"
        self.end = time.monotonic() + args.limit
        self.out.mkdir(parents=True, exist_ok=True)
        self.file = open(self.out / "modes.csv", "w", newline="", encoding="utf-8")
        self.csv = csv.DictWriter(self.file, COLUMNS, restval="")
        self.csv.writeheader()
        self.energy = Energy(self.on_gpu)
        self.children: Dict[str, Child] = {}
        self.failures = 0
        self.package = str(HERE.parent / "python")

    # ---- servers and clients

    def start(self, modes: Sequence[str], names: Sequence[str]) -> None:
        self.names = list(names)
        self.children = {mode: Child(mode, self.args.exec, self.package) for mode in modes}
        for child in self.children.values():
            child.tell("prepare", names=list(names))
        for child in self.children.values():
            child.hear()

    def load(self, url: str, model: str, clients: int, each: int, *how: str) -> Dict[str, Any]:
        """gpuwire load with `clients` clients of `each` requests in flight."""
        with tempfile.NamedTemporaryFile(suffix=".json") as file:
            cores = CORES.many_clients if clients > 16 else CORES.clients
            command = [*CORES.on(cores), self.args.tool, "load", model, "--server", url, "--clients", str(clients), "--slots", str(each),
                       "--concurrency", str(clients * each), "--json", file.name, *how, *([] if self.on_gpu else ["--verify-echo"])]
            done = subprocess.run(command, env={**os.environ, "GPUWIRE_NIC": CORES.nic(1)}, stdout=subprocess.DEVNULL,
                                  stderr=subprocess.PIPE, text=True, timeout=PATIENCE)
            if done.returncode:
                raise RuntimeError(f"gpuwire load: {done.stderr.strip() or done.returncode}")
            return json.load(file)["levels"][0]

    @contextlib.contextmanager
    def served(self, run: str, mode: str, model: str, **options: Any) -> Iterator[Optional[str]]:
        """A model in one mode: its URL; or None: no time is left, or it failed, which is said."""
        if time.monotonic() > self.end or self.args.only not in f"{run} {mode} {model}":
            if self.args.only in f"{run} {mode} {model}":
                print(f"left out for lack of time: {run}, {mode}, {model}", flush=True)
            yield None
            return
        child = self.children["ours" if mode == "http" else mode]
        wanted = {"sessions": 32, "slots": 2, "batches": [1], "delay": 0.0, **options}
        url = None
        with self.contained(child, f"{run}, {mode}, {model}"):
            url = child.ask("serve", name=model, **wanted)
        if url and mode == "http":
            url = url.replace("rdma:", "http:")
        if not url:
            yield None
            return
        with self.contained(child, f"{run}, {mode}, {model}"):
            yield url
            child.ask("stop")

    @contextlib.contextmanager
    def contained(self, child: Child, what: str) -> Iterator[None]:
        """A failure is said, and costs its child: a fresh one takes the place, so that the others go on."""
        try:
            yield
        except (RuntimeError, subprocess.TimeoutExpired) as error:
            self.failures += 1
            print(f"FAILED: {what}: {error}", flush=True)
            child.end()
            self.children[child.mode] = Child(child.mode, self.args.exec, self.package)
            self.children[child.mode].ask("prepare", names=self.names)

    def measure(self, run: str, mode: str, model: str, url: Optional[str], clients: int = 1, each: int = 1, requests: int = 0,
                seconds: float = 0, busy: int = 0) -> Dict[str, Any]:
        if not url:
            return {}
        child = self.children["ours" if mode == "http" else mode]
        how = ["--requests", str(requests)] if requests else \
            ["--window", str(seconds / 3), "--windows", "3", "--stability", "100", "--warmup", "0.3"]
        if run not in ("levels", "bandwidth") or clients < 3:
            self.load(url, model, clients, each, "--requests", str(200 if self.args.quick else 300 * clients))
        before, energy = child.ask("cpu"), self.energy.read()
        parts = child.ask("stats") if mode == "copy" else {}
        level = self.load(url, model, clients, each, *how)
        after, used = child.ask("cpu"), self.energy.read()
        row = {"run": run, "mode": mode, "model": model, "concurrency": clients * each, "busy": busy, "rate": level["requests_per_s"],
               "own_cpu": after["own_s"] - before["own_s"], "nic_cpu": after["nic_s"] - before["nic_s"]}
        for name in ("answered", "failed", "wrong", "seconds"):
            row[name] = level[name]
        for name in ("p50", "p90", "p95", "p99", "p99.9", "max", "mean", "net_in", "wait", "post", "net_out", "server_queue", "server_input",
                     "server_infer", "server_output"):
            row[name] = level[f"{name}_us"]
        row["model_us"] = level["model_us"]
        row.update({k: used[k] - energy[k] for k in used if used[k] is not None and energy[k] is not None})
        row["batch"] = " ".join(f"{k}:{v}" for k, v in level.get("requests_by_batch_size", {}).items())
        if parts:
            self.add_parts(row, parts, child.ask("stats"))
        self.csv.writerow({k: f"{v:.6g}" if isinstance(v, float) else v for k, v in row.items()})
        self.file.flush()
        left = self.end - time.monotonic()
        print(f"{left:4.0f} s  {run:10} {mode:8} {model:18} {clients * each:3} in flight{', busy' if busy else ''}: {row['answered']} answers, "
              f"{row['rate']:.0f}/s, p50 {row['p50']:.0f}, p99 {row['p99']:.0f}, max {row['max']:.0f} us, "
              f"own CPU {row['own_cpu']:.3f} s", flush=True)
        return row

    @staticmethod
    def add_parts(row: Dict[str, Any], before: Dict[str, Any], after: Dict[str, Any]) -> None:
        n = after["requests"] - before["requests"]
        for name in ("in", "run", "out"):
            row[f"copy_{name}"] = (after[f"{name}_ns"] - before[f"{name}_ns"]) / max(n, 1) / 1e3

    # ---- what is measured

    def one_at_a_time(self, modes: Sequence[str], counts: Dict[str, Dict[str, int]], seconds: float) -> None:
        """One request in flight: latencies, CPU time, energy. Counts of requests by model and mode; else seconds."""
        for model, count in counts.items():
            for mode in modes:
                with self.served("alone", mode, model) as url:
                    n = count.get(mode, count.get("", 0))
                    self.measure("alone", mode, model, url, requests=n, seconds=seconds)

    def busy(self, modes: Sequence[str], model: str, seconds: float) -> None:
        with every_core_busy():
            for mode in modes:
                with self.served("busy", mode, model) as url:
                    self.measure("busy", mode, model, url, seconds=seconds, busy=1)

    def sweep(self, run: str, modes: Sequence[str], model: str, levels: Sequence[int], seconds: float, **options: Any) -> None:
        for mode in modes:
            with self.served(run, mode, model, **options) as url:
                for level in levels:
                    self.measure(run, mode, model, url, clients=level, seconds=seconds)

    def cpu_use(self, model: str, seconds: float) -> None:
        """Figure 7: the server's own CPU time while it serves, its owner asleep or waiting as CUDA does by default."""
        for run, mode, spin in (("sleep", "ours", 0), ("spin", "ours", 1), ("polls", "copy", 0)):
            with self.served(run, mode, model) as url:
                if url and spin:
                    self.children["ours"].ask("spin")
                self.measure(run, mode, model, url, seconds=seconds)
                if not url:
                    continue
                child, before, start = self.children[mode], self.children[mode].ask("cpu"), time.monotonic()
                time.sleep(seconds)
                row = {"run": run + "_idle", "mode": mode, "model": model, "seconds": f"{time.monotonic() - start:.3f}"}
                row.update({k: f"{child.ask('cpu')[j] - before[j]:.6g}" for k, j in (("own_cpu", "own_s"), ("nic_cpu", "nic_s"))})
                self.csv.writerow(row)

    def batching(self, model: str, clients: int, seconds: float) -> None:
        rates: Dict[str, float] = {}
        with self.contained(self.children["ours"], f"static batches of {model}"):
            rates = self.children["ours"].ask("static", name=model, sizes=[16, 32, 64], seconds=1.5)
        print(f"static batches of {model} in a loop, samples/s: {rates}", flush=True)
        self.bare["static"] = {"model": model, "rates": rates}
        self.save_bare()
        with self.served("batches", "ours", model, sessions=96, batches=list(SIZES)) as url:
            for each in (1, 2):
                self.measure("batches", "ours", model, url, clients=clients, each=each, seconds=seconds)

    # ---- the whole

    def save_bare(self) -> None:
        with open(self.out / "bare.json", "w", encoding="utf-8") as f:
            json.dump(self.bare, f, indent=1)

    def run_gpu(self) -> None:
        short = self.args.quick
        models = ["identity4k", "identity600k", "resnet50", "squeezenet", "superresolution"]
        others = ["mobilenet_v3", "vit_b_16", "superresolution_x4"]
        self.start([*OURS, "aiohttp"], models if not short else models[:3])
        self.bare = self.children["ours"].ask("bare", names=[*models, *others] if not short else models[:3])
        self.save_bare()
        print(f"bare graphs: {self.bare}", flush=True)
        if short:
            self.quick(models[:3])
            return
        everybody = [*OURS, "http", "aiohttp"]
        counts = {"identity4k": {"": 100000, "http": 30000, "aiohttp": 10000},
                  "identity600k": {"": 100000, "http": 10000, "aiohttp": 2500}}
        self.one_at_a_time(everybody, counts, 0)
        self.one_at_a_time(everybody, {"resnet50": {}}, 7)
        self.busy(everybody, "resnet50", 7)
        self.busy(OURS, "identity4k", 2)
        self.batching("resnet50_half", 64, 5)
        self.sweep("levels", OURS, "squeezenet", (1, 2, 4, 8, 16), 1)
        self.sweep("parts", ["ours", "direct", "queued"], "superresolution", (1,), 2)
        self.sweep("parts", ["copy"], "superresolution", (1,), 2, timed=True)
        self.cpu_use("resnet50", 3)
        for model in [*models[2:], *others]:
            slots = {"sessions": 4} if model == "superresolution_x4" else {}
            self.sweep("bandwidth", ["ours", "copy"], model, (2,), 1.5, **slots)

    def quick(self, models: Sequence[str]) -> None:
        everybody = [*OURS, "http", "aiohttp"]
        self.one_at_a_time(everybody, {"identity4k": {"": 1000}, "resnet50": {"": 500}}, 0)
        self.busy(["ours", "copy"], "resnet50", 1)
        self.sweep("levels", ["ours", "queued"], models[0], (1, 16), 0.6)
        self.sweep("parts", ["copy"], models[1], (1,), 0.6, timed=True)
        self.cpu_use("resnet50", 1)
        self.batching("resnet50_half", 64, 1.5)

    def run_cpu(self) -> None:
        self.start(OURS, [])
        self.bare = {}
        n = 200 if self.args.quick else 5000
        self.one_at_a_time([*OURS, "http"], {"identity4k": {"": n}, "identity600k": {"": n}}, 0)
        self.sweep("levels", OURS, "identity4k", (1, 4), 0.3 if self.args.quick else 2)
        self.busy(OURS, "identity4k", 0.3 if self.args.quick else 2)
        self.save_bare()

    def run(self) -> int:
        try:
            self.run_gpu() if self.on_gpu else self.run_cpu()
        finally:
            for child in self.children.values():
                child.end()
            self.file.close()
        return 1 if self.failures else 0


def main() -> None:
    parser = argparse.ArgumentParser(description="Ways of serving, beside each other.")
    parser.add_argument("what", choices=["run"])
    parser.add_argument("out", help="the folder of the results")
    parser.add_argument("--exec", choices=["gpu", "cpu"], default="gpu")
    parser.add_argument("--quick", action="store_true", help="a short try of every part")
    parser.add_argument("--limit", type=float, default=540, help="seconds after which nothing more begins (default 540)")
    parser.add_argument("--only", default="", help="measure what has this in `RUN MODE MODEL` alone")
    parser.add_argument("--tool", default=str(BUILT / "bin/gpuwire"), help="the gpuwire program")
    args = parser.parse_args()
    sys.exit(Bench(args).run())


main()
