# SPDX-License-Identifier: Apache-2.0
"""Runs a group's collectives beside the program, one after the other, as every rank must."""
import queue
import threading
import time
from typing import Any, Callable, Dict, NamedTuple, Optional, Sequence, Tuple

import torch

from . import errors
from ._communicator import Communicator, Settings
from ._meeting import Ranks
from ._work import Work

Body = Callable[[Communicator, int], None]  # the communicator, and the deadline in nanoseconds of the monotonic clock
_CLOSE_S = 10.0  # what closing waits for collectives that are under way


class _Job(NamedTuple):
    body: Body
    device: torch.device
    ready: Any  # a CUDA event: the inputs are there when it has happened. None: they are there
    deadline: int
    work: Work


class Engine:
    """The collectives of one group of ranks. A thread of its own runs them. If the caller waits anyway, it runs them itself.

    The first error is the last: the ranks do not agree any more on what comes next. Every later call says so.
    """

    def __init__(self, ranks: Ranks, name: str, members: Tuple[int, ...] = (), staging: int = 0):
        self._ranks = ranks
        self._name = name
        self._members = members
        self._communicators: Dict[str, Tuple[Communicator, Any]] = {}
        self._staging = staging
        self._jobs: "queue.SimpleQueue[Optional[_Job]]" = queue.SimpleQueue()
        self._turn = threading.Lock()  # who holds it runs a job, and may use the communicators
        self._lock = threading.Lock()  # of what follows
        self._pending = 0
        self._thread: Optional[threading.Thread] = None
        self._failure = ""
        self._closed = False

    def run(self, body: Body, results: Sequence[torch.Tensor], device: torch.device, timeout: float, waits: bool) -> Work:
        """Starts a job. waits: the caller will wait for it at once."""
        ready = None
        if device.type == "cuda":
            ready = torch.cuda.Event()
            ready.record(torch.cuda.current_stream(device))
        work = Work(results)
        job = _Job(body, device, ready, time.monotonic_ns() + int(timeout * 1e9), work)
        with self._lock:
            if self._closed:
                raise errors.Closing("gpuwire: this process group has been destroyed")
            alone = waits and not self._pending
            self._pending += 1
            if alone:
                self._turn.acquire()  # nothing is pending, so it is free. Taken here, it keeps the order of calls
            else:
                self._start_thread()
                self._jobs.put(job)
        if not alone:
            return work
        try:
            self._do(job)
        finally:
            self._turn.release()
            self._count_down()
        work.finish()
        return work

    def _count_down(self) -> None:
        with self._lock:
            self._pending -= 1

    def _start_thread(self) -> None:
        if not self._thread:
            self._thread = threading.Thread(target=self._serve, name=f"gpuwire-{self._name}", daemon=True)
            self._thread.start()

    def _serve(self) -> None:
        while True:
            job = self._jobs.get()
            if job is None:
                return
            error: Optional[BaseException] = None
            with self._turn:
                try:
                    self._do(job)
                except BaseException as raised:  # the work's reader gets it
                    error = raised
            self._count_down()
            job.work.finish(error)
            del job, error  # and the tensors that they hold

    def _do(self, job: _Job) -> None:
        if self._failure:
            raise errors.Disconnected(f"gpuwire: an earlier call of this group has failed: {self._failure}")
        try:
            ranks, stream = self._communicator(job.device, job.deadline)
            if stream is not None:
                with torch.cuda.device(job.device), torch.cuda.stream(stream):
                    stream.wait_event(job.ready)  # the program's own streams go on
                    job.body(ranks, job.deadline)
                    stream.synchronize()
            else:
                job.body(ranks, job.deadline)
        except BaseException as error:
            self._failure = str(error) or type(error).__name__
            raise

    def _communicator(self, device: torch.device, deadline: int) -> Tuple[Communicator, Any]:
        """For each kind of device the ranks make one, when they first need it. Its CUDA stream, where it has one."""
        kind, gpu = ("gpu", device.index) if device.type == "cuda" else ("cpu", 0)
        if kind not in self._communicators:
            settings = Settings(kind, f"{self._ranks.name} {self._name} {kind}", self._members, self._staging)
            ranks = Communicator(self._ranks, settings, gpu, deadline)
            stream = torch.cuda.ExternalStream(ranks.stream, device) if kind == "gpu" else None
            self._communicators[kind] = (ranks, stream)
        ranks, stream = self._communicators[kind]
        if ranks.gpu != gpu:
            raise errors.Unsupported(f"gpuwire: a tensor on cuda:{gpu}, in a group that uses cuda:{ranks.gpu}: must be one GPU")
        return ranks, stream

    def close(self, at_once: bool = False) -> bool:
        """Ends it. Collectives that are under way have some seconds to end, or none. False: one goes on until its deadline."""
        with self._lock:
            if not self._closed and self._thread:
                self._jobs.put(None)
            self._closed = True
        if not at_once and self._thread and self._thread is not threading.current_thread():
            self._thread.join(_CLOSE_S)
        if not self._turn.acquire(blocking=False):
            return False
        for ranks, _ in self._communicators.values():
            ranks.close(failed=at_once or bool(self._failure))
        self._communicators.clear()
        self._turn.release()
        return True
