#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A server in one mode, for bench/serve_modes.py: server.py MODE EXEC. It reads commands from standard input, a JSON object on each
line, and writes an answer to each. Modes: ours (gpuwire.Server), copy, direct, queued (modes.h), aiohttp."""
import ctypes
import json
import os
import sys
import tempfile
import threading
import time
import traceback
from typing import Any, Dict, List, Optional

import models

ANSWERS = os.fdopen(os.dup(1), "w", buffering=1)
os.dup2(2, 1)  # what libraries print is no answer


def cpu_times() -> Dict[str, float]:
    """Seconds of this process's threads so far: the software NIC's, and all others, ended ones included."""
    nic = 0.0
    for task in os.listdir("/proc/self/task"):
        try:
            with open(f"/proc/self/task/{task}/comm") as f:
                name = f.read()
            if name.startswith("gw-nic"):
                nic += time.clock_gettime(~int(task) << 3 | 6)  # the thread's CPU clock, by the kernel's numbering
        except OSError:
            continue  # it has ended
    return {"own_s": time.clock_gettime(time.CLOCK_PROCESS_CPUTIME_ID) - nic, "nic_s": nic}


class Mode:
    """One mode of serving; at most one model at a time."""

    def __init__(self, on_gpu: bool):
        self.on_gpu = on_gpu
        self.made: Dict[str, models.Made] = {}

    def model(self, name: str) -> Any:
        if name not in self.made:
            self.made[name] = models.MODELS[name]()
        return self.made[name]

    def prepare(self, names: List[str]) -> None:
        """Does early what takes long."""
        for name in names if self.on_gpu else []:
            self.model(name)

    def stats(self) -> Dict[str, Any]:
        return {}


class Ours(Mode):
    def __init__(self, on_gpu: bool):
        super().__init__(on_gpu)
        self.server: Any = None
        self.spinner: Optional[threading.Thread] = None

    def prepare(self, names: List[str]) -> None:
        super().prepare(names)
        if not self.on_gpu:
            return
        import torch
        from gpuwire.capture import capture
        for name in names:  # libraries load their kernels
            capture(*self.model(name), (1,), name)
        torch.cuda.synchronize()

    def serve(self, name: str, sessions: int, slots: int, batches: List[int], delay: float, **_: Any) -> str:
        import gpuwire
        self.server = gpuwire.Server(port=0, exec="gpu" if self.on_gpu else "cpu", sessions=sessions, slots=slots, model_memory=32 << 30)
        if self.on_gpu:
            self.server.add(*self.model(name), name=name, batch_sizes=batches, max_delay=delay)
        else:
            with tempfile.TemporaryDirectory() as folder:
                self.server.add_file(models.write_identity(folder, name), name=name)
        self.name = name
        return self.server.url

    def spin(self) -> None:
        """A thread waits for the GPU as CUDA does by default."""
        import torch
        self.spinner = threading.Thread(target=torch.cuda.synchronize)
        self.spinner.start()

    def stats(self) -> Dict[str, Any]:
        return self.server.stats(self.name)

    def stop(self) -> None:
        self.server.close()
        if self.spinner:
            self.spinner.join()
            self.spinner = None


class ByCpu(Mode):
    """A mode of modes.h."""

    def __init__(self, on_gpu: bool, kind: str):
        super().__init__(on_gpu)
        import abi
        self.abi, self.kind, self.lib = abi, abi.KINDS[kind], abi.library()
        self.captured: Dict[str, Any] = {}
        self.handle = ctypes.c_void_p()

    def capture(self, name: str) -> Any:
        from gpuwire import capture, tensors
        if name in self.captured:
            return self.captured[name]
        if self.on_gpu:
            self.captured[name] = capture.capture(*self.model(name), (1,), name)
        else:
            shape = (-1, *models.SHAPES[name][1:])
            info = [tensors.TensorInfo(n, "FP32", shape, True) for n in ("x", "y")]
            self.captured[name] = capture.Captured(0, info[:1], info[1:], [capture.Variant(1, 0, [0], [0], None)])
        return self.captured[name]

    def prepare(self, names: List[str]) -> None:
        for name in names:
            self.capture(name)
        if self.on_gpu:
            import torch
            torch.cuda.synchronize()

    def serve(self, name: str, sessions: int, slots: int, timed: bool = False, **_: Any) -> str:
        from gpuwire.server import _describe
        described, self.keep = _describe(self.capture(name), name)
        opts = self.abi.Opts(size=ctypes.sizeof(self.abi.Opts), kind=self.kind, on_cpu=not self.on_gpu, sessions=sessions, slots=slots,
                             timed=timed, name=name.encode())
        self.abi.check(self.lib, self.lib.modes_start(ctypes.byref(opts), ctypes.byref(described), ctypes.byref(self.handle)))
        return f"rdma://127.0.0.1:{self.lib.modes_port(self.handle)}"

    def stats(self) -> Dict[str, Any]:
        times = self.abi.Times()
        self.lib.modes_query(self.handle, ctypes.byref(times))
        return {name: getattr(times, name) for name, _ in times._fields_}

    def stop(self) -> None:
        self.abi.check(self.lib, self.lib.modes_stop(self.handle))
        self.handle = ctypes.c_void_p()


class Aiohttp(Mode):
    """PyTorch behind aiohttp, in a process of its own with threads of its own."""

    def prepare(self, names: List[str]) -> None:
        import aiohttp_server
        self.made_graphs = {name: aiohttp_server.Graph(*self.model(name)) for name in names}

    def serve(self, name: str, **_: Any) -> str:
        import aiohttp_server
        self.server = aiohttp_server.Server(name, self.made_graphs[name])
        return self.server.url

    def stop(self) -> None:
        self.server.close()


def timed(graph: Any, replays: int, times: int) -> float:
    """Microseconds of a replay: the median of `times` runs."""
    import torch
    found = []
    for _ in range(times):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        for _ in range(replays):
            graph.replay()
        end.record()
        end.synchronize()
        found.append(begin.elapsed_time(end) * 1e3 / replays)
    return sorted(found)[times // 2]


def bare(mode: Mode, names: List[str]) -> Dict[str, float]:
    """Each model's graph alone, in microseconds: `us`, one replay at a time, by CUDA's events; `behind_us`, of twenty, one after
    the other, which leaves out what a launch costs the CPU. And its tensors' bytes."""
    import torch
    from gpuwire.capture import capture
    found: Dict[str, Any] = {}
    for name in names:
        captured = capture(*mode.model(name), (1,), name)
        graph, fixed, results = captured.variants[0].keep
        graph.instantiate()
        bytes_of = [sum(t.numel() * t.element_size() for t in some) for some in (fixed, results)]
        timed(graph, 20, 10)  # the processor's clock rises
        found[name] = {"us": timed(graph, 1, 300), "behind_us": timed(graph, 20, 30), "in": bytes_of[0], "out": bytes_of[1]}
    return found


def static(mode: Mode, name: str, sizes: List[int], seconds: float) -> Dict[int, float]:
    """Samples a second of each batch size's graph, replayed in a loop by the CPU."""
    import torch
    from gpuwire.capture import capture
    rates = {}
    for variant in capture(*mode.model(name), sizes, name).variants:
        graph = variant.keep[0]
        graph.instantiate()
        for _ in range(5):
            graph.replay()
        torch.cuda.synchronize()
        start, runs = time.monotonic(), 0
        while time.monotonic() - start < seconds:
            for _ in range(10):
                graph.replay()
            torch.cuda.synchronize()
            runs += 10
        rates[variant.rows] = runs * variant.rows / (time.monotonic() - start)
    return rates


def answer(mode: Mode, command: Dict[str, Any]) -> Any:
    what, rest = command.pop("do"), command
    if what in ("bare", "static"):
        return globals()[what](mode, **rest)
    return cpu_times() if what == "cpu" else getattr(mode, what)(**rest)


def main() -> None:
    kind, on_gpu = sys.argv[1], sys.argv[2] == "gpu"
    mode: Any = {"ours": Ours, "aiohttp": Aiohttp}[kind](on_gpu) if kind in ("ours", "aiohttp") else ByCpu(on_gpu, kind)
    for line in sys.stdin:
        try:
            result = {"result": answer(mode, json.loads(line))}
        except BaseException as error:
            traceback.print_exc()
            result = {"error": f"{type(error).__name__}: {error}"}
        ANSWERS.write(json.dumps(result) + "\n")


main()
