#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Exports well-known networks to ONNX, and compares what gpuwire makes of them with ONNX Runtime.

    python3 -m pip install torch torchvision timm transformers onnx onnxscript onnxruntime
    python3 zoo.py FOLDER [--build build] [--threads 1] [--runs 30] [--cpu-time] [NAME ...]

The weights are random, with a fixed seed: nothing is downloaded. For each model: `gpuwire check` reads it, model_bench runs it
on the CPU with fixed inputs, and the outputs are compared; the times are medians, taken in turn. With --cpu-time they are
processor time, for machines that others use, too. Prints a table.
"""
import argparse
import inspect
import pathlib
import re
import statistics
import subprocess
import time

import numpy as np
import torch


def image_model(name):
    import torchvision
    return torchvision.models.get_model(name, weights=None), (torch.zeros(1, 3, 224, 224),)


def timm_model(name):
    import timm
    return timm.create_model(name), (torch.zeros(1, 3, 224, 224),)


def bert():
    from transformers import BertConfig, BertModel
    net = BertModel(BertConfig(attn_implementation="eager"))

    class Encoder(torch.nn.Module):
        def forward(self, ids, mask):
            return net(input_ids=ids, attention_mask=mask).last_hidden_state

    wrapped = Encoder()
    wrapped.net = net
    return wrapped, (torch.ones(1, 128, dtype=torch.int64), torch.ones(1, 128, dtype=torch.int64))


def detector_backbone():
    from torchvision.models.detection.backbone_utils import resnet_fpn_backbone

    class Backbone(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.net = resnet_fpn_backbone(backbone_name="resnet50", weights=None)

        def forward(self, x):
            return tuple(self.net(x).values())

    return Backbone(), (torch.zeros(1, 3, 320, 320),)


ZOO = {n: (lambda n=n: image_model(n)) for n in
       ("squeezenet1_1", "resnet18", "resnet50", "mobilenet_v2", "mobilenet_v3_large", "efficientnet_b0", "densenet121",
        "shufflenet_v2_x1_0", "regnet_y_400mf", "googlenet", "convnext_tiny", "vit_b_16", "swin_t")}
ZOO |= {"timm." + n: (lambda n=n: timm_model(n)) for n in ("deit_tiny_patch16_224", "ghostnet_100", "tf_efficientnet_b0")}
ZOO |= {"bert_base": bert, "resnet50_fpn": detector_backbone}


def export(name, path):
    torch.manual_seed(1)
    net, args = ZOO[name]()
    net = net.eval()
    for m in net.modules():  # as after training: statistics other than 0 and 1
        if isinstance(m, torch.nn.BatchNorm2d):
            torch.nn.init.uniform_(m.running_mean, -0.1, 0.1)
            torch.nn.init.uniform_(m.running_var, 0.5, 1.5)
        if isinstance(m, torch.nn.Linear) and not m.weight.any():  # a head that begins as 0 would hide everything
            torch.nn.init.normal_(m.weight)
    names = [f"x{i}" for i in range(len(args))]
    newer = {"dynamo": False} if "dynamo" in inspect.signature(torch.onnx.export).parameters else {}
    torch.onnx.export(net, args, str(path), opset_version=17, input_names=names,
                      dynamic_axes={n: {0: "batch"} for n in names}, **newer)


def inputs(session):
    """What model_bench writes into its inputs."""
    feeds = {}
    for i in session.get_inputs():
        shape = [d if isinstance(d, int) else 1 for d in i.shape]
        kind = np.int64 if "int64" in i.type else np.float32
        ramp = np.arange(np.prod(shape)) % 255
        feeds[i.name] = (ramp % 2 if kind is np.int64 else ramp / 255).astype(kind).reshape(shape)
    return feeds


def ours(tools, path, args, out):
    run = subprocess.run([str(tools / "model_bench"), str(path), "--threads", str(args.threads), "--runs", str(args.runs), "--out",
                          str(out)] + ["--cpu-time"] * args.cpu_time, capture_output=True, text=True, check=True)
    return float(re.search(r"p50 ([\d.]+) us", run.stdout).group(1)) / 1000


def theirs(path, args):
    import onnxruntime
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = args.threads
    options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    feeds = inputs(session)
    for _ in range(3):
        outs = session.run(None, feeds)
    times, clock = [], time.process_time if args.cpu_time else time.perf_counter
    for _ in range(args.runs):
        start = clock()
        session.run(None, feeds)
        times.append(clock() - start)
    return statistics.median(times) * 1000, outs


def one(name, args):
    path = pathlib.Path(args.folder) / f"{name}.onnx"
    tools = pathlib.Path(args.build) / "bin"
    if not path.exists():
        export(name, path)
    check = subprocess.run([str(tools / "gpuwire"), "check", str(path)], capture_output=True, text=True)
    if check.returncode:
        return f"| {name} | refused: {check.stdout.strip().splitlines()[0] if check.stdout else check.stderr.strip()} | | | |"
    ms, out = [], path.with_suffix(".bin")
    ref_ms, refs = theirs(path, args)
    for _ in range(3):  # in turn, so that both see the same neighbours
        ms.append((ours(tools, path, args, out), theirs(path, args)[0]))
    got = np.fromfile(out, np.float32)
    want = np.concatenate([r.ravel().astype(np.float32) for r in refs])
    worst = np.abs(got - want).max() / np.abs(want).max()
    a, b = (statistics.median(t) for t in zip(*ms))
    return f"| {name} | {worst:.1e} | {a:.1f} | {b:.1f} | {a / b:.2f} |"


def main():
    p = argparse.ArgumentParser()
    p.add_argument("folder")
    p.add_argument("names", nargs="*")
    p.add_argument("--build", default="build")
    p.add_argument("--threads", type=int, default=1)
    p.add_argument("--runs", type=int, default=30)
    p.add_argument("--cpu-time", action="store_true")
    p.add_argument("--export-only", action="store_true")
    args = p.parse_args()
    pathlib.Path(args.folder).mkdir(parents=True, exist_ok=True)
    if args.export_only:
        for name in args.names or ZOO:
            export(name, pathlib.Path(args.folder) / f"{name}.onnx")
        return
    print("| model | worst difference | gpuwire, ms | ONNX Runtime, ms | ratio |\n| --- | --- | --- | --- | --- |")
    for name in args.names or ZOO:
        print(one(name, args), flush=True)


if __name__ == "__main__":
    main()
