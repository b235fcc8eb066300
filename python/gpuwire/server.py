# SPDX-License-Identifier: Apache-2.0
"""The server: serves PyTorch modules from a GPU, and ONNX files and plug-ins from a GPU or CPU threads."""
import contextlib
import ctypes
import errno
import os
import pathlib
import signal
import sys
import tempfile
import threading
import time
import weakref
from typing import Any, Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple, Union

from . import _serve_abi as abi
from . import errors, tensors
from ._library import check, interruptible
from .capture import Captured, capture

_LOOK_NS = 1_000_000_000  # a signal that comes just before a wait begins is seen a second later at most
BATCH_SIZES = (1, 2, 4, 8)
_RESIDENT = ("never", "auto", "always")
_NEVER = 2**64 - 1
_CACHE_TYPES = {"fp32": 1, "fp16": 2, "bf16": 3}  # enum gw_dtype
Path = Union[str, "os.PathLike[str]"]


def _count(name: str, value: float, most: int) -> int:
    """ctypes cuts numbers that do not fit; here they are refused."""
    if not 0 <= value <= most:
        raise errors.Invalid(f"Server: {name}={value}: must be a number from 0 to {most}")
    return int(value)


class _Added(NamedTuple):
    """How a module is served, to serve another one the same way."""
    example_inputs: Any
    options: Dict[str, Any]
    module: Any  # its weights must stay
    captured: Captured  # and its graphs' memory


class Server:
    """A server in this process. Clients reach its models over RDMA, HTTP and gRPC.

    The server answers while Python sleeps: once a model is added, no request takes the interpreter's lock. Any thread
    may call every method. Calls that add, reload or stop models wait for each other.

        with gpuwire.Server(port=8000) as server:
            server.add(module, example, name="resnet50")
            server.run()

    Args:
        host: the numeric address that HTTP and gRPC listen on. 0.0.0.0 and :: let other hosts in.
        port: of HTTP; 0 is any free one. See `port` and `url` afterwards.
        grpc_port: of gRPC; 0 is any free one, which `grpc_port` tells afterwards. None: there is no such door.
        exec: "gpu", "cpu", or "auto": the GPU when there is one.
        gpu: which, by CUDA's number.
        device: an RDMA device, or "softnic". None: a real one, else softnic.
        threads: that one run of a model uses on CPU threads.
        sessions: of each model at once; 0: 16.
        sessions_per_client: of them, what one client may have; 0: all but a quarter.
        idle: a session is closed after this number of seconds without requests; None: never.
        slots: requests in flight of each session; 0: 8.
        model_memory: bytes that a model may take with its sessions' slots; 0: 2 GiB.
        max_body: bytes of an HTTP inference's body, or of a gRPC message; 0: 64 MiB.
        tls_cert, tls_key: PEM files. HTTP and gRPC are then encrypted; RDMA never is.
        token: of 16 characters or more, that every call must bring as a bearer token.
        token_file: or the file that holds it.
        open_health: health may be asked without the token.
        metrics_port: metrics are answered on this port, too, and nothing else is.
        models: a repository (NAME/VERSION/model.onnx or model.so), whose models are served from the start.
        model_control: clients may load and unload the repository's models.
        max_batch: samples that the repository's models run together at most, if samples do not meet there.
        batch_delay: seconds that a request for one of them may wait for others to share its run.
        model: serves this one of the repository alone.
        watch: versions and models that come into the repository are served, those that go are not any more.
        resident: which small models run inside the kernel that waits for requests: "never", "auto" or "always".
        access_log: a line of JSON for each request is appended to this file; "-" is standard output. See reopen_log.
        log_level: what the servers of this process say on standard error: "error", "warning", "info" or "debug". None:
            as before; at first, "info".
        connections_per_client: HTTP connections that one client may have; 0: 64, or what its sessions need.
        host_names: names of the server that calls may have in their Host, beside addresses, localhost and the host's own.
        trusted_proxies: whose X-Forwarded-For names the client: addresses, networks, or "user 33".
        drain: seconds that close gives what is under way to finish; 0: it is cut off.
    Raises:
        Unsupported: there is no such GPU or RDMA device, or no gRPC here. NotFound: no such file. Invalid: an argument
        does not fit. Error: the port is taken, or something else failed.
    """

    def __init__(self, host: str = "127.0.0.1", port: int = 8000, *, grpc_port: Optional[int] = None, exec: str = "auto",
                 gpu: int = 0, device: Optional[str] = None, threads: int = 1, sessions: int = 0,
                 sessions_per_client: int = 0, idle: Optional[float] = 300.0, slots: int = 0, model_memory: int = 0,
                 max_body: int = 0, tls_cert: Optional[Path] = None, tls_key: Optional[Path] = None,
                 token: Optional[str] = None, token_file: Optional[Path] = None, open_health: bool = False,
                 metrics_port: int = 0, models: Optional[Path] = None, model_control: bool = False, max_batch: int = 0,
                 batch_delay: float = 0.0, model: Optional[str] = None, watch: bool = False, resident: str = "never",
                 access_log: Optional[Path] = None, log_level: Optional[str] = None, drain: float = 0.0,
                 connections_per_client: int = 0, host_names: Sequence[str] = (), trusted_proxies: Sequence[str] = ()):
        if resident not in _RESIDENT:
            raise errors.Invalid(f"Server: resident={resident!r}: must be one of {', '.join(_RESIDENT)}")
        self._lib = abi.library()
        opts = abi.Opts(size=ctypes.sizeof(abi.Opts), host=host.encode(), exec=exec.encode(),
                        device=device.encode() if device else None, open_health=open_health, model_control=model_control,
                        grpc=grpc_port is not None, token=token.encode() if token is not None else None,
                        model=model.encode() if model is not None else None, watch=watch,
                        resident=_RESIDENT.index(resident),
                        log_level=log_level.encode() if log_level is not None else None,
                        drain_ns=_count("drain", drain * 1e9, _NEVER),
                        idle_ns=_NEVER if idle is None else _count("idle", idle * 1e9, _NEVER),
                        batch_delay_ns=_count("batch_delay", batch_delay * 1e9, _NEVER))
        for name, value in (("port", port), ("grpc_port", grpc_port or 0), ("metrics_port", metrics_port)):
            setattr(opts, name, _count(name, value, 65535))
        for name, value in (("gpu", gpu), ("threads", threads), ("sessions", sessions), ("slots", slots),
                            ("sessions_each", sessions_per_client), ("connections_each", connections_per_client),
                            ("max_batch", max_batch)):
            setattr(opts, name, _count(name, value, 2**32 - 1))
        for name, value in (("model_memory", model_memory), ("max_body", max_body)):
            setattr(opts, name, _count(name, value, _NEVER))
        for name, path in (("tls_cert", tls_cert), ("tls_key", tls_key), ("token_file", token_file), ("models", models),
                           ("access_log", access_log)):
            setattr(opts, name, os.fsencode(path) if path is not None else None)
        for name, words in (("host_names", host_names), ("trusted_proxies", trusted_proxies)):
            setattr(opts, name, ",".join([words] if isinstance(words, str) else words).encode() or None)
        handle = ctypes.c_void_p()
        try:
            interruptible(lambda: check(self._lib.gw_serving_start(ctypes.byref(opts), ctypes.byref(handle))))
        except BaseException:  # Ctrl-C, and it has started all the same
            self._lib.gw_serving_stop(handle)
            raise
        self._handle = handle
        self._gpu = gpu
        self._lock = threading.RLock()  # of what changes the models
        self._pauses = 0
        self._users = 0  # calls that are under way
        self._changed = threading.Condition()
        self._closing = self._woken = False
        self._modules: Dict[str, _Added] = {}
        self._closer = weakref.finalize(self, self._lib.gw_serving_stop, handle)
        self.host = host
        self.port: int = self._lib.gw_serving_port(handle)
        """The port that HTTP listens on."""
        self.grpc_port: int = self._lib.gw_serving_grpc_port(handle)
        """The port that gRPC listens on; 0: there is no such door."""
        self._encrypted = tls_cert is not None
        self.on_gpu = bool(self._lib.gw_serving_on_gpu(handle))
        """Do models run on a GPU?"""

    @property
    def url(self) -> str:
        """Where clients of this host find the server: what gpuwire.Client takes."""
        host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(self.host, self.host)
        scheme = "rdmas" if self._encrypted else "rdma"
        return f"{scheme}://[{host}]:{self.port}" if ":" in host else f"{scheme}://{host}:{self.port}"

    # ---- models

    def add(self, module: Any, example_inputs: Any, *, name: str, version: int = 1,
            batch_sizes: Optional[Sequence[int]] = BATCH_SIZES, max_delay: float = 0.0,
            input_names: Optional[Sequence[str]] = None, output_names: Optional[Sequence[str]] = None) -> None:
        """Captures a PyTorch module as CUDA graphs and serves it. Other models pause during that, and lose no request.

        Args:
            module: a torch.nn.Module on the server's GPU, or another callable of tensors. It is put into eval mode. Its
                weights must stay where they are while it is served; a change of their values is seen by requests.
            example_inputs: a tensor, a sequence of tensors in the order of the module's arguments, or a mapping of
                argument names to tensors. Only their types and shapes matter. The first dimension counts samples.
            name: what clients ask for.
            version: that clients see.
            batch_sizes: the module is captured once for each. The server puts requests together up to the largest one,
                which is also what one request may bring. A module whose samples meet is served one at a time. None: the
                module counts no samples, and is captured with the shapes of the examples alone.
            max_delay: seconds that a request may wait for others to share its batch with.
            input_names, output_names: what clients call the tensors. By default the module's argument names; the keys
                of what it returns, or `output`, or `output0`, `output1` and so on.
        Raises:
            Unsupported: there is no GPU, the module cannot be captured, or the GPU cannot launch one of its nodes by
                itself: the line names the node and its kernel.
            Invalid: an example, a name or a batch size does not fit. Error: there is a model of that name.
        """
        options = {"version": version, "batch_sizes": batch_sizes, "max_delay": max_delay, "input_names": input_names,
                   "output_names": output_names}
        self._add_module(name, module, example_inputs, options, replace=False)

    def reload(self, name: str, module: Any, example_inputs: Any = None) -> None:
        """Serves another module in place of one that add was called for, the same way. The old one answers until the new
        one does. Without example_inputs those of add are used again.

        Raises: as add; NotFound: no module of that name is being served.
        """
        with self._use():
            old = self._modules.get(name)
            if old is None:
                raise errors.NotFound(f"model {name}: no module of that name is being served; call add", errno.ENOENT)
            examples = old.example_inputs if example_inputs is None else example_inputs
            self._add_module(name, module, examples, old.options, replace=True)

    def _add_module(self, name: str, module: Any, example_inputs: Any, options: Dict[str, Any], replace: bool) -> None:
        with self._use():
            if not self.on_gpu:
                raise errors.Unsupported(f"model {name}: this server runs on CPU threads, and modules are served as CUDA "
                                         "graphs; export it with torch.onnx.export and serve the file with add_file")
            self._change()
            how = self._model(name, options["version"], (), options["max_delay"], replace)
            with self.paused():
                captured = capture(module, example_inputs, options["batch_sizes"], name, options["input_names"],
                                   options["output_names"])
            if captured.device != self._gpu:
                raise errors.Invalid(f"model {name}: it lies on cuda:{captured.device}, the server uses cuda:{self._gpu}")
            described, kept = _describe(captured, name)

            def add() -> None:
                check(self._lib.gw_serving_add_graphs(self._handle, ctypes.byref(how), ctypes.byref(described)))
                self._modules[name] = _Added(example_inputs, options, module, captured)

            interruptible(add)
            del kept

    def add_file(self, path: Path, *, name: Optional[str] = None, version: int = 1,
                 batch_sizes: Sequence[int] = (), max_delay: float = 0.0, replace: bool = False) -> str:
        """Serves an ONNX file or a plug-in, on a GPU or CPU threads. Returns the model's name.

        Args:
            path: of the file; a plug-in's ends in `.so`.
            name: what clients ask for. By default the file's name without `.onnx` or `.so`.
            version, max_delay: as for add.
            batch_sizes: how many samples a run may take, for a file whose batch dimension is open.
            replace: it takes the place of the model of that name, which answers until then.
        Raises:
            NotFound: no such file. Unsupported: it holds something that gpuwire lacks; the line names the node.
            Invalid, Error: as for add.
        """
        file = pathlib.Path(path)
        name = name or file.stem
        with self._use():
            self._change()
            how = self._model(name, version, batch_sizes, max_delay, replace)
            interruptible(lambda: check(self._lib.gw_serving_add_file(self._handle, ctypes.byref(how),
                                                                      os.fsencode(file))))
            self._modules.pop(name, None)
        return name

    def add_generator(self, model: Any, tokenizer: Any = None, *, name: Optional[str] = None, lanes: int = 0,
                      context: int = 0, max_tokens: int = 0, cache: Optional[str] = None, cache_bytes: int = 0,
                      threads: int = 0) -> str:
        """Serves a language model by OpenAI's API: v1/chat/completions and v1/completions of the HTTP port. It stays until
        the server closes. Returns its name.

        Args:
            model: the folder of an onnxruntime-genai or a transformers model; or a model of transformers, whose weights are
                copied.
            tokenizer: of transformers, for a model that is no folder.
            name: what clients ask for; by default the folder's name, or that of the model's class.
            lanes: requests that make tokens at the same time; 0: 32.
            context: tokens of prompt and answer together; 0: what the model knows, 4,096 at most.
            max_tokens: of an answer; 0: the context.
            cache: the type of keys and values: "fp32", "fp16" or "bf16". None: the network's choice.
            cache_bytes: for keys and values; 0: what all lanes need, 1 GiB at most.
            threads: of a network on CPU threads; 0: the server's.
        Raises:
            NotFound: there is no model or no tokenizer in the folder. Unsupported: its family, an operator or its tokenizer
            is not supported; the line names it. Invalid: an argument does not fit. Error: there is a generator of that name.
        """
        if cache not in (None, *_CACHE_TYPES):
            raise errors.Invalid(f"generator {name}: cache={cache!r}: must be one of {', '.join(_CACHE_TYPES)}")
        with self._use(), _folder_of(model, tokenizer, name) as folder:
            self._change()
            name = name or (folder.resolve().name if _is_folder(model) else type(model).__name__)
            how = abi.Generator(size=ctypes.sizeof(abi.Generator), folder=os.fsencode(folder), name=name.encode(),
                                cache_type=_CACHE_TYPES.get(cache or "", 0),
                                cache_bytes=_count("cache_bytes", cache_bytes, _NEVER))
            for field, value in (("lanes", lanes), ("context", context), ("max_tokens", max_tokens), ("threads", threads)):
                setattr(how, field, _count(field, value, 2**32 - 1))
            interruptible(lambda: check(self._lib.gw_serving_add_generator(self._handle, ctypes.byref(how))))
        return name

    def stop(self, name: str) -> None:
        """Stops serving a model and frees what it took. Requests in work are answered; others are told that the model is
        closing. NotFound: there is none of that name. Busy: it is still at work after 10 seconds."""
        with self._use():
            self._change()
            interruptible(lambda: check(self._lib.gw_serving_remove(self._handle, name.encode())))
            self._modules.pop(name, None)

    def stats(self, name: str) -> Dict[str, Any]:
        """What a model has done since it was added: requests by how they were answered, samples, runs, and where the time
        went (sums over requests, in seconds). `batches` holds the runs of each batch size, their mean and their p99."""
        with self._use(shared=True):
            found = abi.Stats()
            check(self._lib.gw_serving_query(self._handle, name.encode(), ctypes.byref(found)))
        counts: Dict[str, Any] = {}
        for field, _ in abi.Stats._fields_[:11]:
            value = getattr(found, field)
            counts.update({field[:-3] + "_s": value / 1e9} if field.endswith("_ns") else {field: value})
        counts["batches"] = {b.rows: {"executions": b.executions, "mean_s": b.compute_infer_ns / max(b.executions, 1) / 1e9,
                                      "p99_s": b.p99_ns / 1e9} for b in found.batch[:found.batches]}
        return counts

    def _model(self, name: str, version: int, batch_sizes: Sequence[int], max_delay: float, replace: bool) -> abi.Model:
        sizes = sorted(set(batch_sizes))
        if len(sizes) > abi.MAX_BATCHES or (sizes and not 1 <= sizes[0] <= sizes[-1] <= abi.MAX_ROWS):
            raise errors.Invalid(f"model {name}: batch sizes {sizes}; give {abi.MAX_BATCHES} at most, each from 1 to "
                                 f"{abi.MAX_ROWS}")
        how = abi.Model(size=ctypes.sizeof(abi.Model), version=version, name=name.encode(), replace=int(replace),
                        batches=len(sizes), max_delay_ns=int(max_delay * 1e9))
        how.batch_sizes[:len(sizes)] = sizes
        return how

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """A `with` block during which no model runs on the GPU, and requests wait. CUDA allocates, frees and loads nothing
        beside the server's kernel. So a program that does such work while it serves, does it here. Models come and go
        outside of it: add, reload and stop pause by themselves."""
        with self._use():
            if not self._pauses:
                check(self._lib.gw_serving_pause(self._handle))
            self._pauses += 1
            try:
                yield
            finally:
                self._pauses -= 1
                if not self._pauses:
                    check(self._lib.gw_serving_resume(self._handle))

    def _change(self) -> None:
        if self._pauses:
            raise errors.Busy("the server is paused; models come and go outside of the `with` block", errno.EBUSY)

    @contextlib.contextmanager
    def _use(self, shared: bool = False) -> Iterator[None]:
        with contextlib.nullcontext() if shared else self._lock:
            with self._changed:
                if self._closing or not self._closer.alive:
                    raise errors.Error("the server is closed")
                self._users += 1
            try:
                yield
            finally:
                with self._changed:
                    self._users -= 1
                    self._changed.notify_all()

    # ---- its life

    def wait(self, timeout: Optional[float] = None) -> bool:
        """Sleeps until the time is over, forever with None. Ctrl-C ends it as KeyboardInterrupt. Raises what made the
        server fail. Returns False when the time is over, and True when wake was called."""
        deadline = None if timeout is None else time.monotonic_ns() + int(timeout * 1e9)
        with self._use(shared=True):
            while not self._woken and not self._closing:
                now = time.monotonic_ns()
                if deadline is not None and now >= deadline:
                    return False
                until = now + _LOOK_NS if deadline is None else min(now + _LOOK_NS, deadline)
                result = self._lib.gw_serving_wait(self._handle, until)
                if result not in (-errno.EINTR, -errno.ETIMEDOUT):
                    check(result)
            self._woken = False
        return True

    def wake(self) -> None:
        """Ends a wait or run, which another thread is in or will call next."""
        with self._use(shared=True):
            self._woken = True
            self._lib.gw_serving_wake(self._handle)

    def reopen_log(self) -> None:
        """Opens the access log's file again by its name, after it has been moved away. NotFound: there is none."""
        with self._use(shared=True):
            check(self._lib.gw_serving_reopen_log(self._handle))

    def run(self) -> None:
        """Prints where the server is, sleeps until Ctrl-C, SIGTERM or wake, and closes it. SIGTERM does that only where it
        would have ended the program: on the main thread, and without a handler of the program's own. A second one ends
        the program at once."""
        print(f"gpuwire: serving on {self.url}, until Ctrl-C", file=sys.stderr, flush=True)
        try:
            with self._woken_by(signal.SIGTERM):
                self.wait()
        except KeyboardInterrupt:
            pass
        finally:
            self.close()

    @contextlib.contextmanager
    def _woken_by(self, number: int) -> Iterator[None]:
        ours = threading.current_thread() is threading.main_thread() and signal.getsignal(number) is signal.SIG_DFL
        if ours:
            signal.signal(number, lambda *_: self.wake())
        try:
            yield
        finally:
            if ours:
                signal.signal(number, signal.SIG_DFL)

    def close(self) -> None:
        """Stops all models and ends the server. With `drain` it takes nothing new, and first answers what is under way. A
        second call does nothing. Busy: a model is still at work on a request; nothing was freed, and only the end of the
        process ends it."""
        with self._lock:
            if not self._closer.alive:
                return
            self._closing = True
            try:
                self._lib.gw_serving_wake(self._handle)
                with self._changed:
                    self._changed.wait_for(lambda: not self._users)
                interruptible(self._end)
            finally:
                self._closing = False

    def _end(self) -> None:
        check(self._lib.gw_serving_stop(self._handle))
        self._closer.detach()
        self._modules.clear()

    def __enter__(self) -> "Server":
        return self

    def __exit__(self, *why: Any) -> None:
        self.close()


def serve(module: Any, example_inputs: Any, *, name: str, batch_sizes: Optional[Sequence[int]] = BATCH_SIZES,
          host: str = "127.0.0.1", port: int = 8000, **options: Any) -> None:
    """Serves one PyTorch module until Ctrl-C or SIGTERM: a Server, add and run. `options` are those of Server.add; for others of
    the server's, make a Server."""
    with Server(host, port, exec="gpu") as server:
        server.add(module, example_inputs, name=name, batch_sizes=batch_sizes, **options)
        server.run()


def _is_folder(model: Any) -> bool:
    return isinstance(model, (str, os.PathLike))


@contextlib.contextmanager
def _folder_of(model: Any, tokenizer: Any, name: Optional[str]) -> Iterator[pathlib.Path]:
    """The model's folder; of a model of transformers a temporary one. The server maps its files, so they may go once it has
    opened them."""
    if _is_folder(model):
        if tokenizer is not None:
            raise errors.Invalid(f"generator {name or model}: a folder has its own tokenizer; give none")
        yield pathlib.Path(model)
        return
    if not hasattr(model, "save_pretrained") or not hasattr(tokenizer, "save_pretrained"):
        raise errors.Invalid(f"generator {name or type(model).__name__}: give a folder, or a model and a tokenizer of "
                             "transformers")
    with tempfile.TemporaryDirectory(prefix="gpuwire-generator-") as folder:
        model.save_pretrained(folder)
        tokenizer.save_pretrained(folder)
        yield pathlib.Path(folder)


def _describe(captured: Captured, name: str) -> Tuple[abi.Captured, Any]:
    """The C library's description of the graphs, and what it points into."""
    if max(len(captured.inputs), len(captured.outputs)) > abi.MAX_IO:
        raise errors.Invalid(f"model {name}: {abi.MAX_IO} inputs and outputs each are possible, at most")
    graphs = (abi.Graph * len(captured.variants))()
    for to, variant in zip(graphs, captured.variants):
        to.rows, to.graph = variant.rows if captured.inputs[0].batched else 0, variant.graph
        to.inputs[:len(variant.inputs)] = variant.inputs
        to.outputs[:len(variant.outputs)] = variant.outputs
    inputs, outputs = _tensors(captured.inputs, name), _tensors(captured.outputs, name)
    described = abi.Captured(inputs=len(inputs), outputs=len(outputs), graphs=len(graphs), input=inputs, output=outputs,
                             graph=graphs)
    return described, (graphs, inputs, outputs)


def _tensors(infos: List[tensors.TensorInfo], name: str) -> Any:
    made = (abi.Tensor * len(infos))()
    for to, info in zip(made, infos):
        dims = info.shape[1:] if info.batched else info.shape  # of one sample
        if len(dims) >= abi.MAX_RANK:
            raise errors.Invalid(f"model {name}: tensor {info.name} has {len(info.shape)} dimensions, at most "
                                 f"{abi.MAX_RANK} are possible")
        to.name = info.name.encode()
        to.dtype = next(d.number for d in tensors.DTYPES if d.name == info.dtype)
        to.rank = len(dims)
        to.dims[:len(dims)] = list(dims)
    return made
