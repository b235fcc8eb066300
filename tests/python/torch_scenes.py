# SPDX-License-Identifier: Apache-2.0
"""What one rank of torch_backend.py does. `ours` is the group under test, `gloo` the same ranks in PyTorch's own back end."""
import datetime
import os
import signal
import time

import torch
import torch.distributed as dist

import gpuwire
import gpuwire.torch

FLOATS = [torch.float32, torch.float16, torch.bfloat16, torch.float64]
INTEGERS = [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64]
DTYPES = [*FLOATS, *INTEGERS, torch.bool]
COUNTS = [0, 1, 7, 1000, 70001]


def same(got, want, what):
    assert got.dtype == want.dtype, f"{what}: {got.dtype}, not {want.dtype}"
    assert got.shape == want.shape, f"{what}: {tuple(got.shape)}, not {tuple(want.shape)}"
    assert torch.equal(got, want), f"{what}: rank {dist.get_rank()} has {got.flatten()[:8]}, not {want.flatten()[:8]}"


def values(shape, dtype, rank, most=5):
    """Small whole numbers, others on each rank."""
    count = int(torch.tensor(shape).prod()) if shape else 1
    x = (torch.arange(count) * (rank + 2) + 3 * rank) % most
    return (x % 2 if dtype == torch.bool else x).reshape(shape).to(dtype)


def _wide(tensor):
    """A copy in an element type that gloo has."""
    return tensor.to(torch.float64 if tensor.is_floating_point() else torch.int64, copy=True).contiguous()


class Pair:
    """The same ranks in both back ends."""

    def __init__(self, ranks=None, timeout=datetime.timedelta(minutes=5)):
        self.ours = dist.new_group(ranks, backend="gpuwire", timeout=timeout)
        self.gloo = dist.new_group(ranks, backend="gloo")
        if dist.get_rank() in (ranks or range(dist.get_world_size())):
            self.rank, self.size = dist.get_rank(self.ours), dist.get_world_size(self.ours)

    def all(self, tensor):
        """Everyone's tensors, by gloo, in an element type that gloo has."""
        wide = _wide(tensor)
        if not wide.numel():  # gloo of PyTorch 1.13 dies of it
            return [tensor] * self.size
        parts = [torch.empty_like(wide) for _ in range(self.size)]
        dist.all_gather(parts, wide, group=self.gloo)
        return [part.to(tensor.dtype) for part in parts]

    def reduced(self, tensor, op):
        """By gloo where it can: it knows no AVG, and no bits of some types."""
        if op in (dist.ReduceOp.SUM, dist.ReduceOp.PRODUCT, dist.ReduceOp.MIN, dist.ReduceOp.MAX):
            wide = _wide(tensor)
            dist.all_reduce(wide, op, group=self.gloo)
            return (wide != 0 if tensor.dtype == torch.bool else wide).to(tensor.dtype)
        parts = self.all(tensor)
        if op == dist.ReduceOp.AVG:
            return (sum(part.to(torch.float64) for part in parts) / self.size).to(tensor.dtype)
        step = {dist.ReduceOp.BAND: torch.bitwise_and, dist.ReduceOp.BOR: torch.bitwise_or,
                dist.ReduceOp.BXOR: torch.bitwise_xor}[op]
        for part in parts[1:]:
            parts[0] = step(parts[0], part)
        return parts[0]


# ---- operations -----------------------------------------------------------------------------------------------------

def reductions(dtype):
    ops = [dist.ReduceOp.SUM, dist.ReduceOp.MIN, dist.ReduceOp.MAX, dist.ReduceOp.PRODUCT]
    if dtype in FLOATS:
        return [*ops, dist.ReduceOp.AVG]
    return [*ops, dist.ReduceOp.BAND, dist.ReduceOp.BOR, dist.ReduceOp.BXOR]


def all_reduce(p):
    for dtype in DTYPES:
        for count in COUNTS:
            for op in reductions(dtype) if count == 1000 else [dist.ReduceOp.SUM]:
                x = values([count], dtype, p.rank, most=3)
                want = p.reduced(x, op)
                dist.all_reduce(x, op, group=p.ours)
                same(x, want, f"all_reduce {op} of {count} {dtype}")
    x = values([40, 6], torch.float32, p.rank).t()[::2]  # neither contiguous nor dense
    want = p.reduced(x, dist.ReduceOp.SUM)
    dist.all_reduce(x, group=p.ours)
    same(x, want, "all_reduce of a strided tensor")
    z = torch.complex(values([9], torch.float32, p.rank), values([9], torch.float32, p.rank + 1))
    want = torch.complex(p.reduced(z.real, dist.ReduceOp.SUM), p.reduced(z.imag, dist.ReduceOp.SUM))
    dist.all_reduce(z, group=p.ours)
    same(z, want, "all_reduce of complex numbers")


def reduce(p):
    for dtype in DTYPES:
        for root in range(p.size):
            x = values([300], dtype, p.rank, most=3)
            before, want = x.clone(), p.reduced(x, dist.ReduceOp.SUM)
            dist.reduce(x, _global(p, root), group=p.ours)
            same(x, want if p.rank == root else before, f"reduce of {dtype}")


def all_gather(p):
    for dtype in DTYPES:
        for shape in ([0], [1], [3, 5], [2000]):
            x = values(shape, dtype, p.rank)
            want, got = p.all(x), [torch.empty_like(x) for _ in range(p.size)]
            dist.all_gather(got, x, group=p.ours)
            flat = torch.empty(p.size * x.numel(), dtype=dtype)
            dist.all_gather_into_tensor(flat, x, group=p.ours) if hasattr(dist, "all_gather_into_tensor") else \
                dist._all_gather_base(flat, x, group=p.ours)
            for i in range(p.size):
                same(got[i], want[i], f"all_gather of {dtype}")
                same(flat[i * x.numel():(i + 1) * x.numel()].view(shape), want[i], f"all_gather_into_tensor of {dtype}")
    got = [torch.empty(1 + i) for i in range(p.size)]  # of unequal sizes
    p.ours.allgather([got], [torch.full([1 + p.rank], float(p.rank))]).wait()
    for i in range(p.size):
        same(got[i], torch.full([1 + i], float(i)), "all_gather of unequal sizes")
    out = torch.zeros(p.size * 4)  # in place
    out[p.rank * 4:(p.rank + 1) * 4] = p.rank + 1
    p.ours._allgather_base(out, out[p.rank * 4:(p.rank + 1) * 4]).wait()
    same(out, torch.arange(1., p.size + 1).repeat_interleave(4), "all_gather in place")


def reduce_scatter(p):
    for dtype in DTYPES:
        for op in reductions(dtype):
            x = values([p.size, 6, 5], dtype, p.rank, most=3)
            want, got = p.reduced(x, op)[p.rank], torch.empty([6, 5], dtype=dtype)
            dist.reduce_scatter(got, list(x), op, group=p.ours)
            same(got, want, f"reduce_scatter {op} of {dtype}")
            got = torch.empty([6, 5], dtype=dtype)
            p.ours._reduce_scatter_base(got, x, _options(dist.ReduceScatterOptions(), op)).wait()
            same(got, want, f"reduce_scatter_tensor {op} of {dtype}")


def _options(options, op):
    options.reduceOp = op
    return options


def all_to_all(p):
    for dtype in DTYPES:
        x = values([p.size, 3], dtype, p.rank)
        want = torch.stack([part[p.rank] for part in p.all(x)])
        got = torch.empty_like(x)
        dist.all_to_all_single(got, x, group=p.ours)
        same(got, want, f"all_to_all_single of {dtype}")
        got = [torch.empty([3], dtype=dtype) for _ in range(p.size)]
        dist.all_to_all(got, list(x), group=p.ours)
        same(torch.stack(got), want, f"all_to_all of {dtype}")
    dist.all_to_all_single(torch.empty([0, 3]), torch.empty([0, 3]), group=p.ours)
    rows = [[(i + 2 * j) % 4 for j in range(p.size)] for i in range(p.size)]  # some of them 0
    mine = values([sum(rows[p.rank]), 2], torch.float32, p.rank)
    back = [rows[i][p.rank] for i in range(p.size)]
    got, want = torch.empty([sum(back), 2]), torch.empty([sum(back), 2])
    dist.all_to_all_single(got, mine, back, rows[p.rank], group=p.ours)
    dist.all_to_all_single(want, mine, back, rows[p.rank], group=p.gloo)
    same(got, want, "all_to_all_single with splits")


def to_and_from_one(p):
    for dtype in DTYPES:
        for root in range(p.size):
            x = values([11, 3], dtype, p.rank)
            want = p.all(x)
            got, there = x.clone(), _global(p, root)
            dist.broadcast(got, there, group=p.ours)
            same(got, want[root], f"broadcast of {dtype}")
            parts = [torch.empty_like(x) for _ in range(p.size)] if p.rank == root else None
            dist.gather(x, parts, there, group=p.ours)
            for i, part in enumerate(parts or []):
                same(part, want[i], f"gather of {dtype}")
            got = torch.empty_like(x)
            dist.scatter(got, [part + 1 for part in want] if p.rank == root and dtype != torch.bool else
                         want if p.rank == root else None, there, group=p.ours)
            same(got, want[p.rank] + 1 if dtype != torch.bool else want[p.rank], f"scatter of {dtype}")
    strided = values([6, 4], torch.float32, p.rank).t()
    want = p.all(strided)[p.size - 1]
    dist.broadcast(strided, _global(p, p.size - 1), group=p.ours)
    same(strided, want, "broadcast of a strided tensor")


def _global(p, rank):
    known = getattr(dist, "get_global_rank", None) or dist.distributed_c10d.get_global_rank
    return known(p.ours, rank)


def point_to_point(p):
    right, left = _global(p, (p.rank + 1) % p.size), _global(p, (p.rank - 1) % p.size)
    for tag in (0, 7):
        works = [dist.isend(torch.full([5], 10. * p.rank + i + tag), right, group=p.ours, tag=tag) for i in range(3)]
        for i in range(3):  # in the order in which they were sent
            got = torch.empty(5)
            dist.recv(got, left, group=p.ours, tag=tag)
            same(got, torch.full([5], 10. * ((p.rank - 1) % p.size) + i + tag), "recv")
        for work in works:
            work.wait()
    got = torch.empty(2000, dtype=torch.int64)
    ops = [dist.P2POp(dist.irecv, got, left, p.ours), dist.P2POp(dist.isend, torch.full_like(got, p.rank), right, p.ours)]
    for work in dist.batch_isend_irecv(ops):
        work.wait()
    same(got, torch.full_like(got, (p.rank - 1) % p.size), "batch_isend_irecv")


def together(p):
    """Works that overlap, futures, coalesced operations, objects and barriers."""
    tensors = [values([50 + i], torch.float32, p.rank) for i in range(20)]
    wants = [p.reduced(x, dist.ReduceOp.SUM) for x in tensors]
    works = [dist.all_reduce(x, group=p.ours, async_op=True) for x in tensors]
    futures = [work.get_future() for work in works]
    for work, future, want in zip(works, futures, wants):
        work.wait()
        assert work.is_completed() and work.is_success()
        same(future.wait()[0], want, "an asynchronous all_reduce")
    tensors = [values([5, 3], torch.float32, p.rank), values([4], torch.float32, p.rank).t()]
    wants = [p.reduced(x, dist.ReduceOp.SUM) for x in tensors]
    p.ours.allreduce_coalesced(tensors, dist.AllreduceCoalescedOptions()).wait()
    for x, want in zip(tensors, wants):
        same(x, want, "allreduce_coalesced")
    outputs, inputs = [torch.empty(p.size * n) for n in (3, 8)], [values([n], torch.float32, p.rank) for n in (3, 8)]
    p.ours.allgather_into_tensor_coalesced(outputs, inputs).wait()
    for got, x in zip(outputs, inputs):
        same(got, torch.cat(p.all(x)), "allgather_into_tensor_coalesced")
    p.ours._start_coalescing(torch.device("cpu"))
    x = values([6], torch.float32, p.rank)
    want = p.reduced(x, dist.ReduceOp.SUM)
    dist.all_reduce(x, group=p.ours, async_op=True)
    p.ours._end_coalescing(torch.device("cpu")).wait()
    same(x, want, "coalesced")
    objects = [None] * p.size
    dist.all_gather_object(objects, {"rank": p.rank, "text": "x" * p.rank * 100}, group=p.ours)
    assert [o["rank"] for o in objects] == list(range(p.size)), objects
    for _ in range(3):
        dist.barrier(group=p.ours)


def refusals(p):
    """Wrong calls fail at once, on the rank that makes them, and do no harm."""
    x = torch.zeros(4)
    for wrong in (
        lambda: p.ours._allgather_base(torch.zeros(4 * p.size + 1), x),
        lambda: p.ours.allgather([[x] * (p.size + 1)], [x]),
        lambda: p.ours.alltoall_base(x, torch.zeros(4, dtype=torch.int32), [], []),
        lambda: p.ours.alltoall_base(x, x, [4] * p.size, [4] * p.size) if p.size > 1 else 1 / 0,
        lambda: p.ours.allreduce([x.to_sparse()], dist.AllreduceOptions()),
        lambda: p.ours.allreduce([x], _options(dist.AllreduceOptions(), dist.ReduceOp.BAND)),
        lambda: p.ours.recv_anysource([x], 0),
    ):
        try:
            wrong()
        except (gpuwire.Error, ZeroDivisionError):
            continue
        raise AssertionError("a wrong call was taken")
    dist.all_reduce(x, group=p.ours)


OPERATIONS = [all_reduce, reduce, all_gather, reduce_scatter, all_to_all, to_and_from_one, point_to_point, together, refusals]


# ---- training -------------------------------------------------------------------------------------------------------

def losses(group, steps=6):
    torch.manual_seed(1)
    net = torch.nn.Sequential(torch.nn.Linear(10, 64), torch.nn.BatchNorm1d(64), torch.nn.ReLU(), torch.nn.Linear(64, 4))
    net = torch.nn.parallel.DistributedDataParallel(net, process_group=group, bucket_cap_mb=0.001)
    step = torch.optim.SGD(net.parameters(), 0.05, momentum=0.9)
    torch.manual_seed(100 + dist.get_rank())
    found = []
    for _ in range(steps):
        x = torch.randn(32, 10)
        loss = torch.nn.functional.cross_entropy(net(x), x[:, :4].argmax(1))
        step.zero_grad()
        loss.backward()
        step.step()
        found.append(loss.item())
    return torch.tensor(found), torch.cat([w.detach().flatten() for w in net.parameters()])


def training(p):
    got, weights = losses(p.ours)
    want, other_weights = losses(p.gloo)
    assert torch.allclose(got, want, rtol=1e-5), f"losses {got}, not {want}"
    assert torch.allclose(weights, other_weights, rtol=1e-4, atol=1e-6), "the weights differ"
    assert got[-1] < got[0], f"it learns nothing: {got}"
    for other in p.all(weights):
        same(other, weights, "weights of another rank")


# ---- scenes ---------------------------------------------------------------------------------------------------------

def scene_operations(rank, size):
    world = Pair()
    for operation in OPERATIONS:
        operation(world)
    training(world)
    if size > 2:
        some = [0, 2, 3] if size > 3 else [0, 2]
        part = Pair(some)
        if rank in some:
            for operation in (all_reduce, all_to_all, to_and_from_one, point_to_point):
                operation(part)
            dist.destroy_process_group(part.ours)
        lone = Pair([1])
        if rank == 1:
            for operation in (all_reduce, all_gather, reduce_scatter, all_to_all, to_and_from_one):
                operation(lone)
    if os.fork() == 0:  # like the workers of a DataLoader. Its groups are the parent's
        world.ours.shutdown()
        dist.group.WORLD.shutdown()
        os._exit(0)
    assert os.wait()[1] == 0
    x = torch.ones(3)
    dist.all_reduce(x)
    same(x, torch.full([3], float(size)), "all_reduce after all that")


def expect_error(call, limit, words):
    """The call must fail, in time, and say why."""
    begin = time.monotonic()
    try:
        call()
    except (RuntimeError, gpuwire.Error) as error:
        line = str(error)
    else:
        raise AssertionError("no error")
    took = time.monotonic() - begin
    assert took < limit, f"the error took {took:.1f} s"
    assert any(word in line for word in words), f"the error does not say why: {line}"
    return line


def scene_death(args):
    """A rank is killed: rank 0 before it has called anything, another one later. The others' calls fail, those that wait and
    those that follow. Then the others make a new group, and go on."""
    rank, size, victim, limit = args.rank, args.size, args.victim, args.limit
    if victim:
        dist.all_reduce(torch.ones(1000))
    if rank == victim:
        os.kill(os.getpid(), signal.SIGKILL)
    words = ("rank", "dead", "died", "reset")
    waiting = dist.all_reduce(torch.ones(1000), async_op=True)
    print(expect_error(waiting.wait, limit, words))
    print(expect_error(lambda: waiting.get_future().wait(), limit, words))
    print(expect_error(lambda: dist.recv(torch.ones(1), victim), limit, words))
    expect_error(lambda: dist.all_reduce(torch.ones(10)), limit, words)
    expect_error(lambda: dist.all_gather([torch.ones(1)] * size, torch.ones(1)), limit, words)
    dist.destroy_process_group()
    dist.init_process_group("gpuwire", init_method=args.meet + "-again", rank=rank - (rank > victim), world_size=size - 1)
    x = torch.ones(3)
    dist.all_reduce(x)
    same(x, torch.full([3], float(size - 1)), "all_reduce of those that live")


def scene_silence(rank, limit):
    """A rank lives, but does not come: a time-out. Other groups go on."""
    group = dist.new_group(timeout=datetime.timedelta(seconds=2))
    dist.all_reduce(torch.ones(5), group=group)
    if rank == 0:
        print(expect_error(lambda: dist.all_reduce(torch.ones(5), group=group), limit, ("time", "deadline")))
    dist.all_reduce(torch.ones(5))


def run(args):
    """A rank, from its start to its end."""
    dist.init_process_group("gpuwire", init_method=args.meet, rank=args.rank, world_size=args.size)
    assert dist.get_backend() == "gpuwire"
    if args.scene == "operations":
        scene_operations(args.rank, args.size)
    elif args.scene == "training":
        training(Pair())
    elif args.scene == "death":
        scene_death(args)
    else:
        scene_silence(args.rank, args.limit)
    dist.destroy_process_group()
    print("ENDED WELL")
