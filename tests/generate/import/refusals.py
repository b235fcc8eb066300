#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Folders that are damaged, hostile or not supported: each is refused with one line that names the place.

    refusals.py LOGITS STORYTELLER      the program of logits.c; the folder models/storyteller
"""
import json
import os
import pathlib
import shutil
import struct
import subprocess
import sys
import tempfile

DATA = pathlib.Path(__file__).resolve().parent / "data/onnx"


def safetensors(header, data=b""):
    text = json.dumps(header).encode() if isinstance(header, dict) else header
    return struct.pack("<Q", len(text)) + text + data


def read(path):
    """The header of a safetensors file, and its data."""
    raw = path.read_bytes()
    n, = struct.unpack_from("<Q", raw)
    return json.loads(raw[8:8 + n]), raw[8 + n:]


def config(**more):
    """Changes fields of config.json; None takes one away."""
    def change(folder):
        c = json.loads((folder / "config.json").read_text())
        c.update(more)
        (folder / "config.json").write_text(json.dumps({k: v for k, v in c.items() if v is not None}))
    return change


def text(name, content):
    def change(folder):
        (folder / name).unlink(missing_ok=True)
        (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    return change


def tensor(name, **more):
    """Changes what the header says of a tensor; with nothing to change, takes it away."""
    def change(folder):
        header, data = read(folder / "model.safetensors")
        if more:
            header[name].update(more)
        else:
            del header[name]
        (folder / "model.safetensors").write_bytes(safetensors(header, data))
    return change


def cut(name, size):
    return lambda folder: os.truncate(folder / name, size)


def both(*changes):
    return lambda folder: [change(folder) for change in changes]


def link(name, target):
    def change(folder):
        (folder / name).unlink()
        (folder / name).symlink_to(target)
    return change


def index(weight_map):
    return both(lambda folder: (folder / "model.safetensors").rename(folder / "part.safetensors"),
                text("model.safetensors.index.json", json.dumps({"weight_map": weight_map})))


def twice(folder):
    """Two parts with the same tensors."""
    shutil.copy(folder / "model.safetensors", folder / "again.safetensors")
    index({"a": "part.safetensors", "b": "again.safetensors"})(folder)


def fifo(name):
    def change(folder):
        (folder / name).unlink()
        os.mkfifo(folder / name)
    return change


def patch(old, new):
    """The same number of bytes in model.onnx."""
    def change(folder):
        raw = (folder / "model.onnx").read_bytes()
        assert raw.count(old) and len(old) == len(new)
        (folder / "model.onnx").write_bytes(raw.replace(old, new, 1))
    return change


def genai(**more):
    """Changes fields of the decoder in genai_config.json."""
    def change(folder):
        c = json.loads((folder / "genai_config.json").read_text())
        c["model"]["decoder"].update(more)
        (folder / "genai_config.json").write_text(json.dumps(c))
    return change


Q = "model.layers.2.self_attn.q_proj.weight"
ROPE = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 4.0, "high_freq_factor": 1.0}
STORYTELLER = [  # what is changed; what the line must say
    (config(model_type="mamba"), "model_type 'mamba' is not supported; known are llama, mistral"),
    (config(model_type=None), "model_type '' is not supported"),
    (config(model_type="x" * 100), "model_type: expected a string"),
    (config(hidden_size=None), "hidden_size, intermediate_size"),
    (config(hidden_size=0), "hidden_size: expected an integer from 1"),
    (config(hidden_size=-128), "hidden_size: expected an integer"),
    (config(hidden_size="128"), "hidden_size: expected an integer"),
    (config(hidden_size=1 << 40), "hidden_size: expected an integer"),
    (config(hidden_size=256), "'model.embed_tokens.weight' has shape [1024, 128]; expected [1024, 256]"),
    (config(vocab_size=1023), "'model.embed_tokens.weight' has shape [1024, 128]"),
    (config(num_hidden_layers=5), "tensor 'model.layers.4.input_layernorm.weight' is missing"),
    (config(num_hidden_layers=10 ** 9), "num_hidden_layers: expected"),
    (config(num_attention_heads=3), "q_proj.weight' has shape [128, 128]; expected [192, 128]"),
    (config(num_attention_heads=1 << 14, head_dim=1024), "expected [16777216, 128]"),
    (config(num_key_value_heads=3), "k_proj.weight' has shape [64, 128]; expected [192, 128]"),
    (config(head_dim=1), "0 of a head's elements turn"),
    (config(hidden_act="softplus"), "hidden_act: 'softplus' is not supported"),
    (config(hidden_act="\033[31mred"), "hidden_act: ' [31mred' is not supported"),
    (config(vocab_size="\u0001"), "vocab_size: expected"),
    (config(rms_norm_eps=-1), "rms_norm_eps: expected a number from 0"),
    (config(rope_theta=0), "rope_theta: expected a number"),
    (config(rope_scaling={"rope_type": "spiral"}), "rope_scaling: type 'spiral' is not supported"),
    (config(rope_scaling=ROPE), "high_freq_factor must exceed"),
    (config(rope_scaling=[1]), "rope_scaling: expected an object"),
    (config(rope_scaling={"rope_type": "longrope", "short_factor": [1.0] * 3}), "short_factor: expected 32 numbers"),
    (config(tie_word_embeddings=1), "tie_word_embeddings: expected true or false"),
    (config(quantization_config={"bits": 4}), "quantization_config"),
    (config(attention_bias=True), "tensor 'model.layers.0.self_attn.q_proj.bias' is missing"),
    (config(model_type="qwen3"), "q_norm.weight' is missing"),
    (text("config.json", "{"), "config.json: line 1"),
    (text("config.json", '{"a": \033}'), "config.json: line 1"),
    (text("config.json", "[]"), "config.json: not a JSON object"),
    (text("config.json", ""), "config.json: line"),
    (text("config.json", '{"a": 1, "a": 2}'), "duplicate"),
    (text("config.json", "[" * 100000), "config.json: line 1"),
    (text("config.json", " " * (2 << 20)), "there must be at most 1048576"),
    (lambda folder: (folder / "config.json").unlink(), "no model lies there"),
    (fifo("config.json"), "config.json: not a regular file"),
    (fifo("model.safetensors"), "model.safetensors: not a regular file"),
    (lambda folder: (folder / "model.safetensors").unlink(), "it has no model.safetensors and no model.safetensors.index"),
    (text("generation_config.json", '{"eos_token_id": 1024}'), "eos_token_id: expected tokens below 1024"),
    (text("generation_config.json", '{"eos_token_id": %s}' % list(range(17))), "there must be at most 16"),
    (text("generation_config.json", '{"temperature": -1}'), "temperature: expected a number"),
    (text("generation_config.json", '{"top_p": 1.5}'), "top_p: expected a number"),
    (text("generation_config.json", '{"top_k": 1e400}'), "generation_config.json: line 1"),
    (cut("model.safetensors", 0), "it ends within its header"),
    (cut("model.safetensors", 7), "it ends within its header"),
    (cut("model.safetensors", 500), "it ends within its header"),
    (cut("model.safetensors", 1000000), "its place is not in the file"),
    (text("model.safetensors", safetensors(b"nonsense")), "model.safetensors: line 1"),
    (text("model.safetensors", safetensors(b"[]")), "not a JSON object"),
    (text("model.safetensors", safetensors(b" " * (17 << 20))), "its header has more than"),
    (text("model.safetensors", struct.pack("<Q", (1 << 64) - 1)), "it ends within its header"),
    (tensor(Q), f"tensor '{Q}' is missing"),
    (tensor(Q, dtype="F32"), "its place is not in the file"),
    (tensor(Q, dtype="I16"), f"'{Q}' has type I16"),
    (tensor(Q, dtype="F4"), "type 'F4' is not supported"),
    (tensor(Q, dtype=5), "type '' is not supported"),
    (tensor(Q, shape=[64, 256]), f"'{Q}' has shape [64, 256]; expected [128, 128]"),
    (tensor(Q, shape=[16384]), f"'{Q}' has shape [16384]; expected [128, 128]"),
    (tensor(Q, shape=[1 << 62, 1 << 62]), "its shape is none"),
    (tensor(Q, shape=[-1, 128]), "its shape is none"),
    (tensor(Q, shape=[128, 128, 1, 1, 1]), "its shape is none"),
    (tensor(Q, shape="128"), "its shape is none"),
    (tensor(Q, data_offsets=[0, 1 << 40]), "its place is not in the file"),
    (tensor(Q, data_offsets=[-32768, 0]), "its place is not in the file"),
    (tensor(Q, data_offsets=[32768, 0]), "its place is not in the file"),
    (tensor(Q, data_offsets=[0]), "its place is not in the file"),
    (index({"a": "../part.safetensors"}), "'a' lies in no file of the folder"),
    (index({"a": "/etc/passwd"}), "'a' lies in no file of the folder"),
    (index({"a": 1}), "'a' lies in no file of the folder"),
    (index({"a": "gone.safetensors"}), "gone.safetensors: there is no such file"),
    (index({}), "tensor 'embed_tokens.weight' is missing"),
    (index([]), "weight_map: expected an object"),
    (twice, "two tensors are called"),
]
BYTES = [
    (lambda folder: (folder / "model.onnx").unlink(), "model.onnx: No such file"),
    (cut("model.onnx", 1000), "not an ONNX model, or truncated"),
    (cut("model.onnx.data", 1000), "external data: the file ends before the tensor does"),
    (lambda folder: (folder / "model.onnx.data").unlink(), "external data 'model.onnx.data': No such file"),
    (link("model.onnx.data", "/etc/passwd"), "goes through a link"),
    (fifo("model.onnx.data"), "not a regular file"),
    (patch(b"\x22\x13GroupQueryAttention", b"\x22\x13GroupQueryAttentioX"), "(GroupQueryAttentioX): this operator is not"),
    (patch(b"SkipSimplifiedLayerNormalization", b"SkipSimplifiedLayerNormalizatioX"),
     "node '/model/layers.0/post_attention_layernorm/SkipLayerNorm' (SkipSimplifiedLayerNormalizati): this operator is not"),
    (patch(b"past_key_values.0.key", b"past_key_values.1.key"), "the past keys and values of one layer"),
    (patch(b"do_rotary", b"du_rotary"), "(GroupQueryAttention): attribute 'du_rotary' is not supported"),
    (genai(inputs={"past_key_names": "past.%d.key"}), "the input 'past_key_values.0.key' is not supported"),
    (genai(inputs={"input_ids": "ids"}), "the input 'input_ids' is not supported"),
    (genai(outputs={"logits": "scores"}), "no rows of logits are made as 'scores'"),
    (genai(outputs={"logits": "/model/embed_tokens/Gather/output_0"}), "no product makes the logits"),
    (genai(outputs={"logits": "attention_mask"}), "no rows of logits are made as 'attention_mask'"),
    (genai(filename="../bytes/model.onnx"), "is no file of the folder"),
    (genai(pipeline=[]), "a model of several files is not supported"),
    (text("genai_config.json", '{"model": 5}'), "model: expected an object"),
    (text("genai_config.json", '{"model": {}}'), "'decoder' is missing"),
]


def refused(logits, base, change, want):
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch) / base.name
        shutil.copytree(base, folder)
        change(folder)
        done = subprocess.run([logits, folder], capture_output=True, check=False, timeout=120)
        said = done.stderr.decode(errors="replace")
    if done.returncode == 1 and want in said and said.count("\n") == 1 and said.rstrip("\n").isprintable():
        return True
    print(f"expected '{want}'; exit code {done.returncode}: {said.strip()}", flush=True)
    return False


def main():
    logits, storyteller = sys.argv[1], pathlib.Path(sys.argv[2])
    bad = [want for change, want in STORYTELLER if not refused(logits, storyteller, change, want)]
    bad += [want for change, want in BYTES if not refused(logits, DATA / "bytes", change, want)]
    if bad:
        sys.exit(f"{len(bad)} of {len(STORYTELLER) + len(BYTES)} refusals are not as they must be")


if __name__ == "__main__":
    main()
