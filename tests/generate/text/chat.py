# SPDX-License-Identifier: Apache-2.0
"""Chat templates, ours against Jinja's: chat.py CHAT_PIPE. Jinja is set up as transformers does it. Templates of families with random
messages, and small templates for each filter, test, method and rule."""
import datetime
import functools
import glob
import json
import os
import random
import struct
import subprocess
import sys

import jinja2
import jinja2.ext
import jinja2.sandbox

import snippets

TOKENS = {"bos_token": "<s>", "eos_token": "</s>"}


class Generation(jinja2.ext.Extension):
    """{% generation %}, which transformers adds: here only its body."""
    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.If(jinja2.nodes.Const(True), body, [], [], lineno=line)


def refuse(message):
    raise jinja2.TemplateError(message)


def dumps(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


env = jinja2.sandbox.ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols])
env.filters["tojson"] = dumps
env.globals["raise_exception"] = refuse
env.globals["strftime_now"] = lambda form: datetime.datetime.now().strftime(form)


compiled = functools.lru_cache(None)(env.from_string)


def jinja(template, variables):
    try:
        return compiled(template).render(**TOKENS, **variables)
    except Exception as e:  # whatever fails there must fail here
        return e


pipe = subprocess.Popen([sys.argv[1]], stdin=subprocess.PIPE, stdout=subprocess.PIPE)


def ours(template, variables):
    ask = json.dumps({"template": template, "tokens": TOKENS, "variables": variables}).encode()
    pipe.stdin.write(struct.pack("=I", len(ask)) + ask)
    pipe.stdin.flush()
    kind = pipe.stdout.read(1)
    n = struct.unpack("=I", pipe.stdout.read(4))[0]
    text = pipe.stdout.read(n)
    return (text.decode(), pipe.stdout.read(n)) if kind == b"t" else RuntimeError(text.decode())


def marks_of(text):
    """What our own bytes are: strangers' texts are made of characters that templates do not have."""
    return b"".join((b"\1" if foreign(c) else b"\0") * len(c.encode()) for c in text)


def foreign(c):
    return 0xA000 <= ord(c) < 0xA48D


def said(r):
    """What a stranger says. Its spaces are not told from the template's, so here it has none inside."""
    return "".join(chr(r.randrange(0xA000, 0xA48D)) for _ in range(r.randint(0, 6)))


def parameters(r, depth=0):
    kind = r.choice(["string", "integer", "object", "array", None] if depth < 2 else ["string", "number"])
    spec = {"description": said(r)} if r.random() < 0.3 else {}
    if kind:
        spec["type"] = kind
    if kind == "object" or not depth:
        spec["type"] = "object"
        spec["properties"] = {said(r) or "x": parameters(r, depth + 1) for _ in range(r.randint(0, 3))}
        if r.random() < 0.5:
            spec["required"] = list(spec["properties"])[:1]
    if kind == "array" and r.random() < 0.7:
        spec["items"] = parameters(r, depth + 1)
    if kind == "string" and r.random() < 0.3:
        spec["enum"] = [said(r), r.randint(0, 5), r.random(), True, None]
    return spec


def conversation(r):
    messages = [{"role": "system", "content": said(r)}] if r.random() < 0.4 else []
    for i in range(r.randint(1, 5)):
        role = ["user", "assistant"][i % 2] if r.random() < 0.95 else "tool"
        content = said(r)
        if r.random() < 0.3:
            content = r.choice(["\n", " ", "  \n"]) + content + r.choice([" ", "\n\n"])
        if role == "assistant" and r.random() < 0.3:
            content = "<think>\n" + said(r) + "\n</think>\n\n" + content
        message = {"role": role, "content": content}
        if role == "assistant" and r.random() < 0.3:
            message["tool_calls"] = [{"id": r.choice(["abcdefghi", "x"]), "type": "function", "function": {
                "name": said(r), "arguments": {said(r): r.choice([1, 2.5, -1e-7, 1e22, True, None, said(r), [said(r)], {}])}}}
                for _ in range(r.randint(1, 2))]
        if role == "tool":
            message["tool_call_id"] = "abcdefghi"
        if r.random() < 0.1:
            message["content"] = [{"type": "text", "text": said(r)}, {"type": "image"}]
        messages.append(message)
    variables = {"messages": messages, "add_generation_prompt": r.random() < 0.7}
    if r.random() < 0.4:
        variables["tools"] = [{"type": "function", "function": {"name": said(r), "description": said(r), "parameters": parameters(r)}}
                              for _ in range(r.randint(0, 3))]
    if r.random() < 0.3:
        variables["enable_thinking"] = r.random() < 0.5
    return variables


def check(name, template, variables, marks=False):
    want, got = jinja(template, variables), ours(template, variables)
    if isinstance(want, Exception) or isinstance(got, Exception):
        if isinstance(want, Exception) and isinstance(got, Exception):
            return 1
        raise SystemExit(f"FAIL: {name}\n{template if len(template) < 500 else ''}\n{json.dumps(variables, ensure_ascii=False)[:2000]}\n  ours: {got!r}\n  jinja: {want!r}")
    if got[0] != want:
        raise SystemExit(f"FAIL: {name}\n{template if len(template) < 500 else ''}\n{json.dumps(variables, ensure_ascii=False)[:2000]}\n  ours:  {got[0]!r}\n  jinja: {want!r}")
    # What ends a turn is the template's own.
    for token in (t.encode() for t in ("<s>", "</s>", "<|im_start|>", "<|im_end|>", "<|eot_id|>", "<end_of_turn>", "[INST]")):
        at = want.encode().find(token)
        while marks and at >= 0:
            if any(got[1][at:at + len(token)]):
                raise SystemExit(f"FAIL: {name}: the template's {token} counts as a stranger's\n{want!r}")
            at = want.encode().find(token, at + 1)
    # Spaces and quotes, and the words of a role or a kind, are a stranger's, too, but they look like ours.
    if marks and any(m != 1 for c, m in zip(marks_of(want), got[1]) if c == 1):
        raise SystemExit(f"FAIL: {name}: a stranger's byte is not marked\n{want!r}\n{got[1]!r}")
    return 0


def refused(name, template, variables=None):
    got = ours(template, variables or {})
    if not isinstance(got, Exception):
        raise SystemExit(f"FAIL: {name} was not refused: {got}")
    return str(got)


errors = 0
here = os.path.dirname(os.path.abspath(__file__))
files = sorted(glob.glob(os.path.join(here, "templates", "*.jinja")))
for path in files:
    r = random.Random(os.path.basename(path))
    with open(path) as f:
        template = f.read()
    count = sum(check(os.path.basename(path), template, conversation(r), marks=True) for _ in range(150))
    assert count < 110, f"{path}: {count} of 150 conversations are refused"
    errors += count
n = 0
for template in snippets.EQUAL:
    for variables in snippets.VARIABLES:
        check("snippet", template, variables)
        n += 1
for template, text in snippets.REFUSED:
    why = refused(template[:60], template, snippets.VARIABLES[0])
    assert text in why, (template, why)
pipe.stdin.close()
pipe.wait()
print(f"{len(files)} families with 150 conversations each (of all, {errors} are refused by both), {n} snippets equal, {len(snippets.REFUSED)} refused")
