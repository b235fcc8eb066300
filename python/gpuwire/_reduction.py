# SPDX-License-Identifier: Apache-2.0
"""How elements are put together: PyTorch's reductions in the C library's words, and those that the library has not."""
from typing import Any, Callable, Dict, Optional

import torch

from . import _collective_abi as abi
from . import errors
from .tensors import DTYPES

_DTYPES: Dict[torch.dtype, int] = {getattr(torch, d.torch): d.number for d in DTYPES if hasattr(torch, d.torch)}
# a, b -> a: puts b into a.
_BITS: Dict[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {
    "BAND": torch.Tensor.bitwise_and_, "BOR": torch.Tensor.bitwise_or_, "BXOR": torch.Tensor.bitwise_xor_,
}
# Truth values are added as "or", like NCCL does.
_OF_BOOL = {"SUM": "MAX", "AVG": "MAX", "PRODUCT": "MIN"}


class Reduction:
    """One reduction of one element type."""

    def __init__(self, op: Any, dtype: torch.dtype, ranks: int):
        name = str(getattr(op, "op", op)).rsplit(".", 1)[-1]
        number = dtype.is_floating_point or dtype.is_complex
        self._complex = dtype.is_complex
        self._view: Optional[torch.dtype] = None
        if dtype == torch.bool:
            name, self._view = _OF_BOOL.get(name, name), torch.uint8
        known = name in ("SUM", "AVG") if dtype.is_complex else name in abi.OPS or (name in _BITS and not number)
        if not known or not (dtype.is_complex or (self._view or dtype) in _DTYPES):
            raise errors.Unsupported(f"gpuwire: there is no reduction {name} of {dtype}")
        # The library divides floating-point numbers alone.
        self._divide_by = ranks if name == "AVG" and not number else 1
        self.op = abi.OPS.get("SUM" if self._divide_by > 1 else name, 0)
        self.step = _BITS.get(name)
        """Puts the second tensor into the first; None: the library does it, by `op`."""

    def view(self, tensor: torch.Tensor) -> torch.Tensor:
        """The tensor's memory as the numbers that are reduced."""
        if self._complex:
            return torch.view_as_real(tensor)
        return tensor.view(self._view) if self._view else tensor

    @staticmethod
    def dtype(view: torch.Tensor) -> int:
        """The C library's number of a view's element type."""
        return _DTYPES[view.dtype]

    def finish(self, view: torch.Tensor) -> None:
        """After the ranks' parts have met in it."""
        if self._divide_by > 1:
            view.div_(self._divide_by, rounding_mode="trunc")
