# SPDX-License-Identifier: Apache-2.0
"""Captures a PyTorch module as CUDA graphs, one for each batch size, with inputs and outputs at fixed addresses."""
import inspect
from typing import Any, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from . import errors, tensors

_WARM_UP = 3  # runs before a capture: libraries choose their kernels and take their work space in the first ones
_ALIGN = 16  # bytes; where the tensors of a graph begin


class Variant(NamedTuple):
    """The module, captured for one number of samples."""
    rows: int
    graph: int  # a cudaGraph_t
    inputs: List[int]  # addresses in the GPU's memory
    outputs: List[int]
    keep: Any  # the graph and its memory live as long as this


class Captured(NamedTuple):
    """A module, ready to be served."""
    device: int  # CUDA's number of it
    inputs: List[tensors.TensorInfo]
    outputs: List[tensors.TensorInfo]
    variants: List[Variant]


def capture(module: Any, example_inputs: Any, batch_sizes: Optional[Sequence[int]], name: str,
            input_names: Optional[Sequence[str]] = None, output_names: Optional[Sequence[str]] = None) -> Captured:
    """Captures the module once for each batch size.

    Args:
        module: a callable of tensors, most often a torch.nn.Module on a GPU. It is put into eval mode.
        example_inputs: a tensor, a sequence of tensors in the order of the module's arguments, or a mapping of argument
            names to tensors. Their first dimension counts samples, unless batch_sizes is None.
        batch_sizes: how many samples a run may take. None: the examples' shapes are the only ones.
        name: of the model, for messages.
        input_names, output_names: as clients will know them. By default the module's own argument names; the keys of
            what it returns, or `output`, or `output0`, `output1` and so on.
    Raises:
        Unsupported: there is no GPU, or the module does something that a CUDA graph cannot hold.
        Invalid: the examples do not fit the module, or its outputs do not grow with the batch.
    """
    torch = _torch(name)
    arguments, by_name = _arguments(module, example_inputs, name)
    device = _device(torch, module, [t for _, t in arguments], name)
    if hasattr(module, "eval"):
        module.eval()
    given = list(input_names or [n for n, _ in arguments])
    if len(given) != len(arguments) or len(set(given)) != len(given):
        raise errors.Invalid(f"model {name}: {len(arguments)} different input names expected, not {given}")
    sizes = sorted(set(batch_sizes)) if batch_sizes is not None else [1]
    if not sizes or sizes[0] < 1:
        raise errors.Invalid(f"model {name}: batch sizes {list(batch_sizes or [])}; give at least one, each 1 or more")

    examples = [t.detach().to(device) for _, t in arguments]
    variants: List[Variant] = []
    kept: List[Tuple[List[Any], List[Tuple[str, Any]]]] = []
    pool = torch.cuda.graph_pool_handle()  # one model's batch sizes never run at once, so that they share memory
    with torch.cuda.device(device), torch.inference_mode():
        # The largest first: the others find room in its memory.
        for rows in reversed(sizes):
            fixed = [_rows_of(e, rows) if batch_sizes is not None else e.clone() for e in examples]
            call = _call(module, fixed, [n for n, _ in arguments] if by_name else None)
            graph, results = _capture_one(torch, call, fixed, pool, name, rows)
            kept.append((fixed, results))
            variants.append(Variant(rows, graph.raw_cuda_graph(), [t.data_ptr() for t in fixed],
                                    [t.data_ptr() for _, t in results], (graph, fixed, [t for _, t in results])))
    variants.reverse()
    kept.reverse()
    _check_batched(kept, sizes if batch_sizes is not None else None, name)
    fixed, results = kept[0]
    batched = batch_sizes is not None
    outs = list(output_names or [n for n, _ in results])
    if len(outs) != len(results) or len(set(outs)) != len(outs):
        raise errors.Invalid(f"model {name}: {len(results)} different output names expected, not {outs}")
    return Captured(device.index, [_info(n, t, batched) for n, t in zip(given, fixed)],
                    [_info(n, t, batched) for n, (_, t) in zip(outs, results)], variants)


def _torch(name: str) -> Any:
    try:
        import torch
    except ImportError:
        raise errors.Unsupported(f"model {name}: serving a module needs PyTorch 2.8 or newer; install it, or export the "
                                 "module to ONNX elsewhere and serve the file with add_file") from None
    if not torch.cuda.is_available():
        raise errors.Unsupported(f"model {name}: PyTorch finds no GPU, and modules are served as CUDA graphs; export it "
                                 "with torch.onnx.export(module, example_inputs, 'model.onnx') and serve the file with "
                                 "add_file")
    if not hasattr(torch.cuda.CUDAGraph, "raw_cuda_graph"):
        raise errors.Unsupported(f"model {name}: PyTorch {torch.__version__} does not show its CUDA graphs; install 2.8 "
                                 "or newer")
    return torch


def _arguments(module: Any, examples: Any, name: str) -> Tuple[List[Tuple[str, Any]], bool]:
    """The module's tensors with their names, and whether they are given by name."""
    if isinstance(examples, Mapping):
        found = [(str(n), t) for n, t in examples.items()]
    else:
        given = list(examples) if isinstance(examples, (tuple, list)) else [examples]
        found = list(zip(_parameter_names(module, len(given)), given))
    if not found:
        raise errors.Invalid(f"model {name}: give at least one example input")
    for n, t in found:
        if not tensors.is_torch(t):
            raise errors.Invalid(f"model {name}: example input {n} is a {type(t).__name__}; give a PyTorch tensor")
    return found, isinstance(examples, Mapping)


def _parameter_names(module: Any, count: int) -> List[str]:
    try:
        parameters = inspect.signature(getattr(module, "forward", module)).parameters.values()
        names = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    except (TypeError, ValueError):
        names = []
    return names[:count] if len(names) >= count else [f"input{i}" for i in range(count)]


def _device(torch: Any, module: Any, examples: List[Any], name: str) -> Any:
    """The one GPU that the module lies on."""
    parameters = list(module.parameters()) + list(module.buffers()) if hasattr(module, "parameters") else []
    devices = {t.device for t in parameters or examples}
    if len(devices) != 1 or next(iter(devices)).type != "cuda":
        raise errors.Unsupported(f"model {name}: it lies on {', '.join(sorted(map(str, devices)))}; all must be on one GPU: "
                                 "move it with module.cuda()")
    device = devices.pop()
    return torch.device("cuda", torch.cuda.current_device() if device.index is None else device.index)


def _rows_of(example: Any, rows: int) -> Any:
    """A tensor of `rows` samples, out of the example's own."""
    if example.dim() == 0 or example.shape[0] == 0:
        raise errors.Invalid(f"an example input of shape {list(example.shape)} has no samples; give batch_sizes=None for "
                             "a module that counts none")
    repeats = -(-rows // example.shape[0])
    return example.repeat(repeats, *[1] * (example.dim() - 1))[:rows].clone()


def _call(module: Any, fixed: List[Any], names: Optional[List[str]]) -> Any:
    if names is None:
        return lambda: module(*fixed)
    return lambda: module(**dict(zip(names, fixed)))


def _outputs(result: Any, name: str) -> List[Tuple[str, Any]]:
    """What a module returns: tensors with names. What is no tensor (None, caches) is left out of a mapping."""
    if tensors.is_torch(result):
        return [("output", result)]
    if isinstance(result, Mapping):
        found = [(str(k), v) for k, v in result.items() if tensors.is_torch(v)]
    elif isinstance(result, (tuple, list)) and all(tensors.is_torch(v) for v in result):
        found = [(f"output{i}", v) for i, v in enumerate(result)]
    else:
        found = []
    if not found:
        raise errors.Invalid(f"model {name}: it returns a {type(result).__name__}; wrap it so that it returns tensors, a "
                             "tuple of them or a dict")
    return found


def _capture_one(torch: Any, call: Any, fixed: List[Any], pool: Any, name: str, rows: int) -> Tuple[Any, List[Tuple[str, Any]]]:
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    inputs = {t.untyped_storage().data_ptr() for t in fixed}
    try:
        with torch.cuda.stream(side):
            for _ in range(_WARM_UP):
                call()
        side.synchronize()
        graph = torch.cuda.CUDAGraph(keep_graph=True)
        # What other threads ask of CUDA at that time (the NIC copies there) is not captured.
        with torch.cuda.graph(graph, pool=pool, stream=side, capture_error_mode="thread_local"):
            results = [(n, _own(torch, t, inputs)) for n, t in _outputs(call(), name)]
        side.synchronize()
    except errors.Error:
        raise
    except RuntimeError as error:
        raise errors.Unsupported(f"model {name}: it cannot be captured as a CUDA graph at batch size {rows}: "
                                 f"{str(error).splitlines()[0]}") from error
    return graph, results


def _own(torch: Any, tensor: Any, inputs: Any) -> Any:
    """An output that lies by itself: in C order, where the server's kernels can copy it from, and not in an input."""
    there = tensor.untyped_storage().data_ptr() in inputs
    if there or not tensor.is_contiguous() or tensor.data_ptr() % _ALIGN:
        return tensor.clone(memory_format=torch.contiguous_format)
    return tensor


def _check_batched(kept: List[Tuple[List[Any], List[Tuple[str, Any]]]], sizes: Optional[List[int]], name: str) -> None:
    """Outputs must have as many rows as inputs, and samples of one shape at every batch size."""
    for (_, results), rows in zip(kept, sizes or []):
        for (n, t), (_, first) in zip(results, kept[0][1]):
            if t.dim() == 0 or t.shape[0] != rows or t.shape[1:] != first.shape[1:]:
                raise errors.Invalid(f"model {name}: output {n} has shape {list(t.shape)} for {rows} samples; its first "
                                     "dimension must count them. Give batch_sizes=None for a module that counts none")


def _info(name: str, tensor: Any, batched: bool) -> tensors.TensorInfo:
    shape = (-1, *tensor.shape[1:]) if batched else tuple(tensor.shape)
    return tensors.TensorInfo(name, tensors.dtype_of_torch(tensor.dtype).name, tuple(shape), batched)
