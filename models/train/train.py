#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Trains the super-resolution network: x3, luma, an efficient sub-pixel convolution over exact bicubic interpolation.

    python3 get_pictures.py PICTURES
    python3 train.py --data PICTURES --out OUT

Every layer works at the small size; the last makes nine values a pixel, the 3x3 block that replaces it. What it
makes is added to what bicubic interpolation would (a fixed 5x5 convolution, exact), so that a network which
answers nothing is bicubic, and the network only learns what bicubic misses.

OUT gets model.onnx; report.txt; and for tests of whatever runs the model golden_input.npy, one tile of a held-out
picture, and golden_output.npy, every fourth pixel of every fourth row of what PyTorch makes of it on the CPU (so all
nine phases and all edges are in it, and the file stays small).
Three to four minutes on one H200; with no GPU it works too, and takes hours.
"""
import argparse
import math
import pathlib
import time

import numpy as np
import onnx
import torch
import torch.nn.functional as F
from torch import nn

import onnx_file
import pictures

SIDE = 224  # of a tile, as the model file takes it
KERNELS = [5, 3, 3, 3, 3]
WIDTH = 32
RADIUS = sum(k // 2 for k in KERNELS)  # how far the network sees from a pixel: 6
MARGIN = 6  # pixels around a patch that shrinking it reaches into (5), rounded up to a multiple of 3
PATCH = 48  # of a patch's low-resolution side, what the loss is taken on


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        widths = [1] + [WIDTH] * (len(KERNELS) - 1) + [pictures.SCALE ** 2]
        self.convs = nn.ModuleList(nn.Conv2d(a, b, k, padding=k // 2)
                                   for a, b, k in zip(widths, widths[1:], KERNELS))
        self.register_buffer("base", torch.tensor(pictures.enlarge_phases(), dtype=torch.float32)[:, None])
        for conv in self.convs:
            nn.init.kaiming_normal_(conv.weight, nonlinearity="relu")
            nn.init.zeros_(conv.bias)
        with torch.no_grad():
            self.convs[-1].weight.mul_(0.01)  # start as bicubic

    def forward(self, x):
        h = x
        for conv in self.convs[:-1]:
            h = F.relu(conv(h))
        return F.pixel_shuffle(self.convs[-1](h) + F.conv2d(x, self.base, padding=2), pictures.SCALE)

    def macs(self):
        """Multiply-accumulates for one tile."""
        return SIDE * SIDE * (sum(c.weight.numel() for c in self.convs) + self.base.numel())


class Patches:
    """All training pictures in the device's memory as one list of pixels; cuts random patches out of it."""

    def __init__(self, folder, side, device, rng):
        found = pictures.training(folder, side, rng)
        self.side, self.device = side, device
        self.pixels = torch.from_numpy(np.concatenate([a.reshape(-1, 3) for _, a in found])).to(device)
        heights = [a.shape[0] for _, a in found]
        widths = [a.shape[1] for _, a in found]
        starts = np.cumsum([0] + [h * w for h, w in zip(heights, widths)][:-1])
        self.heights, self.widths, self.starts = (torch.as_tensor(np.asarray(v), dtype=torch.int64, device=device)
                                                  for v in (heights, widths, starts))
        self.weights = torch.tensor([w for w, _ in found], dtype=torch.float32, device=device)
        self.luma = torch.tensor(pictures.LUMA, dtype=torch.float32, device=device)
        self.steps = torch.arange(side, device=device)
        print(f"{len(found)} training pictures, {len(self.pixels) / 1e6:.1f} million pixels", flush=True)

    def uniform(self, n, low, high):
        return torch.rand(n, 1, 1, 1, device=self.device) * (high - low) + low

    def some(self, n, part):
        return torch.rand(n, 1, 1, 1, device=self.device) < part

    def cut(self, n):
        """n patches of luma, n x 1 x side x side."""
        which = torch.multinomial(self.weights, n, replacement=True)
        h, w = self.heights[which], self.widths[which]
        y = (torch.rand(n, device=self.device) * (h - self.side + 1)).long()
        x = (torch.rand(n, device=self.device) * (w - self.side + 1)).long()
        y, x = torch.minimum(y, h - self.side), torch.minimum(x, w - self.side)
        rows = self.starts[which] + y * w + x
        at = rows[:, None, None] + self.steps[None, :, None] * w[:, None, None] + self.steps[None, None, :]
        rgb = self.pixels[at].float() / 255.0
        # A third of the patches see another mix of the colours than luma: as if it were another picture.
        other = torch.rand(n, 3, device=self.device) + 0.05
        other = other / other.sum(1, keepdim=True)
        mix = torch.where(torch.rand(n, 1, device=self.device) < 0.33, other, self.luma[None])
        return (rgb * mix[:, None, None, :]).sum(3)[:, None]

    def augmented(self, n):
        """Patches turned and mirrored, some with another gamma or contrast, some negative."""
        v = self.cut(n)
        turn = int(torch.randint(0, 4, (1,)))
        v = torch.rot90(v, turn, (2, 3))
        if torch.rand(1) < 0.5:
            v = v.flip(3)
        gamma = torch.where(self.some(n, 0.4), torch.exp(self.uniform(n, -0.45, 0.45)), 1.0)
        v = v.clamp(1e-4, 1) ** gamma
        gain = torch.where(self.some(n, 0.4), self.uniform(n, 0.5, 1.0), 1.0)
        v = v * gain + self.uniform(n, 0, 1) * (1 - gain)
        return torch.where(self.some(n, 0.1), 1 - v, v).contiguous()


class Batches:
    """Pairs of a shrunk patch, as a file of 8-bit RGB would hold it, and the patch it was made from."""

    def __init__(self, folder, size, device, rng):
        self.low = PATCH + 2 * RADIUS
        self.patches = Patches(folder, pictures.SCALE * self.low + 2 * MARGIN, device, rng)
        self.size = size
        taps = torch.tensor(pictures.shrink_taps(), dtype=torch.float32, device=device)
        self.kernel = torch.outer(taps, taps)[None, None]

    def next(self):
        high = self.patches.augmented(self.size)
        # The first output stands on pixel MARGIN + 1, and its 11 taps begin 5 pixels before.
        low = F.conv2d(high[:, :, MARGIN - 4:, MARGIN - 4:], self.kernel, stride=pictures.SCALE)
        low = low[:, :, :self.low, :self.low].clamp(0, 1)
        # Luma of colours rounded to 8 bits: errors of about two thirds of a level.
        low = low + (torch.rand_like(low) - 0.5) * (0.67 / 255.0)
        cut = MARGIN + pictures.SCALE * RADIUS
        return low, high[:, :, cut:cut + pictures.SCALE * PATCH, cut:cut + pictures.SCALE * PATCH]


def inside(x):
    """Without the border that saw zeros from beyond the patch."""
    b = pictures.SCALE * RADIUS
    return x[:, :, b:-b, b:-b]


class Judge:
    """PSNR on the held-out pictures; the way to the shrunk picture and back is the one users go."""

    def __init__(self, folder):
        self.cases = []
        for name, picture in pictures.held_out(folder).items():
            small, target = pictures.shrink(picture), pictures.luma(picture)
            bicubic = pictures.psnr(pictures.luma(pictures.enlarge(small)), target)
            edge = np.pad(pictures.luma(small), RADIUS + 2, mode="edge").astype(np.float32)
            self.cases.append((name, torch.from_numpy(edge)[None, None], target, bicubic))
        if not self.cases:
            raise SystemExit(f"train.py: no heldout_*.png in {folder}; run get_pictures.py first")

    @torch.no_grad()
    def rows(self, net, device):
        found = []
        for name, edge, target, bicubic in self.cases:
            out = net(edge.to(device)).float().cpu().numpy()[0, 0].astype(np.float64)
            b = pictures.SCALE * (RADIUS + 2)
            found.append((name, bicubic, pictures.psnr(np.clip(out[b:-b, b:-b], 0, 1), target)))
        return found


def show(rows):
    return "  ".join(f"{name} {ours:.2f} dB ({ours - bicubic:+.2f})" for name, bicubic, ours in rows)


def rate(progress, peak):
    """Learning rate: a short warm-up, then a cosine down to a thousandth."""
    if progress < 0.01:
        return peak * (progress / 0.01 + 0.01)
    return peak * (0.001 + 0.999 * 0.5 * (1 + math.cos(math.pi * (progress - 0.01) / 0.99)))


def train(args, device, judge):
    torch.manual_seed(args.seed)
    batches = Batches(args.data, args.batch, device, np.random.default_rng(args.seed))
    net = Net().to(device)
    mean = Net().to(device)  # the running mean of the weights, which is what is kept
    mean.load_state_dict(net.state_dict())
    params, means = list(net.parameters()), list(mean.parameters())
    adam = torch.optim.Adam(params, lr=args.rate, betas=(0.9, 0.99), fused=device.type == "cuda")
    began = shown = time.monotonic()
    step, progress = 0, 0.0
    total = torch.zeros((), device=device)
    since = 0
    while progress < 1.0:
        for group in adam.param_groups:
            group["lr"] = rate(progress, args.rate)
        low, high = batches.next()
        error = inside(net(low)) - high
        # First the absolute error, which finds its way; then the squared one, which PSNR measures.
        loss = torch.sqrt(error * error + 1e-5).mean() if progress < 0.6 else 20 * (error * error).mean()
        adam.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(params, 1.0)
        adam.step()
        keep = min(0.999, (step + 1) / (step + 10))
        with torch.no_grad():
            for m, p in zip(means, params):
                m.lerp_(p, 1 - keep)
            total += (error.detach() ** 2).mean()
        step, since = step + 1, since + 1
        now = time.monotonic()
        progress = max(step / args.steps, (now - began) / args.limit)
        if now - shown > 20 or progress >= 1.0:
            mse = (total / since).item()
            print(f"{now - began:5.0f} s  step {step:6d} of {args.steps}  training {10 * math.log10(1 / mse):.2f} dB  "
                  f"{show(judge.rows(mean, device))}", flush=True)
            total.zero_()
            shown, since = time.monotonic(), 0
    return mean, step, time.monotonic() - began


def golden_tile(folder):
    """224 x 224 pixels of luma from the middle of the astronaut, as they are."""
    picture = pictures.held_out(folder).get("astronaut") or next(iter(pictures.held_out(folder).values()))
    y = pictures.luma(picture)
    top, left = min(20, y.shape[0] - SIDE), min(130, y.shape[1] - SIDE)
    return y[top:top + SIDE, left:left + SIDE].astype(np.float32)[None, None]


def write(args, net, rows, step, seconds):
    net = net.cpu().eval()
    layers = [(c.weight.detach().numpy(), c.bias.detach().numpy()) for c in net.convs]
    doc = ("Enlarges luma (0 to 1) by three: a sub-pixel convolution network over exact bicubic interpolation. "
           "Trained by models/train/train.py of gpuwire.")
    onnx.save(onnx_file.build(net.base.numpy(), layers, pictures.SCALE, SIDE, doc), str(args.out / "model.onnx"))
    tile = golden_tile(args.data)
    with torch.no_grad():
        answer = net(torch.from_numpy(tile)).numpy()
    np.save(args.out / "golden_input.npy", tile)
    np.save(args.out / "golden_output.npy", answer[0, 0, ::4, ::4])
    params = sum(p.numel() for p in net.parameters())
    lines = [f"{step} steps of {args.batch} patches in {seconds:.0f} s, seed {args.seed}",
             f"{params} trained parameters, {net.macs() / 1e9:.2f} G multiply-accumulates a tile, "
             f"sees {max(RADIUS, 2)} pixels far", "", "| held-out picture | bicubic | network | gain |",
             "| --- | --- | --- | --- |"]
    lines += [f"| {name} | {bicubic:.2f} dB | {ours:.2f} dB | {ours - bicubic:+.2f} dB |"
              for name, bicubic, ours in rows]
    (args.out / "report.txt").write_text("\n".join(lines) + "\n")
    print("\n".join(lines), flush=True)


def main():
    parser = argparse.ArgumentParser(description="train the super-resolution network")
    parser.add_argument("--data", type=pathlib.Path, required=True, help="folder that get_pictures.py filled")
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--steps", type=int, default=60000)
    parser.add_argument("--limit", type=float, default=200, help="seconds of training at most; steps are cut to fit")
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--rate", type=float, default=1.5e-3)
    parser.add_argument("--seed", type=int, default=7)
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    print(f"PyTorch {torch.__version__} on {device}", flush=True)
    torch.backends.cudnn.benchmark = True
    judge = Judge(args.data)
    print("bicubic: " + "  ".join(f"{name} {bicubic:.2f} dB" for name, _, _, bicubic in judge.cases), flush=True)
    net, step, seconds = train(args, device, judge)
    net = net.cpu()
    write(args, net, judge.rows(net, torch.device("cpu")), step, seconds)


if __name__ == "__main__":
    main()
