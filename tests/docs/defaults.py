#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the tool, its manual pages, the example of settings, the header and the Python package say of an option's default is
the same: defaults.py GPUWIRE. `defaults.py --self` shows that a difference would be found.

Only plain values are compared: numbers, words, addresses. A default that needs a sentence is for people."""
import pathlib
import re
import subprocess
import sys

TREE = pathlib.Path(__file__).resolve().parents[2]
OPTION = re.compile(r"--[A-Za-z][\w-]*")
VALUE = r"`?([\w.:]+)`?"
UNITS = {"GiB": 1 << 10, "MiB": 1}


def plain(text):
    """The value that a text gives as the default; None: it names none, or needs a sentence for it."""
    m = re.search(r"\(default:?\s+" + VALUE + r"(?=[):;,])", text) or re.search(r"[Tt]he default is\s+" + VALUE + r"(?=[.:;,]|\)| \w+$)", text)
    return m[1].rstrip(".:") if m else None


def of_help(text):
    """Option: default, of what --help prints. An option's text goes on in the lines that are set in."""
    found, names, lines = {}, [], []
    for line in text.splitlines() + ["  --end  "]:
        head = re.match(r"^  (?=-)(.*)", line)
        if head:
            for name in names:
                found[name] = plain(" ".join(lines))
            names, lines = OPTION.findall(re.split(r"  |(?<=[A-Z]) (?=[a-z])", head[1])[0]), []
        lines.append(line.strip())
    return found


def of_page(command):
    page = (TREE / "docs/man" / f"gpuwire-{command}.1").read_text(encoding="utf-8").replace("\\-", "-")
    options = re.sub(r"\\f.", "", page.split("\n.SH OPTIONS\n")[1].split("\n.SH ")[0])
    found = {}
    for block in options.split("\n.TP\n")[1:] if "\n.TP\n" in options else []:
        head, _, text = block.partition("\n")
        for name in OPTION.findall(head):
            found[name] = plain(" ".join(text.split()))
    return found


def of_conf(text):
    return {f"--{name}": value.strip() for name, value in re.findall(r"^#([a-z-]+) = (.*)$", text, re.M)}


def differ(what, one, other):
    """Both name a default, and not the same one."""
    return [f"{name}: {what[0]} says {one[name]}, {what[1]} says {other[name]}" for name in sorted(one.keys() & other.keys())
            if one[name] is not None and other[name] is not None and one[name] != other[name]]


def of_header():
    """What serve.h says that 0 means, as the options' units have it."""
    text = (TREE / "include/gpuwire/serve.h").read_text(encoding="utf-8")
    names = {"sessions": "--sessions", "slots": "--slots", "threads": "--threads", "idle_ns": "--idle", "max_body": "--max-body",
             "model_memory": "--model-memory-limit", "connections_each": "--connections-per-client", "max_batch": "--max-batch"}
    found = {}
    for field, option in names.items():
        m = re.search(rf"\b{field};\s*/\*(.*?)\*/", text, re.S)
        value = re.search(r"\b0: (\d+)( [GM]iB)?", m[1]) if m else None
        if value:
            found[option] = str(int(value[1]) * UNITS.get((value[2] or "").strip(), 1))
    return found


def of_python():
    text = (TREE / "python/gpuwire/server.py").read_text(encoding="utf-8")
    begin = text.split("def __init__(self", 1)[1].split("):\n", 1)[0]
    names = {"port": "--port", "idle": "--idle", "resident": "--resident", "exec": "--exec", "threads": "--threads", "gpu": "--gpu"}
    found = {}
    for name, option in names.items():
        m = re.search(rf"\b{name}: [\w\[\]]+ = \"?([\w.]+)\"?", begin)
        if m:
            found[option] = m[1][:-2] if m[1].endswith(".0") else m[1]
    for name, option in {"sessions": "--sessions", "slots": "--slots", "model_memory": "--model-memory-limit", "max_body": "--max-body",
                         "connections_per_client": "--connections-per-client"}.items():
        m = re.search(rf"^ {{8}}{name}: [^\n]*\b0: (\d+)( [GM]iB)?", text, re.M)
        if m:
            found[option] = str(int(m[1]) * UNITS.get((m[2] or "").strip(), 1))
    return found


def check_self():
    text = "  --one N   the first (default 1)\n  --two WORD\n            the second (default: never)\n  --three FILE no default\n"
    assert of_help(text) == {"--one": "1", "--two": "never", "--three": None}, of_help(text)
    assert plain("The second. The default is `auto`: the GPU.") == "auto" and plain("The default is 127.0.0.1: this host.") == "127.0.0.1"
    assert plain("The default is what others say.") is None
    assert differ(("a", "b"), {"--x": "auto", "--y": "1", "--z": None}, {"--x": "never", "--y": "1", "--z": "2"}) == ["--x: a says auto, b says never"]


def main():
    tool, wrong, compared = sys.argv[1], [], 0
    commands = re.findall(r"^  (\w+) ", subprocess.run([tool, "--help"], capture_output=True, text=True, check=True).stdout, re.M)
    for command in commands:
        done = subprocess.run([tool, command, "--help"], capture_output=True, text=True, timeout=60, check=False)
        help_says, page_says = of_help(done.stdout), of_page(command)
        compared += sum(page_says.get(n) is not None and v is not None for n, v in help_says.items())
        wrong += [f"gpuwire {command} {line}" for line in differ(("--help", "the manual"), help_says, page_says)]
        if command == "serve":
            conf = of_conf((TREE / "debian/serve.conf").read_text(encoding="utf-8"))
            for what, says in (("serve.conf", conf), ("serve.h", of_header()), ("gpuwire.Server", of_python())):
                compared += len(help_says.keys() & says.keys())
                wrong += [f"gpuwire serve {line}" for line in differ(("--help", what), help_says, says)]
            wrong += [f"serve.conf: gpuwire serve has no {name}" for name in conf if name not in help_says]
    if compared < 60:
        wrong.append(f"only {compared} defaults were compared: the texts are written in another way")
    for line in wrong:
        print(line, file=sys.stderr)
    return 1 if wrong else 0


if sys.argv[1] == "--self":
    check_self()
    sys.exit(0)
sys.exit(main())
