# SPDX-License-Identifier: Apache-2.0
"""The client: asks a server for inferences, over RDMA or the Open Inference Protocol's HTTP and gRPC."""
import contextlib
import ctypes
import errno
import threading
import time
import weakref
from typing import Any, Dict, Iterator, List, Mapping, NamedTuple, Optional, Sequence, Tuple, Union

from . import _client_abi as abi
from . import errors, tensors
from ._library import check, interruptible
from ._regions import Regions

_LOOK_S = 0.1  # how long a wait may keep Python from running signal handlers
_IDLE_S = 2.0  # after this time a submit may first ask over HTTP whether the session still lives
Inputs = Union[Any, Sequence[Any], Mapping[str, Any]]


class Times(NamedTuple):
    """Where a request's time went, in seconds. Over HTTP and gRPC only `total` is known, and the others are 0."""
    total: float
    net_in: float
    wait: float
    model: float
    post: float
    net_out: float


class Future:
    """A request that was sent. The client's thread rules hold for it, too."""

    def __init__(self, client: "Client", sources: List[tensors.Source], out: Dict[str, Any]):
        self._client = client
        self._sources = sources  # kept: the NIC may read them until the answer is there
        self._out = out
        self._value: Any = None
        self._error: Optional[errors.Error] = None
        self._results: List[int] = []  # of sending it
        self._done = False
        self.times: Optional[Times] = None
        """Where the time went, once the answer is there."""
        self.batch = 0
        """How many samples the model ran together, these among them. 0: not known."""

    @property
    def _sent(self) -> bool:
        return self._results == [0]

    def done(self) -> bool:
        """Is the answer, or an error, there? Takes what has arrived, and does not wait."""
        if not self._done:
            self._client._take_arrived()
        return self._done

    def exception(self, timeout: Optional[float] = None) -> Optional[errors.Error]:
        """Waits as result() does. Returns the request's error, or None."""
        self._client._wait_for(self, timeout)
        return self._error

    def result(self, timeout: Optional[float] = None) -> Any:
        """Waits for the answer and returns it: see Client.infer.

        Args:
            timeout: seconds; None waits as long as the connection lives.
        Raises:
            Timeout: no answer came in time. The request goes on: call result() again.
            Late, Closing, Invalid, ModelFailed, Disconnected, Error: what became of the request.
        """
        self._client._wait_for(self, timeout)
        if self._error:
            raise self._error
        return self._value


class Client:
    """A connection to one model of a server.

    One thread at a time may use a client and its futures. A call while another thread is in one raises an Error. So
    open a client in each thread: each has a session and slots of its own. All other threads run while a call waits.

        with gpuwire.Client("rdma://worker7:8000", "resnet50") as client:
            scores = client.infer(pictures)

    Args:
        url: `rdma://HOST:PORT` or `HOST:PORT` for RDMA; `http://…`, `https://…`, `grpc://HOST:PORT` or
            `grpcs://HOST:PORT` for the Open Inference Protocol, at gpuwire's server or another one. The port is 8000 when
            absent, and 8001 for gRPC.
        model: its name.
        version: of the model; None leaves the choice to the server.
        slots: requests in flight at most. 0: as many as the server gives.
        rows: samples of one request at most. 0: as many as the server takes.
        timeout: seconds for each step of setting up.
        token: sent with every call over HTTP or gRPC as a bearer token.
        ca_file: a PEM file of who may sign the server's certificate. None: the system's.
        shapes: of inputs whose shape the model leaves open: name to dimensions.
        gpu_direct: sends tensors on a GPU from where they lie, if the NIC can reach them. False: by way of the host.
    Raises:
        NotFound: the server has no such model. Busy: all sessions are taken. Disconnected, Timeout: no server there.
    """

    def __init__(self, url: str, model: str, *, version: Optional[str] = None, slots: int = 0, rows: int = 0,
                 timeout: float = 10.0, token: Optional[str] = None, ca_file: Optional[str] = None,
                 shapes: Optional[Mapping[str, Sequence[int]]] = None, gpu_direct: bool = True):
        self._lib = abi.library()
        self._lock = threading.Lock()
        # A list's length, and no function of Python's: a signal's handler would run in that, and its exception be lost.
        self._give_up: List[bool] = []
        self._asked = abi.GIVE_UP(self._give_up.__len__)
        opts = abi.Opts(server=url.encode(), model=model.encode(), slots=slots, rows=rows,
                        timeout_ns=int(timeout * 1e9), give_up=self._asked)
        opts.version, opts.token, opts.ca_file = (v.encode() if v else None for v in (version, token, ca_file))
        opts.shapes, opts.shape_count = _shapes(shapes or {})
        handle = ctypes.c_void_p()
        try:
            interruptible(lambda: check(self._lib.gw_client_open(ctypes.byref(opts), ctypes.byref(handle))), self._stop_asking)
        except BaseException:  # Ctrl-C, and it is open all the same
            self._lib.gw_client_close(handle)
            raise
        self._handle = handle
        # The callback lives as long as the C object that calls it.
        self._closer = weakref.finalize(self, _close, self._lib.gw_client_close, handle, self._asked)
        self.url = url
        self.model = model
        self.door: str = self._lib.gw_client_door(handle).decode()
        """"rdma", "http" or "grpc"."""
        self.slots: int = self._lib.gw_client_slots(handle)
        """Requests in flight at most."""
        self.max_rows: int = self._lib.gw_client_rows(handle)
        """Samples of one request at most."""
        self.inputs = self._infos("input")
        self.outputs = self._infos("output")
        self._free = list(range(self.slots))
        self._in_flight: Dict[int, Future] = {}
        self._reply = abi.Reply()
        self._used = time.monotonic()
        self._regions = Regions(self._lib, handle, gpu_direct)

    def _stop_asking(self) -> None:
        self._give_up.append(True)

    def _infos(self, kind: str) -> Tuple[tensors.TensorInfo, ...]:
        count = getattr(self._lib, f"gw_client_{kind}s")(self._handle)
        found = (getattr(self._lib, f"gw_client_{kind}")(self._handle, i).contents for i in range(count))
        return tuple(tensors.TensorInfo(t.name.decode(), tensors.dtype_of_number(t.dtype).name,
                                        tuple(-1 if t.batched and k == 0 else d for k, d in enumerate(t.dims[:t.rank])),
                                        bool(t.batched)) for t in found)

    # ---- asking

    def infer(self, inputs: Inputs, *, out: Any = None, priority: int = 0, deadline: Optional[float] = None,
              timeout: Optional[float] = None) -> Any:
        """Asks for one inference, and waits for the answer.

        Args:
            inputs: a tensor, for a model with one input; tensors in the model's order; or a mapping of names to
                tensors. A tensor is a numpy array, a PyTorch tensor, anything that speaks DLPack, or bytes. Where the
                model counts samples, the first dimension is their number. A PyTorch tensor on a GPU is sent from where
                it lies, where the NIC can reach it.
            out: where the answer goes: an array or tensor of the right shape, or a mapping of names to those.
            priority: 1 is served first; 0 is the model's default.
            deadline: seconds from now. The server refuses at once what it cannot answer by then (Late).
            timeout: seconds to wait; None waits as long as the connection lives.
        Returns:
            The output, or a dict of names to outputs where the model has several. They are PyTorch tensors on the same
            device if the first input was one. Otherwise they are numpy arrays, or memoryviews where there is no numpy.
            numpy has no BF16: such outputs are uint16, the upper halves of the floats.
        """
        return self.infer_async(inputs, out=out, priority=priority, deadline=deadline).result(timeout)

    def infer_async(self, inputs: Inputs, *, out: Any = None, priority: int = 0,
                    deadline: Optional[float] = None) -> Future:
        """Sends a request, and does not wait for the answer. It waits for a free slot while all are in flight.

        The inputs must stay unchanged until the answer is there. See infer for the arguments.
        """
        with self._turn():
            sources = [tensors.source(x, info) for x, info in zip(self._in_order(inputs), self.inputs)]
            rows = self._rows(sources)
            future = Future(self, sources, self._outs(out))
            while not self._free:
                self._take(None)
            slot = self._free.pop()
            self._in_flight[slot] = future
            try:
                request = abi.Request(id=slot, rows=rows, priority=priority,
                                      budget_ns=int(deadline * 1e9) if deadline is not None else 0)
                self._submit(slot, request, future)
            finally:  # Ctrl-C may come at any point
                if not future._sent:
                    del self._in_flight[slot]
                    self._free.append(slot)
            return future

    def _submit(self, slot: int, request: abi.Request, future: Future) -> None:
        lib, handle = self._lib, self._handle
        pointers = self._regions.addresses(future._sources) if self.door == "rdma" else None
        if pointers is None:
            for i, source in enumerate(future._sources):
                source.write(lib.gw_client_slot_input(handle, slot, i, request.rows))

        arguments: Tuple[Any, ...] = (handle, slot, ctypes.byref(request))
        submit = lib.gw_client_submit
        if pointers is not None:
            submit, arguments = lib.gw_client_submit_from, (*arguments, pointers)

        def send() -> None:
            # In one step of Python's: Ctrl-C comes before the request is sent, or when it is known to be.
            future._results.extend(map(submit, *((argument,) for argument in arguments)))
            check(future._results[0])

        if time.monotonic() - self._used > _IDLE_S:
            interruptible(send, self._stop_asking)
        else:
            send()
        self._used = time.monotonic()

    def _in_order(self, inputs: Inputs) -> List[Any]:
        names = [i.name for i in self.inputs]
        if isinstance(inputs, Mapping):
            if set(inputs) != set(names):
                raise errors.Invalid(f"model {self.model}: inputs {', '.join(names)} expected, "
                                     f"{', '.join(map(str, inputs)) or 'none'} were given")
            return [inputs[n] for n in names]
        given = list(inputs) if isinstance(inputs, (tuple, list)) and (len(names) > 1 or _holds_tensor(inputs)) else [inputs]
        if len(given) != len(names):
            raise errors.Invalid(f"model {self.model}: {len(names)} inputs expected ({', '.join(names)}), "
                                 f"{len(given)} were given")
        return given

    def _rows(self, sources: List[tensors.Source]) -> int:
        rows = {s.shape[0] for s, info in zip(sources, self.inputs) if info.batched}
        if len(rows) > 1:
            raise errors.Invalid(f"model {self.model}: its inputs have {sorted(rows)} samples; all must have as many")
        count = rows.pop() if rows else 1
        if not 1 <= count <= self.max_rows:
            raise errors.Invalid(f"model {self.model}: {count} samples; a request has 1 to {self.max_rows}")
        return count

    def _outs(self, out: Any) -> Dict[str, Any]:
        if out is None:
            return {}
        if isinstance(out, Mapping):
            unknown = set(out) - {o.name for o in self.outputs}
            if unknown:
                raise errors.Invalid(f"model {self.model}: no output {', '.join(map(str, unknown))}")
            return dict(out)
        if len(self.outputs) != 1:
            raise errors.Invalid(f"model {self.model}: {len(self.outputs)} outputs; give `out` as a mapping of names")
        return {self.outputs[0].name: out}

    # ---- answers

    @contextlib.contextmanager
    def _turn(self) -> Iterator[None]:
        if not self._lock.acquire(blocking=False):
            raise errors.Error("another thread is in a call of this client; open a client for each thread")
        try:
            if not self._closer.alive:
                raise errors.Error(f"the client of {self.model} is closed")
            yield
        finally:
            self._lock.release()

    def _take(self, deadline: Optional[float]) -> bool:
        """Takes one answer, if one comes until the deadline or for a moment: then Python may run signal handlers."""
        until = time.monotonic() + _LOOK_S
        if deadline is not None and deadline < until:
            until = deadline
        result = self._lib.gw_client_wait(self._handle, int(until * 1e9), ctypes.byref(self._reply))
        if result in (-errno.ETIMEDOUT, -errno.EAGAIN):
            return False
        check(result)
        reply = self._reply
        self._used = time.monotonic()
        future = self._in_flight.pop(reply.slot)
        try:
            self._answer(future, reply)
        except errors.Error as error:
            future._error = error
        future._done = True
        future._sources, future._out = [], {}
        self._free.append(reply.slot)
        return True

    def _answer(self, future: Future, reply: abi.Reply) -> None:
        future.times = Times(*(getattr(reply.times, name) / 1e9 for name in Times._fields))
        future.batch = reply.batch
        if reply.error:
            line = (reply.why or b"").decode("utf-8", "replace")
            raise errors.of_errno(reply.error, f"model {self.model}: {line or 'the request failed'}")
        values = {}
        for info, o in zip(self.outputs, reply.out[:reply.outputs]):
            values[info.name] = tensors.answer(o.data, o.bytes, tensors.dtype_of_number(o.dtype), tuple(o.dims[:o.rank]),
                                               future._sources[0], future._out.get(info.name), info.name)
        future._value = values if len(self.outputs) != 1 else next(iter(values.values()))

    def _take_arrived(self) -> None:
        with self._turn():
            while self._in_flight and self._take(0.0):
                pass

    def _wait_for(self, future: Future, timeout: Optional[float]) -> None:
        deadline = None if timeout is None else time.monotonic() + timeout
        if future._done:
            return
        with self._turn():
            while not future._done:
                if not self._take(deadline) and deadline is not None and time.monotonic() >= deadline:
                    raise errors.Timeout(f"model {self.model} has not answered within {timeout} s", errno.ETIMEDOUT)

    # ---- the rest

    def register(self, tensor: Any) -> None:
        """Makes a tensor's memory known, so that requests are sent from where it lies. Tensors on a GPU need no such
        call. Others are copied into a slot unless this was called. Over HTTP this does nothing. The client keeps the
        tensor until unregister or close."""
        with self._turn():
            if self.door == "rdma":
                self._regions.register(tensor)

    def unregister(self, tensor: Any) -> None:
        """Forgets a tensor's memory. NotFound: it is not registered. Busy: a request is in flight."""
        with self._turn():
            if self.door == "rdma":
                self._regions.unregister(tensor)

    def stats(self) -> Dict[str, Any]:
        """What the server has counted for the model since it started. Durations are sums over requests, in seconds.
        `batches` says how often the model ran how many samples together."""
        with self._turn():
            found = abi.Stats()
            interruptible(lambda: check(self._lib.gw_client_stats(self._handle, ctypes.byref(found))), self._stop_asking)
            counts: Dict[str, Any] = {n: getattr(found, n) for n in ("success", "fail", "inferences", "executions")}
            for name in ("success", "queue", "input", "infer", "output"):
                counts[name + "_s"] = getattr(found, name + "_ns") / 1e9
            counts["batches"] = dict(zip(found.batch[:found.batches], found.batch_count[:found.batches]))
            return counts

    def close(self) -> None:
        """Ends the session. What is in flight is lost. A second call does nothing."""
        if not self._closer.alive:
            return
        with self._turn():
            for future in self._in_flight.values():
                future._done, future._error = True, errors.Error(f"the client of {self.model} was closed")
            self._closer()
            self._in_flight.clear()

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *why: Any) -> None:
        self.close()


def _close(close: Any, handle: ctypes.c_void_p, callback: Any) -> None:
    close(handle)
    del callback  # may go now, and not before


def _holds_tensor(inputs: Sequence[Any]) -> bool:
    """Is this a sequence of tensors, and not a tensor written as nested lists?"""
    return len(inputs) > 0 and not isinstance(inputs[0], (int, float, bool, list, tuple))


def _shapes(shapes: Mapping[str, Sequence[int]]) -> Tuple[Any, int]:
    made = (abi.Shape * len(shapes))()
    for to, (name, dims) in zip(made, shapes.items()):
        if len(dims) > abi.MAX_RANK:
            raise errors.Invalid(f"input {name}: {len(dims)} dimensions, at most {abi.MAX_RANK} are possible")
        to.name, to.rank = name.encode(), len(dims)
        to.dims[:len(dims)] = list(dims)
    return made, len(shapes)
