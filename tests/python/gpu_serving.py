# SPDX-License-Identifier: Apache-2.0
"""PyTorch modules served from a GPU, and their answers compared with eager PyTorch's. Needs a GPU, PyTorch and numpy:
scripts/gpu-check.sh runs it.

    gpu_serving.py                              the test
    gpu_serving.py ask URL MODEL FILE SECONDS   one of its clients: asks for SECONDS, and compares every answer
    gpu_serving.py tensors URL MODEL FILE       the same with tensors on the GPU
    gpu_serving.py alone URL MODEL FILE BARE    one request at a time, beside the bare graph's microseconds

Clients are processes of their own. In the server's process PyTorch allocates nothing while the server runs.
"""
import ctypes
import os
import re
import subprocess
import sys
import tempfile
import time
import unittest

os.environ.setdefault("CUDA_MODULE_LOADING", "EAGER")
os.environ.setdefault("GPUWIRE_NIC", "addr=127.0.0.1")

import numpy
import torch

import gpuwire
from gpuwire.capture import capture

SIZES = (1, 2, 4, 8)
TOLERANCE = {"pictures": 2e-3, "text": 2e-2}  # of the largest magnitude: fp32 and fp16; batch sizes have kernels of their own
LIMIT = 60


def picture_net():
    try:
        from torchvision.models import resnet50
        return resnet50()
    except ImportError:  # as much of it as matters: strided and grouped convolutions, pools, a product
        block = lambda i, o: torch.nn.Sequential(torch.nn.Conv2d(i, o, 3, 2, 1, groups=2), torch.nn.BatchNorm2d(o), torch.nn.ReLU())
        return torch.nn.Sequential(torch.nn.Conv2d(3, 64, 7, 2, 3), torch.nn.MaxPool2d(2), *(block(64 * n, 64 * (n + 1)) for n in range(1, 5)),
                                   torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(), torch.nn.Linear(320, 1000))


class Encoder(torch.nn.Module):
    """A transformer over token ids with a mask: BERT's shape, of PyTorch's own parts."""

    def __init__(self, layers=4, width=256):
        super().__init__()
        self.embedding = torch.nn.Embedding(1000, width)
        layer = torch.nn.TransformerEncoderLayer(width, 4, 4 * width, batch_first=True, activation="gelu")
        self.encoder = torch.nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)

    def forward(self, input_ids, attention_mask):
        hidden = self.encoder(self.embedding(input_ids), src_key_padding_mask=attention_mask == 0)
        return {"last_hidden_state": hidden, "pooled": hidden[:, 0]}


def text_net():
    try:
        from transformers import BertConfig, BertModel
        config = BertConfig(hidden_size=256, num_hidden_layers=4, num_attention_heads=4, intermediate_size=1024, vocab_size=1000,
                            attn_implementation="sdpa")  # "eager" copies from the host as it runs
        return BertModel(config)
    except ImportError:
        return Encoder()


def eager(module, inputs):
    with torch.inference_mode():
        result = module(**inputs) if len(inputs) > 1 else module(*inputs.values())
    if torch.is_tensor(result):
        result = {"output": result}
    return {k: v for k, v in result.items() if torch.is_tensor(v)}


def save(path, module, inputs):
    """Inputs and expected outputs of eight samples, for clients to compare with."""
    arrays = {"in_" + k: v.cpu().numpy() for k, v in inputs.items()}
    arrays.update({"out_" + k: v.float().cpu().numpy() for k, v in eager(module, inputs).items()})
    numpy.savez(path, **arrays)


def compare(answer, expected, first, rows, tolerance):
    answer = answer if isinstance(answer, dict) else {next(iter(expected)): answer}
    assert set(answer) == set(expected), (set(answer), set(expected))
    for name, want in expected.items():
        got = answer[name].float().cpu().numpy() if torch.is_tensor(answer[name]) else answer[name].astype("float32")
        part = want[first:first + rows]
        worst = numpy.abs(got - part).max() / max(numpy.abs(want).max(), 1e-9)
        assert got.shape == part.shape and worst < tolerance, f"{name}: {got.shape} for {part.shape}, off by {worst:.2g}"


def load(path):
    data = numpy.load(path)
    return ({k[3:]: data[k] for k in data if k.startswith("in_")}, {k[4:]: data[k] for k in data if k.startswith("out_")})


def ask(url, model, path, seconds):
    inputs, expected = load(path)
    draw = numpy.random.default_rng(os.getpid())
    asked, end = 0, time.monotonic() + seconds
    with gpuwire.Client(url, model) as client:
        while time.monotonic() < end:
            flying = []
            for _ in range(min(4, client.slots)):
                rows = int(draw.integers(1, 5))
                first = int(draw.integers(0, 9 - rows))
                flying.append((first, rows, client.infer_async({k: v[first:first + rows] for k, v in inputs.items()})))
            for first, rows, future in flying:
                compare(future.result(LIMIT), expected, first, rows, TOLERANCE[model])
                asked += 1
    print(f"{asked} answers of {model} are right")


def ask_with_tensors(url, model, path):
    inputs, expected = load(path)
    tensors = {k: torch.from_numpy(v).cuda() for k, v in inputs.items()}
    with gpuwire.Client(url, model) as client:
        for first in range(8):
            answer = client.infer({k: v[first:first + 1] for k, v in tensors.items()}, timeout=LIMIT)
            one = answer if torch.is_tensor(answer) else next(iter(answer.values()))
            assert one.is_cuda, one.device
            compare(answer, expected, first, 1, TOLERANCE[model])
        direct = bool(client._regions._known)
    print(f"tensors on the GPU are right; sent {'from where they lie' if direct else 'by way of the host'}")


def ask_alone(url, model, path, bare):
    inputs = {k: v[:1] for k, v in load(path)[0].items()}
    with gpuwire.Client(url, model) as client:
        futures = []
        for _ in range(300):
            futures.append(client.infer_async(inputs))
            futures[-1].result(LIMIT)
    model_us, total_us = (sorted(getattr(f.times, part) for f in futures)[150] * 1e6 for part in ("model", "total"))
    print(f"measured: {model}: bare graph {bare:.0f} us, served {model_us:.0f} us, ratio {model_us / bare:.3f}; from client to "
          f"client {total_us:.0f} us (medians of 300)")


def replay_us(module, example):
    """The bare graph's time, in microseconds: the median of some hundred replays."""
    graph = capture(module, example, (1,), "bare").variants[0].keep[0]
    graph.instantiate()
    times = []
    for _ in range(300):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        graph.replay()
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end) * 1e3)
    return sorted(times)[len(times) // 2]


class Softmax(torch.nn.Module):
    """Over the samples, and so over what several clients have sent."""

    def forward(self, x):
        return torch.softmax(x, 0)


class HostCall(torch.nn.Module):
    """Has the host called in the midst of its graph, which a GPU cannot do by itself."""

    def __init__(self):
        super().__init__()
        path = next(l.split()[-1] for l in open("/proc/self/maps") if re.search(r"libcudart[^/]*\.so", l))
        self.launch = ctypes.CDLL(path).cudaLaunchHostFunc
        self.function = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(lambda argument: None)

    def forward(self, x):
        y = x * 2
        self.launch(ctypes.c_void_p(torch.cuda.current_stream().cuda_stream), self.function, None)
        return y + 1


class Serving(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        torch.manual_seed(1)
        torch.backends.cudnn.allow_tf32 = False  # batch sizes differ less
        cls.folder = tempfile.TemporaryDirectory()
        cls.path = {n: os.path.join(cls.folder.name, n + ".npz") for n in ("pictures", "text", "text_again")}
        cls.pictures = picture_net().cuda().eval()
        cls.text, cls.text_again = (text_net().half().cuda().eval() for _ in range(2))
        pictures = {"x": torch.rand(8, 3, 224, 224, device="cuda")}
        ids = {"input_ids": torch.randint(1000, (8, 64), device="cuda"),
               "attention_mask": torch.ones(8, 64, dtype=torch.int64, device="cuda")}
        ids["attention_mask"][:, 48:] = 0
        save(cls.path["pictures"], cls.pictures, pictures)
        save(cls.path["text"], cls.text, ids)
        save(cls.path["text_again"], cls.text_again, ids)
        cls.bare = {"pictures": replay_us(cls.pictures, pictures["x"][:1]),
                    "text": replay_us(cls.text, {k: v[:1] for k, v in ids.items()})}
        torch.cuda.synchronize()
        torch.cuda.empty_cache()
        cls.examples = {"pictures": pictures["x"][:1].clone(), "text": {k: v[:1].clone() for k, v in ids.items()}}
        cls.server = gpuwire.Server(port=0, exec="gpu")

    @classmethod
    def tearDownClass(cls):
        cls.server.close()
        cls.folder.cleanup()

    def start(self, *arguments):
        process = subprocess.Popen([sys.executable, __file__, *map(str, arguments)], stdout=subprocess.PIPE,
                                   stderr=subprocess.STDOUT, text=True)
        self.addCleanup(process.kill)
        return process

    def finish(self, *processes):
        for process in processes:
            out = process.communicate(timeout=LIMIT)[0]
            self.assertEqual(process.returncode, 0, out)
            print(out.strip(), flush=True)

    def ask(self, model, path, seconds):
        return self.start("ask", self.server.url, model, self.path[path], seconds)

    def test_1_two_models_many_clients(self):
        self.server.add(self.pictures, self.examples["pictures"], name="pictures", input_names=["x"])
        self.server.add(self.text, self.examples["text"], name="text", batch_sizes=(1, 4), max_delay=0.001)
        self.finish(*[self.ask(model, model, 4) for model in ("pictures", "text") for _ in range(3)])
        for model in ("pictures", "text"):
            stats = self.server.stats(model)
            print(f"{model}: {stats}", flush=True)
            self.assertEqual((stats["failures"], stats["late"]), (0, 0))
            self.assertLess(stats["executions"], stats["inferences"])  # some ran together

    def test_3_one_client_alone(self):
        """What the server adds to the model's own time, one request at a time."""
        for model in ("pictures", "text"):
            self.finish(self.start("alone", self.server.url, model, self.path[model], self.bare[model]))

    def test_4_reload_and_stop_while_another_serves(self):
        other = self.ask("pictures", "pictures", 6)
        time.sleep(1)
        self.server.reload("text", self.text_again)
        self.finish(self.ask("text", "text_again", 1))
        self.server.stop("text")
        with self.assertRaises(gpuwire.NotFound):
            gpuwire.Client(self.server.url, "text")
        self.finish(other)

    def test_5_what_the_gpu_cannot_launch_is_named(self):
        with self.assertRaises(gpuwire.Unsupported) as raised:
            self.server.add(HostCall(), torch.zeros(1, 4, device="cuda"), name="host", batch_sizes=(1,))
        print(raised.exception, flush=True)
        self.assertIn("a host function", str(raised.exception))
        self.finish(self.ask("pictures", "pictures", 1))

    def test_5_rows_that_meet_take_no_batches(self):
        self.server.add(Softmax(), torch.rand(2, 4, device="cuda"), name="meets")
        self.assertEqual(list(self.server.stats("meets")["batches"]), [1])
        self.server.stop("meets")
        self.finish(self.ask("pictures", "pictures", 1))

    def test_6_over_http(self):
        self.finish(self.start("tensors", self.server.url.replace("rdma", "http"), "pictures", self.path["pictures"]))

    def test_7_tensors_on_the_gpu(self):
        """A client whose own GPU memory the server's NIC had open comes and goes, twice: the others do not notice."""
        other = self.ask("pictures", "pictures", 12)
        for _ in range(2):
            self.finish(self.start("tensors", self.server.url, "pictures", self.path["pictures"]))
            self.finish(self.ask("pictures", "pictures", 1))
        self.finish(other)


if __name__ == "__main__":
    if sys.argv[1:2] == ["ask"]:
        ask(sys.argv[2], sys.argv[3], sys.argv[4], float(sys.argv[5]))
    elif sys.argv[1:2] == ["tensors"]:
        ask_with_tensors(*sys.argv[2:5])
    elif sys.argv[1:2] == ["alone"]:
        ask_alone(*sys.argv[2:5], float(sys.argv[5]))
    else:
        unittest.main(verbosity=2)
