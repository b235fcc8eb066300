# SPDX-License-Identifier: Apache-2.0
"""gpuwire: models that answer over RDMA and HTTP while the CPU sleeps.

`Client` asks a server. `Server` and `serve` are one: they serve PyTorch modules from a GPU, and ONNX files from a GPU
or CPU threads. docs/python.md shows how.
"""
from .client import Client, Future, Times
from .errors import (Busy, Closing, Disconnected, Error, Invalid, Late, ModelFailed, NotFound, Timeout, Unsupported)
from .server import Server, serve
from .tensors import TensorInfo

__all__ = ["Busy", "Client", "Closing", "Disconnected", "Error", "Future", "Invalid", "Late", "ModelFailed", "NotFound", "Server",
           "TensorInfo", "Timeout", "Times", "Unsupported", "serve"]
