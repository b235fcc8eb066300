#!/usr/bin/env python3
"""GPU plans of ONNX models beside PyTorch's captured graphs, in turn: medians, the ratio, and how far results differ.

    model_torch.py MODEL_BENCH [--models a,b] [--batches 1,8] [--kinds fp32,tf32,f16] [--compile] [--rounds 3]

Needs PyTorch with CUDA, torchvision, and for bert transformers. Models have random weights from a fixed seed. Each round
measures PyTorch's graph, then ours, each 20 launches in a row, many times. Prints CSV. With --compile the peer is
torch.compile's graph.
"""
import argparse
import copy
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time

import torch


def torchvision_model(name):
    import torchvision
    return getattr(torchvision.models, name)(weights=None)


class Bert(torch.nn.Module):
    """BERT-base on 128 tokens without padding."""

    def __init__(self):
        super().__init__()
        import transformers
        config = transformers.BertConfig(attn_implementation="eager")
        self.bert = transformers.BertModel(config, add_pooling_layer=False)
        self.register_buffer("types", torch.zeros(1, 128, dtype=torch.int64))
        self.register_buffer("positions", torch.arange(128)[None])

    def forward(self, ids):
        x = self.bert.embeddings(input_ids=ids, token_type_ids=self.types.expand(ids.shape[0], 128),
                                 position_ids=self.positions)
        return self.bert.encoder(x)[0]


def settle_norms(model):
    """Statistics as after training: without them activations grow from layer to layer."""
    for m in model.modules():
        if isinstance(m, torch.nn.BatchNorm2d):
            m.reset_running_stats()
            m.momentum = None


def make(name, batch):
    torch.manual_seed(1)
    if name == "bert":
        model = Bert()
        x = torch.randint(1, 30000, (batch, 128))
    else:
        model = torchvision_model(name)
        for m in model.modules():  # some start with zeros, and all answers would be 0
            if isinstance(m, torch.nn.Linear):
                torch.nn.init.normal_(m.weight, std=m.in_features**-0.5)
        x = torch.randn(batch, 3, 224, 224)
        settle_norms(model)
        model.train()
        with torch.no_grad():
            model(torch.randn(4, 3, 224, 224))
    return model.eval(), x


def export(model, x, path):
    import torch.onnx
    model = model.cpu()
    for name in ("torch.onnx.utils", "torch.onnx._internal.torchscript_exporter.utils"):
        try:
            __import__(name)
        except ImportError:
            pass
    try:
        import onnx  # noqa: F401
    except ImportError:  # it would only add functions that none of these models has
        for m in list(sys.modules.values()):
            if hasattr(m, "_add_onnxscript_fn"):
                m._add_onnxscript_fn = lambda data, *rest: data
    kwargs = {"opset_version": 17, "input_names": ["x"], "output_names": ["y"]}
    try:
        torch.onnx.export(model, (x,), path, dynamo=False, **kwargs)
    except TypeError:
        torch.onnx.export(model, (x,), path, **kwargs)


def peer(model, x, kind, compiled):
    """PyTorch's graph: a function that launches it, and its result."""
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = kind == "tf32"
    model = model.cuda()
    x = x.cuda()
    if kind == "f16":
        model = model.half()
        x = x.half() if x.is_floating_point() else x
    run = torch.compile(model) if compiled else model
    stream = torch.cuda.Stream()
    with torch.inference_mode(), torch.cuda.stream(stream):
        for _ in range(3):
            y = run(x)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.inference_mode(), torch.cuda.graph(graph):
        y = run(x)
    return graph, y


def measure(graph, runs=100):
    times = []
    for i in range(runs + 5):
        torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(20):
            graph.replay()
        torch.cuda.synchronize()
        times.append((time.perf_counter() - start) / 20 * 1e6)
    return statistics.median(times[5:])


def ours(program, path, kind, rows, feed, result):
    flags = {"fp32": [], "tf32": ["--tf32"], "f16": ["--f16"]}[kind]
    out = subprocess.run([program, path, "--exec", "gpu", "--runs", "100", "--feed", feed, "--out", result,
                          "--rows", str(rows)] + flags, capture_output=True, text=True, timeout=200)
    found = re.search(r"gpu, kernels: p50 ([0-9.]+) us", out.stdout)
    if not found:
        raise RuntimeError((out.stderr.strip() or out.stdout.strip() or f"exit code {out.returncode}")[-300:])
    kernels = re.search(r"(\d+) kernels.*planned in ([0-9.]+) s", out.stdout)
    return float(found.group(1)), kernels.group(1), kernels.group(2), out.stderr.strip()


def prepare(folder, name, batch):
    """The model, its input, the file's path, and what it should give."""
    model, x = make(name, batch)
    path = os.path.join(folder, f"{name}-{batch}.onnx")
    with torch.no_grad():
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
        want = model.cuda()(x.cuda()).float().cpu()
    export(model, x, path)
    return model, x, path, want


def row(args, folder, name, batch, kind, prepared):
    model, x, path, want = prepared
    feed, result = (os.path.join(folder, f) for f in ("in.bin", "out.bin"))
    x.numpy().tofile(feed)
    graph, answer = peer(copy.deepcopy(model), x, kind, args.compile)
    theirs, mine = [], []
    for _ in range(args.rounds):
        theirs.append(measure(graph))
        t, kernels, planned, said = ours(args.program, path, kind, args.rows(batch), feed, result)
        mine.append(t)
    got = torch.from_file(result, size=want.numel(), dtype=torch.float32).reshape(want.shape)
    largest = want.abs().max()
    worst = ((got - want).abs().max() / largest).item()
    theirs_worst = ((answer.float().cpu() - want).abs().max() / largest).item()
    a, b = statistics.median(mine), statistics.median(theirs)
    print(f"{name},{batch},{kind},{'compile' if args.compile else 'graph'},{a:.1f},{b:.1f},{a / b:.2f},"
          f"{worst:.1e},{theirs_worst:.1e},{kernels},{planned}", flush=True)
    if said:
        print(f"# {said}", flush=True)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("program")
    p.add_argument("--models", default="squeezenet1_1,resnet18,resnet50,mobilenet_v2,efficientnet_b0,vit_b_16,convnext_tiny,bert")
    p.add_argument("--batches", default="1,8")
    p.add_argument("--kinds", default="fp32,tf32,f16")
    p.add_argument("--compile", action="store_true")
    p.add_argument("--rounds", type=int, default=3)
    args = p.parse_args()
    args.rows = lambda batch: 1  # the file fixes the batch
    print("model,batch,kind,peer,ours us,peer us,ratio,difference,peer's difference,kernels,planned s", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        for name in args.models.split(","):
            for batch in (int(b) for b in args.batches.split(",")):
                prepared = None
                for kind in args.kinds.split(","):
                    try:
                        prepared = prepared or prepare(folder, name, batch)
                        row(args, folder, name, batch, kind, prepared)
                    except Exception as e:  # the next row may do
                        print(f"# {name} {batch} {kind}: {str(e).splitlines()[0] if str(e) else e!r}", flush=True)


if __name__ == "__main__":
    main()
