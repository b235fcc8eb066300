# SPDX-License-Identifier: Apache-2.0
"""Element types, and tensors of others: numpy's, PyTorch's, whatever speaks DLPack, and Python's own buffers.

numpy and PyTorch are used where they are installed, and not needed. A PyTorch tensor is only ever looked for when the
program has imported PyTorch itself.
"""
import ctypes
import math
import sys
from typing import Any, Dict, NamedTuple, Optional, Sequence, Tuple

from . import errors

try:
    import numpy
except ImportError:  # answers are then memoryviews
    numpy = None  # type: ignore[assignment]


class Dtype(NamedTuple):
    """An element type, by the Open Inference Protocol's name."""
    name: str
    number: int  # enum gw_dtype
    size: int
    numpy: str  # bits as integers where numpy has no such type
    torch: str
    buffer: str  # the letter of Python's struct module, or "" where there is none


DTYPES: Tuple[Dtype, ...] = (
    Dtype("FP32", 1, 4, "float32", "float32", "f"),
    Dtype("FP16", 2, 2, "float16", "float16", "e"),
    Dtype("BF16", 3, 2, "uint16", "bfloat16", ""),
    Dtype("FP64", 4, 8, "float64", "float64", "d"),
    Dtype("BOOL", 5, 1, "bool", "bool", "?"),
    Dtype("UINT8", 6, 1, "uint8", "uint8", "B"),
    Dtype("INT8", 7, 1, "int8", "int8", "b"),
    Dtype("UINT16", 8, 2, "uint16", "uint16", "H"),
    Dtype("INT16", 9, 2, "int16", "int16", "h"),
    Dtype("UINT32", 10, 4, "uint32", "uint32", "I"),
    Dtype("INT32", 11, 4, "int32", "int32", "i"),
    Dtype("UINT64", 12, 8, "uint64", "uint64", "Q"),
    Dtype("INT64", 13, 8, "int64", "int64", "q"),
)
_BY_NUMBER: Dict[int, Dtype] = {d.number: d for d in DTYPES}
_BY_TORCH: Dict[str, Dtype] = {"torch." + d.torch: d for d in DTYPES}


def dtype_of_number(number: int) -> Dtype:
    if number not in _BY_NUMBER:
        raise errors.Unsupported(f"element type {number}: this version of the package does not know it")
    return _BY_NUMBER[number]


def dtype_of_torch(dtype: Any) -> Dtype:
    if str(dtype) not in _BY_TORCH:
        raise errors.Unsupported(f"{dtype}: the Open Inference Protocol has no such element type")
    return _BY_TORCH[str(dtype)]


class TensorInfo(NamedTuple):
    """An input or output of a model. The first of `shape` is -1 where it counts samples (`batched`)."""
    name: str
    dtype: str
    shape: Tuple[int, ...]
    batched: bool


def is_torch(x: Any) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(x, torch.Tensor)


class Source:
    """A tensor to send: its shape and element type, and how to get at its bytes. It keeps the memory alive."""
    shape: Tuple[int, ...]
    nbytes: int
    device: Optional[Any] = None  # a PyTorch device, where the tensor lies on a GPU
    framework = "buffer"

    def address(self) -> int:
        raise NotImplementedError

    def region(self) -> Tuple[int, int, Any]:
        """The memory that the tensor is a part of: address, bytes, and what keeps it."""
        raise NotImplementedError

    def synchronize(self) -> None:
        """Waits for the kernels that write the tensor: the NIC does not know of streams."""

    def write(self, to: int) -> None:
        """Copies the bytes to an address of the host."""
        ctypes.memmove(to, self.address(), self.nbytes)


class _Torch(Source):
    framework = "torch"

    def __init__(self, tensor: Any, want: Dtype, name: str):
        if str(tensor.dtype) != "torch." + want.torch:
            raise errors.Invalid(f"input {name}: must be {want.name}, the tensor has {tensor.dtype}; convert it "
                                 f"with .to(torch.{want.torch})")
        self.tensor = tensor.detach().contiguous()
        self.shape = tuple(tensor.shape)
        self.nbytes = self.tensor.numel() * self.tensor.element_size()
        self.device = self.tensor.device if self.tensor.is_cuda else None

    def address(self) -> int:
        return self.tensor.data_ptr()

    def region(self) -> Tuple[int, int, Any]:
        storage = self.tensor.untyped_storage()
        return storage.data_ptr(), storage.nbytes(), storage

    def synchronize(self) -> None:
        sys.modules["torch"].cuda.current_stream(self.device).synchronize()

    def write(self, to: int) -> None:
        if self.device is None:
            super().write(to)
        elif self.nbytes:
            torch = sys.modules["torch"]
            place = torch.frombuffer((ctypes.c_char * self.nbytes).from_address(to), dtype=self.tensor.dtype)
            place.copy_(self.tensor.reshape(-1))


class _Numpy(Source):
    framework = "numpy"

    def __init__(self, array: Any, want: Dtype, name: str):
        same = array.dtype == numpy.dtype(want.numpy) or (want.name == "BF16" and array.dtype.name == "bfloat16")
        if not same:
            hint = "give the upper halves of the floats as uint16" if want.name == "BF16" else \
                f"convert it with .astype('{want.numpy}')"
            raise errors.Invalid(f"input {name}: must be {want.name}, the array has {array.dtype}; {hint}")
        self.array = numpy.ascontiguousarray(array).reshape(array.shape)
        self.shape = tuple(array.shape)
        self.nbytes = self.array.nbytes

    def address(self) -> int:
        return self.array.ctypes.data


class _Buffer(Source):
    def __init__(self, view: memoryview, want: Dtype, dims: Sequence[int], batched: bool, name: str):
        raw = view.format in ("B", "b", "c") and view.ndim == 1
        if not raw and view.format != want.buffer:
            raise errors.Invalid(f"input {name}: must be {want.name}, the buffer has elements of type "
                                 f"'{view.format}'; give it as bytes, or as '{want.buffer}'")
        self.view = view.cast("B") if view.c_contiguous else memoryview(view.tobytes())
        self.nbytes = self.view.nbytes
        self.shape = tuple(view.shape or ())
        if view.ndim == 1 and len(dims) != 1 or raw:  # bytes have no shape: their number tells the samples
            sample = math.prod(dims) * want.size
            rows = self.nbytes // sample if sample and batched else 1
            if self.nbytes != rows * sample or rows == 0:
                raise errors.Invalid(f"input {name}: {self.nbytes} bytes; one sample is {sample} bytes")
            self.shape = (rows, *dims[1:]) if batched else tuple(dims)
        self.copy: Any = None

    def address(self) -> int:
        if self.copy is None:  # Python gives no address of memory that may not be written
            self.copy = (ctypes.c_char * self.nbytes).from_buffer_copy(self.view)
        return ctypes.addressof(self.copy)

    def write(self, to: int) -> None:
        memoryview((ctypes.c_char * self.nbytes).from_address(to)).cast("B")[:] = self.view


def source(x: Any, info: TensorInfo) -> Source:
    """Makes a tensor of the caller's ready to be sent as this input."""
    want = next(d for d in DTYPES if d.name == info.dtype)
    dims = [1 if d < 0 else d for d in info.shape]
    if is_torch(x):
        made: Source = _Torch(x, want, info.name)
    elif numpy is not None and isinstance(x, numpy.ndarray):
        made = _Numpy(x, want, info.name)
    elif isinstance(x, (bytes, bytearray, memoryview)) or type(x).__module__ == "array":
        made = _Buffer(memoryview(x), want, dims, info.batched, info.name)
    elif hasattr(x, "__dlpack__"):
        made = _from_dlpack(x, want, info.name)
    elif numpy is not None:
        made = _Numpy(numpy.asarray(x, dtype=want.numpy), want, info.name)
    else:
        raise errors.Invalid(f"input {info.name}: a {type(x).__name__} cannot be sent without numpy; "
                             "give a tensor, an array or bytes")
    fits = made.shape[1:] == info.shape[1:] and len(made.shape) == len(info.shape) if info.batched else \
        made.shape == info.shape
    if not fits:
        raise errors.Invalid(f"input {info.name}: shape must be {list(info.shape)}, the tensor has "
                             f"{list(made.shape)}")
    return made


def _from_dlpack(x: Any, want: Dtype, name: str) -> Source:
    on_host = x.__dlpack_device__()[0] == 1  # kDLCPU
    torch = sys.modules.get("torch")
    if on_host and numpy is not None:
        return _Numpy(numpy.from_dlpack(x), want, name)
    if torch is not None:
        return _Torch(torch.from_dlpack(x), want, name)
    raise errors.Invalid(f"input {name}: tensors that speak DLPack need {'numpy' if on_host else 'PyTorch'} here; "
                         "import it, or give bytes")


def answer(address: int, nbytes: int, dtype: Dtype, shape: Tuple[int, ...], like: Source, out: Any, name: str) -> Any:
    """A tensor of the answer: into `out` if that is given, else a new one of the input's kind."""
    memory: Any = (ctypes.c_char * nbytes).from_address(address) if nbytes else b""
    if out is not None:
        _check_out(out, dtype, shape, name)
        if is_torch(out):
            out.copy_(_torch_view(memory, dtype, shape))
        else:
            numpy.copyto(out, numpy.frombuffer(memory, dtype=dtype.numpy).reshape(shape).view(out.dtype))
        return out
    if like.framework == "torch":
        view = _torch_view(memory, dtype, shape)
        return view.to(like.device) if like.device is not None else view.clone()
    if numpy is not None:
        return numpy.frombuffer(memory, dtype=dtype.numpy).reshape(shape).copy()
    view = memoryview(bytearray(memory))
    return view.cast(dtype.buffer, shape) if dtype.buffer not in ("", "e") and shape and nbytes else view


def _torch_view(memory: Any, dtype: Dtype, shape: Tuple[int, ...]) -> Any:
    torch = sys.modules["torch"]
    kind = getattr(torch, dtype.torch)
    return torch.frombuffer(memory, dtype=kind).reshape(shape) if len(memory) else torch.empty(shape, dtype=kind)


def _check_out(out: Any, dtype: Dtype, shape: Tuple[int, ...], name: str) -> None:
    if is_torch(out):
        fits = str(out.dtype) == "torch." + dtype.torch
    elif numpy is not None and isinstance(out, numpy.ndarray):
        fits = out.dtype.itemsize == dtype.size and (out.dtype == dtype.numpy or dtype.name == "BF16")
    else:
        raise errors.Invalid(f"output {name}: a {type(out).__name__} cannot take it; give a numpy array or a PyTorch "
                             "tensor")
    if not fits or tuple(out.shape) != tuple(shape):
        raise errors.Invalid(f"output {name}: {dtype.name} {list(shape)} does not fit into the tensor given for it "
                             f"({out.dtype} {list(out.shape)})")
