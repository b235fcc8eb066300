# SPDX-License-Identifier: Apache-2.0
"""The memory that a client's requests are sent from without a copy."""
import collections
import ctypes
import errno
from typing import Any, List, NamedTuple, Optional

from . import errors, tensors
from ._library import check

_MOST_OF_ITS_OWN = 16  # that the client makes known by itself; what it has not used for longest goes first


class _Region(NamedTuple):
    size: int
    keep: Any  # the memory lives as long as the NIC knows of it
    wanted: bool  # the program asked for it


class Regions:
    def __init__(self, lib: ctypes.CDLL, handle: ctypes.c_void_p, reaches_gpus: bool):
        self._lib, self._handle = lib, handle
        self._known: "collections.OrderedDict[int, _Region]" = collections.OrderedDict()
        self._reaches_gpus = reaches_gpus

    def addresses(self, sources: List[tensors.Source]) -> Optional[Any]:
        """Where the tensors are to be sent from; None: from the slot, into which all are copied."""
        for source in sources:
            if source.device is not None:
                source.synchronize()
        if not any([self._is_known(s) or self._make_known(s) for s in sources]):
            return None
        if any(s.device is not None and not self._is_known(s) for s in sources):
            return None  # the client's library copies host memory alone
        return (ctypes.c_void_p * len(sources))(*(s.address() for s in sources))

    def _is_known(self, source: tensors.Source) -> bool:
        if not self._known or source.framework == "buffer":
            return False
        first = source.address()
        for start, region in self._known.items():
            if start <= first and first + source.nbytes <= start + region.size:
                self._known.move_to_end(start)
                return True
        return False

    def _make_known(self, source: tensors.Source) -> bool:
        """Registers a GPU's memory when it is first sent from."""
        if source.device is None or not self._reaches_gpus or not source.nbytes:
            return False
        own = [start for start, region in self._known.items() if not region.wanted]
        if len(own) >= _MOST_OF_ITS_OWN and self._lib.gw_client_unregister(self._handle, own[0]):
            return False  # a request is in flight: this one is copied
        if len(own) >= _MOST_OF_ITS_OWN:
            del self._known[own[0]]
        start, size, keep = source.region()
        result = self._lib.gw_client_register(self._handle, start, size)
        if result == -errno.EOPNOTSUPP:
            self._reaches_gpus = False
        if result < 0:
            return False
        self._known[start] = _Region(size, keep, False)
        return True

    def register(self, tensor: Any) -> None:
        start, size, keep = _memory(tensor)
        if start in self._known and self._known[start].size >= size:
            self._known[start] = self._known[start]._replace(wanted=True)
            return
        check(self._lib.gw_client_register(self._handle, start, size))
        self._known[start] = _Region(size, keep, True)

    def unregister(self, tensor: Any) -> None:
        start = _memory(tensor)[0]
        if start not in self._known:
            raise errors.NotFound("this tensor's memory is not registered", errno.ENOENT)
        check(self._lib.gw_client_unregister(self._handle, start))
        del self._known[start]


def _memory(tensor: Any) -> Any:
    if tensors.is_torch(tensor):
        storage = tensor.untyped_storage()
        return storage.data_ptr(), storage.nbytes(), storage
    if tensors.numpy is not None and isinstance(tensor, tensors.numpy.ndarray) and tensor.flags.c_contiguous:
        return tensor.ctypes.data, tensor.nbytes, tensor
    raise errors.Invalid(f"a {type(tensor).__name__} has no memory to register; give a contiguous numpy array or a "
                         "PyTorch tensor")
