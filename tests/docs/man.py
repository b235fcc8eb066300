#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The manual pages and the completion name the very options that each command's --help prints: man.py GPUWIRE"""
import pathlib
import re
import shutil
import subprocess
import sys

TREE = pathlib.Path(__file__).resolve().parents[2]
GPUWIRE = sys.argv[1]
OPTION = re.compile(r"(?<![\w-])(--[A-Za-z][\w-]*|-[A-Za-z](?![\w-]))")
wrong = []


def output(*command):
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    if done.returncode:
        wrong.append(f"{' '.join(command)[:80]}: exit code {done.returncode}: {done.stderr.strip()}")
    return done.stdout


def compare(what, command, found, wanted):
    wrong.extend(f"{what}: {option} of `gpuwire {command}` is missing" for option in sorted(wanted - found))
    wrong.extend(f"{what}: `gpuwire {command} --help` prints no {option}" for option in sorted(found - wanted))


def completed(*words):
    """What bash offers when the last of these words is to be completed."""
    script = f'. "{TREE}/completion/gpuwire.bash"; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _gpuwire; printf "%s\\n" "${{COMPREPLY[@]}}"'
    return set(output("bash", "-c", script, "bash", "gpuwire", *words).split())


def page_of(name):
    page = (TREE / "docs/man" / f"{name}.1").read_text(encoding="utf-8").replace("\\-", "-")
    options = page.split("\n.SH OPTIONS\n")[1].split("\n.SH ")[0]
    return page, {o for heading in re.findall(r"^\.TP\n(.*)$", options, re.M) for o in OPTION.findall(re.sub(r"\\f.", "", heading))}


help_text = output(GPUWIRE, "--help")
commands = set(re.findall(r"^  (\w+) ", help_text, re.M))
page, options = page_of("gpuwire")
compare("gpuwire.1", "", options, set(OPTION.findall(help_text)))
named = set(re.findall(r"^\.TP\n\\fB([\w ]+)\\fR$", page.split("\n.SH OPTIONS\n")[0], re.M)) - {"perf sock", "fleet emulate", "fleet demo", "generate load"}
compare("gpuwire.1", "", named, commands)
compare("gpuwire.bash", "", {w for w in completed("") if w[0] != "-"} - {"help"}, commands)
zsh = (TREE / "completion/_gpuwire").read_text(encoding="utf-8")
compare("_gpuwire", "", set(re.findall(r"^        '(\w+):", zsh, re.M)) - {"help"}, commands)

for command in sorted(commands | {"perf sock", "fleet emulate", "fleet demo", "generate load"}):
    name = command.replace(" ", "-")
    text = re.sub(r"^  gpuwire .*$", "", output(GPUWIRE, *command.split(), "--help"), flags=re.M) # examples have other programs' options
    wanted = set(OPTION.findall(text))
    compare(f"gpuwire-{name}.1", command, page_of(f"gpuwire-{name}")[1], wanted)
    compare("gpuwire.bash", command, completed(*command.split(), "-"), wanted)
    part = re.search(rf"^        {name}\)\n(.*?)^            ;;", zsh, re.S | re.M)
    found = {o for group, single in re.findall(r"'\(([^)']*)\)'\{|'(--?[A-Za-z][\w-]*)\[", part[1] if part else "") for o in (group or single).split()}
    compare("_gpuwire", command, found, wanted)

for tool, files in (("bash", ["completion/gpuwire.bash"]), ("zsh", ["completion/_gpuwire"])):
    if shutil.which(tool):
        output(tool, "-n", *(str(TREE / f) for f in files))
for file in sorted((TREE / "docs/man").glob("*.1")) if shutil.which("groff") else []:
    done = subprocess.run(["groff", "-man", "-Tutf8", "-ww", file], capture_output=True, text=True, timeout=60, check=False)
    if done.returncode or done.stderr:
        wrong.append(f"{file.name}: {done.stderr.strip() or done.returncode}")
if not commands:
    wrong.append("gpuwire --help lists no commands")
for line in wrong:
    print(line, file=sys.stderr)
sys.exit(1 if wrong else 0)
