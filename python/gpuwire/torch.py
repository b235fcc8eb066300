# SPDX-License-Identifier: Apache-2.0
"""A back end of torch.distributed, on gpuwire's collectives (<gpuwire/collective.h>).

    import torch.distributed, gpuwire.torch
    torch.distributed.init_process_group("gpuwire")

It moves tensors in host memory and on GPUs. Ranks meet through PyTorch's own store, so torchrun and every init_method work.
When a rank dies, the others' calls fail: with gpuwire.Disconnected, or as a RuntimeError that says the same.
"""
import atexit
import collections
import datetime
import inspect
import itertools
import os
import time
import weakref
from typing import Any, Callable, Deque, Dict, List, Optional, Sequence, Tuple

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import (AllgatherOptions, AllreduceCoalescedOptions, AllreduceOptions, AllToAllOptions,
                                        BarrierOptions, BroadcastOptions, GatherOptions, ProcessGroup, ReduceOptions,
                                        ReduceScatterOptions, ScatterOptions)

from . import _collective_abi as abi
from . import errors
from ._communicator import Communicator
from ._engine import Engine
from ._meeting import Ranks
from ._reduction import Reduction
from ._work import All, Work

Tensors = List[torch.Tensor]
_DEVICES = ("cpu", "cuda")
_CHANNEL_STAGING = 4 << 20  # bytes
_groups: "weakref.WeakSet[GpuwireProcessGroup]" = weakref.WeakSet()
_serial = itertools.count()
# Of a work that C++ code has asked for, older PyTorch (seen: 1.13) keeps only the C++ half. DistributedDataParallel asks for these
# operations, and uses their works at once.
_KEPT = 16 if tuple(map(int, torch.__version__.split(".")[:2])) < (2, 8) else 0


# ---- tensors --------------------------------------------------------------------------------------------------------

def _bytes(tensor: torch.Tensor) -> int:
    return tensor.numel() * tensor.element_size()


def _overlap(a: torch.Tensor, b: torch.Tensor) -> bool:
    return a.data_ptr() < b.data_ptr() + _bytes(b) and b.data_ptr() < a.data_ptr() + _bytes(a)


def _apart(tensor: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    """Inputs that a collective does not overwrite while it still sends them: the tensor, or a copy."""
    return tensor.clone() if _overlap(tensor, target) else tensor


def _one(tensors: Sequence[Any], what: str) -> Any:
    if len(tensors) != 1:
        raise errors.Invalid(f"gpuwire: {what}: must be one tensor, not {len(tensors)}")
    return tensors[0]


def _dense(tensor: torch.Tensor) -> torch.Tensor:
    """The same elements one after the other: the tensor itself, or a copy."""
    if tensor.layout != torch.strided:
        raise errors.Unsupported(f"gpuwire: a tensor of layout {tensor.layout}: only dense tensors can be sent")
    return tensor.contiguous()


def _room(tensor: torch.Tensor) -> torch.Tensor:
    """Where the elements of a result may be written: the tensor itself, or memory that _give copies from."""
    return tensor if tensor.is_contiguous() else torch.empty(tensor.shape, dtype=tensor.dtype, device=tensor.device)


def _give(tensor: torch.Tensor, room: torch.Tensor) -> None:
    if room is not tensor:
        tensor.copy_(room)


def _alike(tensors: Sequence[torch.Tensor], what: str) -> None:
    for tensor in tensors:
        if tensor.dtype != tensors[0].dtype or tensor.device != tensors[0].device:
            raise errors.Invalid(f"gpuwire: {what}: all tensors must have one element type and lie on one device")


def _flat(tensors: Sequence[torch.Tensor], what: str) -> torch.Tensor:
    """One tensor with the elements of all, one after the other."""
    _alike(tensors, what)
    return torch.cat([_dense(tensor).view(-1) for tensor in tensors])


def _give_pieces(tensors: Sequence[torch.Tensor], flat: torch.Tensor) -> None:
    at = 0
    for tensor in tensors:
        tensor.copy_(flat[at:at + tensor.numel()].view(tensor.shape))
        at += tensor.numel()


def _fits(ok: bool, what: str) -> None:
    if not ok:
        raise errors.Invalid(f"gpuwire: {what}: the sizes of inputs and outputs do not fit each other")


# ---- what the operations are made of --------------------------------------------------------------------------------

def _ends(sizes: Sequence[int]) -> List[int]:
    """Where pieces of these sizes begin, one after the other."""
    return [0, *itertools.accumulate(sizes)][:-1]


def _exchange(ranks: Communicator, source: Optional[torch.Tensor], sends: Sequence[int], target: Optional[torch.Tensor],
              receives: Sequence[int], deadline: int) -> None:
    """Every rank sends sends[i] bytes of source to rank i, and gets receives[i] bytes from it into target."""
    ranks.exchange(source.data_ptr() if source is not None else 0, sends, _ends(sends),
                   target.data_ptr() if target is not None else 0, receives, _ends(receives), deadline)


def _reduce_all(ranks: Communicator, how: Reduction, tensor: torch.Tensor, deadline: int) -> None:
    view = how.view(tensor)
    if not how.step:
        ranks.all_reduce(view.data_ptr(), view.numel(), how.dtype(view), how.op, deadline)
    else:
        parts = view.new_empty((ranks.size, *view.shape))
        ranks.all_gather(view.data_ptr(), parts.data_ptr(), _bytes(view), deadline)
        _put_together(how, parts, view)
    how.finish(view)


def _reduce_parts(ranks: Communicator, how: Reduction, tensor: torch.Tensor, target: torch.Tensor, deadline: int) -> None:
    """tensor has a part for each rank, each as large as target."""
    view, result = how.view(tensor), how.view(target)
    if not how.step:
        ranks.reduce_scatter(view.data_ptr(), result.data_ptr(), result.numel(), how.dtype(view), how.op, deadline)
    else:
        parts = view.new_empty((ranks.size, *result.shape))
        sizes = [_bytes(result)] * ranks.size
        _exchange(ranks, view, sizes, parts, sizes, deadline)
        _put_together(how, parts, result)
    how.finish(result)


def _put_together(how: Reduction, parts: torch.Tensor, target: torch.Tensor) -> None:
    target.copy_(parts[0])
    for part in parts[1:]:
        how.step(target, part)


# ---- the group ------------------------------------------------------------------------------------------------------

class GpuwireProcessGroup(ProcessGroup):
    """A group of ranks. torch.distributed makes it; programs use the functions of torch.distributed."""

    def __init__(self, store: Any, rank: int, size: int, timeout: datetime.timedelta):
        super().__init__(rank, size)
        self._place = (rank, size)
        self._timeout = timeout.total_seconds()
        self._ranks = Ranks(store, rank, size, time.monotonic_ns() + int(self._timeout * 1e9))
        self._engine = Engine(self._ranks, "all")
        self._channels: Dict[Tuple[int, int, int], Engine] = {}
        self._batch: Optional[List[Work]] = None
        self._kept: Deque[Work] = collections.deque(maxlen=_KEPT)
        self._calls = 0
        self._own_name = self._own_description = ""
        self._process = os.getpid()
        self.serial = next(_serial)
        _groups.add(self)

    # ---- what torch.distributed asks of a group

    def getBackendName(self) -> str:
        return "gpuwire"

    def setGroupName(self, name: str) -> None:
        self._own_name = name

    def getGroupName(self) -> str:
        return self._own_name

    def setGroupDesc(self, description: str) -> None:
        self._own_description = description

    def getGroupDesc(self) -> str:
        return self._own_description

    @property
    def _device_types(self) -> List[torch.device]:
        return [torch.device(kind) for kind in _DEVICES if kind == "cpu" or torch.cuda.is_available()]

    def _set_sequence_number_for_group(self) -> None:
        self._calls = 0

    def _get_sequence_number_for_group(self) -> int:
        return self._calls

    def set_timeout(self, timeout: datetime.timedelta) -> None:
        self._timeout = timeout.total_seconds()

    def shutdown(self) -> None:
        """Ends the group on this rank, when the collectives that are under way have ended. The ranks end their ways to each
        other in one order, because they meet once more in each. In a process that was forked off it does nothing."""
        if os.getpid() != self._process:
            return
        engines = [self._engine, *(engine for _, engine in sorted(self._channels.items()))]
        if all([engine.close() for engine in engines]):
            self._ranks.leave()

    def abort(self) -> None:
        """Ends the group on this rank at once."""
        for engine in (self._engine, *self._channels.values()):
            engine.close(at_once=True)

    def __del__(self) -> None:
        if hasattr(self, "serial"):  # else it was never whole
            self.shutdown()

    def _run(self, body: Callable[[Communicator, int], None], results: Sequence[torch.Tensor], opts: Any,
             engine: Optional[Engine] = None, device: Optional[torch.device] = None) -> Work:
        timeout = opts.timeout.total_seconds() if opts is not None else -1.0
        self._calls += engine is None
        device = device or (results[0].device if results else torch.device("cpu"))
        work = (engine or self._engine).run(body, results, device, timeout if timeout >= 0 else self._timeout,
                                            waits=not getattr(opts, "asyncOp", True))
        if self._batch is not None:
            self._batch.append(work)
        return work

    def _keep(self, work: Work) -> Work:
        self._kept.append(work)
        return work

    def _start_coalescing(self, device: Optional[torch.device] = None) -> None:
        self._batch = []

    def _end_coalescing(self, device: Optional[torch.device] = None) -> Work:
        works, self._batch = self._batch or [], None
        return All(works)

    # ---- reductions

    def allreduce(self, tensors: Tensors, opts: Any = AllreduceOptions()) -> Work:
        tensor = _one(tensors, "all_reduce")
        how = Reduction(opts.reduceOp, tensor.dtype, self._place[1])
        room = _dense(tensor)

        def body(ranks: Communicator, deadline: int) -> None:
            _reduce_all(ranks, how, room, deadline)
            _give(tensor, room)
        return self._keep(self._run(body, [tensor], opts))

    def allreduce_coalesced(self, tensors: Tensors, opts: Any = AllreduceCoalescedOptions()) -> Work:
        how = Reduction(opts.reduceOp, tensors[0].dtype, self._place[1])
        flat = _flat(tensors, "all_reduce")

        def body(ranks: Communicator, deadline: int) -> None:
            _reduce_all(ranks, how, flat, deadline)
            _give_pieces(tensors, flat)
        return self._run(body, tensors, opts)

    def reduce(self, tensors: Tensors, opts: Any = ReduceOptions()) -> Work:
        tensor = _one(tensors, "reduce")
        how = Reduction(opts.reduceOp, tensor.dtype, self._place[1])
        room = _dense(tensor).clone()  # the tensor of every rank but the root stays as it is
        is_root = opts.rootRank == self._place[0]

        def body(ranks: Communicator, deadline: int) -> None:
            _reduce_all(ranks, how, room, deadline)
            if is_root:
                tensor.copy_(room)
        return self._run(body, [tensor], opts)

    def reduce_scatter(self, outputs: Tensors, inputs: List[Tensors], opts: Any = ReduceScatterOptions()) -> Work:
        output, parts = _one(outputs, "reduce_scatter"), _one(inputs, "reduce_scatter")
        rank, size = self._place
        _fits(len(parts) == size and parts[rank].numel() == output.numel(), "reduce_scatter")
        _alike([output, *parts], "reduce_scatter")
        if any(part.numel() != output.numel() for part in parts):
            return self._reduce_scatter_uneven(output, parts, opts)
        return self._reduce_scatter_flat(output, _flat(parts, "reduce_scatter"), opts)

    def _reduce_scatter_uneven(self, output: torch.Tensor, parts: Tensors, opts: Any) -> Work:
        rank = self._place[0]
        how = Reduction(opts.reduceOp, output.dtype, self._place[1])
        flat = _flat(parts, "reduce_scatter")

        def body(ranks: Communicator, deadline: int) -> None:
            _reduce_all(ranks, how, flat, deadline)
            at = sum(part.numel() for part in parts[:rank])
            output.copy_(flat[at:at + output.numel()].view(output.shape))
        return self._run(body, [output], opts)

    def _reduce_scatter_flat(self, output: torch.Tensor, flat: torch.Tensor, opts: Any) -> Work:
        _fits(flat.numel() == output.numel() * self._place[1], "reduce_scatter")
        _alike([output, flat], "reduce_scatter")
        how = Reduction(opts.reduceOp, output.dtype, self._place[1])
        dense, room = _dense(flat), _room(output)
        if _overlap(dense, room):
            room = torch.empty_like(room)

        def body(ranks: Communicator, deadline: int) -> None:
            _reduce_parts(ranks, how, dense, room, deadline)
            _give(output, room)
        return self._run(body, [output], opts)

    def _reduce_scatter_base(self, output: torch.Tensor, input: torch.Tensor, opts: Any = ReduceScatterOptions()) -> Work:
        return self._reduce_scatter_flat(output, input, opts)

    def reduce_scatter_tensor_coalesced(self, outputs: Tensors, inputs: Tensors, opts: Any = ReduceScatterOptions()) -> Work:
        return All([self._reduce_scatter_flat(o, i, opts) for o, i in zip(outputs, inputs)])

    # ---- gathering and scattering

    def _allgather_base(self, output: torch.Tensor, input: torch.Tensor, opts: Any = AllgatherOptions()) -> Work:
        _fits(output.numel() == input.numel() * self._place[1], "all_gather")
        _alike([output, input], "all_gather")
        dense, room = _dense(input), _room(output)
        if dense.data_ptr() != room.data_ptr() + self._place[0] * _bytes(dense):  # in place, as FSDP does it
            dense = _apart(dense, room)

        def body(ranks: Communicator, deadline: int) -> None:
            ranks.all_gather(dense.data_ptr(), room.data_ptr(), _bytes(dense), deadline)
            _give(output, room)
        return self._run(body, [output], opts)

    def allgather(self, outputs: List[Tensors], inputs: Tensors, opts: Any = AllgatherOptions()) -> Work:
        parts, dense = _one(outputs, "all_gather"), _dense(_one(inputs, "all_gather"))
        rank, size = self._place
        _fits(len(parts) == size and parts[rank].numel() == dense.numel(), "all_gather")
        _alike([dense, *parts], "all_gather")
        sizes = [_bytes(part) for part in parts]
        flat = torch.empty(sum(part.numel() for part in parts), dtype=dense.dtype, device=dense.device)

        def body(ranks: Communicator, deadline: int) -> None:
            if len(set(sizes)) == 1:
                ranks.all_gather(dense.data_ptr(), flat.data_ptr(), sizes[0], deadline)
            else:  # to each rank the same bytes, from the same place
                ranks.exchange(dense.data_ptr(), [sizes[rank]] * size, [0] * size, flat.data_ptr(), sizes, _ends(sizes), deadline)
            _give_pieces(parts, flat)
        return self._keep(self._run(body, parts, opts))

    def allgather_coalesced(self, outputs: List[Tensors], inputs: Tensors, opts: Any = AllgatherOptions()) -> Work:
        return All([self.allgather([[ranks[i] for ranks in outputs]], [tensor], opts) for i, tensor in enumerate(inputs)])

    def allgather_into_tensor_coalesced(self, outputs: Tensors, inputs: Tensors, opts: Any = AllgatherOptions()) -> Work:
        return All([self._allgather_base(o, i, opts) for o, i in zip(outputs, inputs)])

    def broadcast(self, tensors: Tensors, opts: Any = BroadcastOptions()) -> Work:
        tensor = tensors[opts.rootTensor]
        rank, root = self._place[0], opts.rootRank
        room = _dense(tensor) if rank == root else _room(tensor)

        def body(ranks: Communicator, deadline: int) -> None:
            ranks.broadcast(room.data_ptr(), _bytes(room), root, deadline)
            if rank != root:
                _give(tensor, room)
        return self._keep(self._run(body, [tensor], opts))

    def gather(self, outputs: List[Tensors], inputs: Tensors, opts: Any = GatherOptions()) -> Work:
        dense, root = _dense(_one(inputs, "gather")), opts.rootRank
        rank, size = self._place
        parts = _one(outputs, "gather") if rank == root else []
        _fits(len(parts) == (size if rank == root else 0), "gather")
        _alike([dense, *parts], "gather")
        flat = torch.empty(sum(part.numel() for part in parts), dtype=dense.dtype, device=dense.device)
        sends = [_bytes(dense) if i == root else 0 for i in range(size)]
        receives = [_bytes(part) for part in parts] or [0] * size

        def body(ranks: Communicator, deadline: int) -> None:
            ranks.exchange(dense.data_ptr(), sends, [0] * size, flat.data_ptr(), receives, _ends(receives), deadline)
            _give_pieces(parts, flat)
        return self._run(body, parts or [dense], opts)

    def scatter(self, outputs: Tensors, inputs: List[Tensors], opts: Any = ScatterOptions()) -> Work:
        output, root = _one(outputs, "scatter"), opts.rootRank
        rank, size = self._place
        parts = _one(inputs, "scatter") if rank == root else []
        _fits(len(parts) == (size if rank == root else 0), "scatter")
        _alike([output, *parts], "scatter")
        flat, room = _flat(parts, "scatter") if parts else None, _room(output)
        sends = [_bytes(part) for part in parts] or [0] * size
        receives = [_bytes(output) if i == root else 0 for i in range(size)]

        def body(ranks: Communicator, deadline: int) -> None:
            _exchange(ranks, flat, sends, room, receives, deadline)
            _give(output, room)
        return self._run(body, [output], opts)

    # ---- all to all

    def barrier(self, opts: Any = BarrierOptions()) -> Work:
        return self._run(lambda ranks, deadline: ranks.barrier(deadline), [], opts)

    def alltoall(self, outputs: Tensors, inputs: Tensors, opts: Any = AllToAllOptions()) -> Work:
        size = self._place[1]
        _fits(len(outputs) == size and len(inputs) == size, "all_to_all")
        _alike([*inputs, *outputs], "all_to_all")
        source = _flat(inputs, "all_to_all")
        target = torch.empty(sum(part.numel() for part in outputs), dtype=source.dtype, device=source.device)
        sends, receives = [_bytes(part) for part in inputs], [_bytes(part) for part in outputs]

        def body(ranks: Communicator, deadline: int) -> None:
            _exchange(ranks, source, sends, target, receives, deadline)
            _give_pieces(outputs, target)
        return self._run(body, outputs, opts)

    def alltoall_base(self, output: torch.Tensor, input: torch.Tensor, output_splits: List[int], input_splits: List[int],
                      opts: Any = AllToAllOptions()) -> Work:
        _alike([output, input], "all_to_all")
        room = _room(output)
        dense = _apart(_dense(input), room)
        sends, receives = self._split(dense, input_splits), self._split(room, output_splits)
        _fits(bool(input_splits or output_splits) or _bytes(dense) == _bytes(room), "all_to_all")
        equal = not input_splits and not output_splits  # then they are on every rank

        def body(ranks: Communicator, deadline: int) -> None:
            if equal:
                ranks.all_to_all(dense.data_ptr(), room.data_ptr(), sends[0], deadline)
            else:
                _exchange(ranks, dense, sends, room, receives, deadline)
            _give(output, room)
        return self._run(body, [output], opts)

    def _split(self, tensor: torch.Tensor, rows: Sequence[int]) -> List[int]:
        """The bytes of each rank's rows. No rows given: the same number for each rank."""
        size = self._place[1]
        have = tensor.size(0) if tensor.dim() else 0
        if not rows:
            _fits(have % size == 0, "all_to_all")
            rows = [have // size] * size
        _fits(len(rows) == size and sum(rows) == have and min(rows) >= 0, "all_to_all")
        return [n * (_bytes(tensor) // have) if have else 0 for n in rows]

    # ---- one to one: through the host's memory, also from and to a GPU

    def _channel(self, source: int, target: int, tag: int) -> Engine:
        """The way from one rank to another: a group of the two. Each direction and tag has its own, and its own order."""
        engine = self._channels.get((source, target, tag))
        if not engine:
            engine = Engine(self._ranks, f"{source}-{target}-{tag:x}", (source, target), _CHANNEL_STAGING)
            self._channels[source, target, tag] = engine
        return engine

    def send(self, tensors: Tensors, target: int, tag: int) -> Work:
        _fits(target != self._place[0], "send to itself")
        dense = _dense(_one(tensors, "send")).cpu()

        def body(ranks: Communicator, deadline: int) -> None:
            _exchange(ranks, dense, [0, _bytes(dense)], None, [0, 0], deadline)
        return self._run(body, [dense], None, self._channel(self._place[0], target, tag))

    def recv(self, tensors: Tensors, source: int, tag: int) -> Work:
        _fits(source != self._place[0], "receive from itself")
        tensor = _one(tensors, "recv")
        on_host = tensor.device.type == "cpu"
        room = _room(tensor) if on_host else torch.empty(tensor.shape, dtype=tensor.dtype)
        earlier = None if on_host else torch.cuda.current_stream(tensor.device).record_event()

        def body(ranks: Communicator, deadline: int) -> None:
            _exchange(ranks, None, [0, 0], room, [_bytes(room), 0], deadline)
            if earlier:
                earlier.synchronize()  # the program may still have been reading the tensor
            _give(tensor, room)
        return self._run(body, [tensor], None, self._channel(source, self._place[0], tag), room.device)

    def recv_anysource(self, tensors: Tensors, tag: int) -> Work:
        raise errors.Unsupported("gpuwire: recv without a source: name the rank to receive from")


def _create(store: Any, rank: int, size: int, timeout: datetime.timedelta) -> GpuwireProcessGroup:
    abi.library()  # if it is missing, say so now
    return GpuwireProcessGroup(store, rank, size, timeout)


def _register() -> None:
    register = dist.Backend.register_backend
    # Before version 2, PyTorch knew nothing of a back end's devices.
    knows_devices = "devices" in inspect.signature(register).parameters
    register("gpuwire", _create, **({"devices": list(_DEVICES)} if knows_devices else {}))


@atexit.register
def _end() -> None:
    """For programs that destroy no groups. No thread may be in them when Python takes itself down."""
    for group in sorted(_groups, key=lambda group: group.serial):
        group.shutdown()


_register()
