# SPDX-License-Identifier: Apache-2.0
"""Collectives of <gpuwire/collective.h> among ranks that have met, on memory that is given by its address."""
import ctypes
import time
from typing import Any, NamedTuple, Sequence, Tuple

from . import _collective_abi as abi
from ._library import check
from ._meeting import Ranks

_GOODBYE_NS = 5_000_000_000  # what the end of a communicator waits for the other ranks


def _parts(address: int, sizes: Sequence[int], places: Sequence[int]) -> abi.Parts:
    numbers = ctypes.c_uint64 * len(sizes)
    return abi.Parts(address, numbers(*sizes), numbers(*places))


class Settings(NamedTuple):
    """Which communicator. All its members use the same."""
    kind: str  # of executor: "cpu" or "gpu"
    name: str
    members: Tuple[int, ...] = ()  # the ranks that belong to it; none: all
    staging: int = 0  # bytes of its buffers; 0: the library's choice


class Communicator:
    """All calls wait. One thread at a time may make them, all ranks in the same order. Deadlines are of the monotonic clock.

    It has an executor of its own. With one executor for all, collectives of different groups would run one after the other,
    and so wait for each other where ranks start them in different orders.
    """

    def __init__(self, ranks: Ranks, settings: Settings, gpu: int, deadline: int):
        self.size = len(settings.members) or ranks.size
        self.gpu = gpu
        self._base, self._lib = abi.base_library(), abi.library()
        self._exec, self._device, self._comm = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
        opts = abi.ExecOpts(device=gpu)
        members = (ctypes.c_uint32 * len(settings.members))(*settings.members)
        attr = abi.CommAttr(staging=settings.staging, members=members if members else None, size=len(members),
                            name=settings.name.encode())
        try:
            check(self._base.gw_exec_create(settings.kind.encode(), ctypes.byref(opts), ctypes.byref(self._exec)))
            check(self._base.gw_device_open(None, self._exec, ctypes.byref(self._device)))
            check(self._lib.gw_comm_create(ranks.handle, self._device, ctypes.byref(attr), deadline, ctypes.byref(self._comm)))
        except BaseException:
            self._free()
            raise
        self.stream: int = self._base.gw_exec_stream(self._exec) or 0
        """The CUDA stream that collectives run on, on a GPU."""

    def barrier(self, deadline: int) -> None:
        check(self._lib.gw_barrier(self._comm, deadline))

    def broadcast(self, address: int, size: int, root: int, deadline: int) -> None:
        check(self._lib.gw_broadcast(self._comm, address, address, size, abi.BYTE, root, deadline))

    def all_reduce(self, address: int, count: int, dtype: int, op: int, deadline: int) -> None:
        check(self._lib.gw_allreduce(self._comm, address, address, count, dtype, op, deadline))

    def reduce_scatter(self, source: int, target: int, count: int, dtype: int, op: int, deadline: int) -> None:
        check(self._lib.gw_reduce_scatter(self._comm, source, target, count, dtype, op, deadline))

    def all_gather(self, source: int, target: int, size: int, deadline: int) -> None:
        check(self._lib.gw_allgather(self._comm, source, target, size, abi.BYTE, deadline))

    def all_to_all(self, source: int, target: int, size: int, deadline: int) -> None:
        """size bytes from each rank to each."""
        check(self._lib.gw_alltoall(self._comm, source, target, size, abi.BYTE, deadline))

    def exchange(self, source: int, sends: Sequence[int], sends_at: Sequence[int], target: int, receives: Sequence[int],
                 receives_at: Sequence[int], deadline: int) -> None:
        """sends[i] bytes at source + sends_at[i] go to rank i; receives[i] bytes from it come to target + receives_at[i]."""
        out, back = _parts(source, sends, sends_at), _parts(target, receives, receives_at)
        check(self._lib.gw_alltoallv(self._comm, ctypes.byref(out), ctypes.byref(back), abi.BYTE, deadline))

    def close(self, failed: bool) -> None:
        """Ends it. If nothing has failed, all ranks meet once more: until then some may wait for this one's data."""
        if not failed:
            self._lib.gw_barrier(self._comm, time.monotonic_ns() + _GOODBYE_NS)
        self._free()

    def _free(self) -> None:
        steps: Any = (
            (self._comm, self._lib.gw_comm_destroy), (self._device, self._base.gw_device_close),
            (self._exec, self._base.gw_exec_destroy),
        )
        for handle, end in steps:
            if handle:
                end(handle)
                handle.value = None
