# SPDX-License-Identifier: Apache-2.0
"""The models that the modes of serving are compared with, as PyTorch modules with random weights: what they compute does not
matter, their shapes and kernels do. Without a GPU there are the identities alone, as a description and as an ONNX file."""
import os
import pathlib
import sys
from typing import Any, Callable, Dict, NamedTuple, Tuple

PICTURE = (1, 3, 224, 224)


class Made(NamedTuple):
    module: Any
    example: Any


def _identity(shape: Tuple[int, ...]) -> Callable[[], Made]:
    def make() -> Made:
        import torch
        return Made(torch.nn.Identity(), torch.rand(shape, device="cuda"))
    return make


def _half_inside(module: Any) -> Any:
    """Takes and gives 32-bit numbers, and computes with 16 bits."""
    import torch

    class HalfInside(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = module.half()

        def forward(self, x: Any) -> Any:
            return self.inner(x.half()).float()

    return HalfInside()


def _torchvision(name: str, how: str = "float") -> Callable[[], Made]:
    def make() -> Made:
        import torch
        import torchvision
        module = getattr(torchvision.models, name)()
        example = torch.rand(PICTURE, device="cuda")
        if how == "inside":
            module = _half_inside(module)
        elif how == "half":
            module, example = module.half(), example.half()
        return Made(module.cuda().eval(), example)
    return make


def _super_resolution(factor: int) -> Callable[[], Made]:
    """The sub-pixel network of Shi et al. on a picture of 640 by 480."""
    def make() -> Made:
        from torch import nn, rand
        layers = [nn.Conv2d(1, 64, 5, 1, 2), nn.ReLU(), nn.Conv2d(64, 64, 3, 1, 1), nn.ReLU(), nn.Conv2d(64, 32, 3, 1, 1), nn.ReLU(),
                  nn.Conv2d(32, factor * factor, 3, 1, 1), nn.PixelShuffle(factor)]
        return Made(nn.Sequential(*layers).cuda().eval(), rand((1, 1, 480, 640), device="cuda"))
    return make


MODELS: Dict[str, Callable[[], Made]] = {
    "identity4k": _identity((1, 1024)),
    "identity600k": _identity(PICTURE),
    "resnet50": _torchvision("resnet50", "inside"),  # 600 KB in, fp16 inside
    "resnet50_half": _torchvision("resnet50", "half"),
    "squeezenet": _torchvision("squeezenet1_1"),
    "mobilenet_v3": _torchvision("mobilenet_v3_large"),
    "vit_b_16": _torchvision("vit_b_16", "inside"),
    "superresolution": _super_resolution(1),
    "superresolution_x4": _super_resolution(4),
}
SHAPES = {"identity4k": (1, 1024), "identity600k": PICTURE}  # those that need no GPU


def write_identity(folder: str, name: str) -> str:
    """An ONNX file with the same tensors."""
    tree = pathlib.Path(__file__).resolve().parent.parent.parent
    sys.path.insert(0, str(tree / "tests/security"))
    import onnx_bytes
    shape = list(SHAPES[name])
    path = os.path.join(folder, name + ".onnx")
    pathlib.Path(path).write_bytes(onnx_bytes.model(onnx_bytes.node("Identity", ["x"], "y"), b"", shape, shape))
    return path
