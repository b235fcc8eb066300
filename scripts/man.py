#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes the manual pages (docs/man/*.1) and the shells' completion (completion/) out of docs/man/commands.toml.

    scripts/man.py            writes them
    scripts/man.py --check    writes nothing; exit code 1, with a line for each file that differs
"""
import pathlib
import re
import sys
import tomllib

TREE = pathlib.Path(__file__).resolve().parent.parent
SOURCE = TREE / "docs/man/commands.toml"
COMMANDS = tomllib.loads(SOURCE.read_text(encoding="utf-8"))["command"]
MADE = "made by scripts/man.py from docs/man/commands.toml"
TOOL, *SUBCOMMANDS = COMMANDS
WORDS = [c["name"].split("-") for c in SUBCOMMANDS if "-" in c["name"]]  # of other commands, with a page of their own
KEYS = {
    "nic": "addr= mtu= local= poll= cpu= threads= gso= ecn= gpucopy= ring= atomics= gpurings= gpudma= gpuorder= wire= if= bind= peer= mac= gw= pcap= pcap_max= verbose= hostile= seed=",
    "fault": "none loss= dup= reorder= corrupt= delay= jitter= rate= down= seed= tx. rx.",
}


def spoken(command):
    """The command as it is typed: perf-sock is `perf sock`."""
    return command["name"].replace("-", " ")


def flags(option):
    return option["flags"].split(", ")


# ---- manual pages -----------------------------------------------------------------------------------------------------

def roff(text):
    text = text.replace("\\", "\\e").replace("-", "\\-").replace("^", "\\(ha").replace("~", "\\(ti")
    text = re.sub(r"`([^`]*)`", r"\\fB\1\\fR", text)
    return "\\&" + text if text[:1] in (".", "'") else text


def paragraphs(text):
    out = []
    for block in re.split(r"\n\s*\n", text.strip("\n")):
        lines = block.split("\n")
        if lines[0].startswith("    "):
            out += [".PP", ".RS 4", ".nf", *(roff(line[4:]) for line in lines), ".fi", ".RE"]
        else:
            out += [".PP", roff(" ".join(line.strip() for line in lines))]
    return out[1:] if out[:1] == [".PP"] else out


def page(command):
    tool = command is TOOL
    name = "gpuwire" if tool else "gpuwire-" + command["name"]
    out = [f'.\\" {MADE}', f'.TH {name.upper()} 1 2026-11-23 gpuwire "User commands"', ".SH NAME",
           f"{roff(name)} \\- {roff(command['title'])}", ".SH SYNOPSIS"]
    for i, usage in enumerate(command["usage"]):
        out += [".br"] * (i > 0) + [roff(usage if tool else f"`gpuwire {spoken(command)}` {usage}")]
    out += [".SH DESCRIPTION", *paragraphs(command["text"])]
    if tool:
        out.append(".SH COMMANDS")
        for other in SUBCOMMANDS:
            out += [".TP", roff(f"`{spoken(other)}`"), roff(other["title"][0].upper() + other["title"][1:] + ".")]
    out.append(".SH OPTIONS")
    for option in command["option"]:
        arg = f" \\fI{roff(option['arg'])}\\fR" if "arg" in option else ""
        out += [".TP", ", ".join(f"\\fB{roff(f)}\\fR" for f in flags(option)) + arg, roff(option["text"])]
    for title, text in command.get("sections", []):
        out += [f".SH {title}", *paragraphs(text)]
    see = ([] if tool else ["gpuwire(1)"]) + [f"gpuwire-{c['name']}(1)" for c in SUBCOMMANDS if tool] + command["see"]
    out += [".SH SEE ALSO", ", ".join(re.sub(r"(.*)\((\d)\)", lambda m: f"\\fB{roff(m[1])}\\fR({m[2]})", s) for s in see)]
    return "\n".join(out) + "\n"


# ---- completion -------------------------------------------------------------------------------------------------------

def words_of(command):
    """The words that may stand where the command's own arguments do."""
    what = command.get("words", "")
    return " ".join(c["name"] for c in SUBCOMMANDS if "-" not in c["name"]) + " help" if what == "commands" else what


def bash():
    out = [f"# bash completion for gpuwire: {MADE}", "_gpuwire()", "{",
           "    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]} command=${COMP_WORDS[1]} options words=",
           "    COMPREPLY=()",
           "    if ((COMP_CWORD == 1)); then",
           f"        mapfile -t COMPREPLY < <(compgen -W '{words_of(TOOL)} {' '.join(f for o in TOOL['option'] for f in flags(o))}' -- \"$cur\")",
           "        return",
           "    fi",
           *(f"    [[ $command == {c} && ${{COMP_WORDS[2]}} == {w} ]] && ((COMP_CWORD > 2)) && command={c}-{w}" for c, w in WORDS),
           "    if [[ $command == run ]]; then",
           "        local i",
           "        for ((i = 2; i < COMP_CWORD; i++)); do",
           "            case ${COMP_WORDS[i]} in",
           "                --nic | --fault) ((i++)) ;;",
           "                --) ((i++)) && break ;;",
           "                -*) ;;",
           "                *) break ;;",
           "            esac",
           "        done",
           "        if ((i < COMP_CWORD)) && declare -F _command_offset >/dev/null; then",
           "            _command_offset \"$i\"",
           "            return",
           "        fi",
           "    fi",
           "    case \"$command $prev\" in"]
    for command in SUBCOMMANDS:
        for option in command["option"]:
            if "arg" not in option or option.get("complete") is None and "values" not in option:
                continue
            patterns = " | ".join(f"'{command['name']} {f}'" for f in flags(option))
            out.append(f"        {patterns})")
            kind = option.get("complete")
            if "values" in option:
                out.append(f"            mapfile -t COMPREPLY < <(compgen -W '{' '.join(option['values'])}' -- \"$cur\")")
            elif kind == "dir":
                out.append("            mapfile -t COMPREPLY < <(compgen -d -- \"$cur\")")
            elif kind in KEYS:
                out += [f"            mapfile -t COMPREPLY < <(compgen -W '{KEYS[kind]}' -- \"${{cur##*,}}\")",
                        "            [[ $cur == *,* ]] && COMPREPLY=(\"${COMPREPLY[@]/#/${cur%,*},}\")",
                        "            compopt -o nospace 2>/dev/null"]
            elif kind == "device":
                out.append("            mapfile -t COMPREPLY < <(compgen -W \"softnic $(ls /sys/class/infiniband 2>/dev/null)\" -- \"$cur\")")
            elif kind == "pid":
                out.append("            mapfile -t COMPREPLY < <(compgen -W \"$(ps -u \"$(id -u)\" -o pid= 2>/dev/null)\" -- \"$cur\")")
            out += ["            return", "            ;;"]
    out += ["    esac", "    case $command in"]
    for command in SUBCOMMANDS:
        options = " ".join(f for o in command["option"] for f in flags(o))
        words = words_of(command)
        out += [f"        {command['name']})", f"            options='{options}'"]
        if words == "models":
            out.append("            words='superresolution identity'")
        elif words == "program":
            out.append("            [[ $cur == -* ]] || mapfile -t COMPREPLY < <(compgen -c -- \"$cur\")")
        elif words:
            out.append(f"            ((COMP_CWORD == {len(spoken(command).split()) + 1})) && words='{words}'")
        out.append("            ;;")
    out += [f"        help) words='{words_of(TOOL).removesuffix(' help')}' ;;", "    esac",
            "    if [[ $cur == -* ]]; then",
            "        mapfile -t COMPREPLY < <(compgen -W \"$options\" -- \"$cur\")",
            "    elif [[ -n $words ]]; then",
            "        mapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$cur\")",
            "    fi", "}", "complete -o default -F _gpuwire gpuwire"]
    return "\n".join(out) + "\n"


def zsh_quoted(text):
    return re.sub(r"[`]", "", text).replace("'", "'\\''").replace("[", "\\[").replace("]", "\\]").replace(":", "\\:")


def zsh_option(option):
    names, text = flags(option), zsh_quoted(option["text"].split(". ")[0].rstrip("."))
    arg = ""
    if "arg" in option:
        kind = option.get("complete")
        action = ("(" + " ".join(option["values"]) + ")" if "values" in option else "_files -/" if kind == "dir" else
                  "(" + KEYS[kind] + ")" if kind in KEYS else "_pids" if kind == "pid" else "(softnic)" if kind == "device" else
                  " " if kind else "_files")
        optional = ":" if option["arg"].startswith("[") else ""
        arg = f"{optional}:{zsh_quoted(option['arg'].strip('[]'))}:{action}"
    if "-F" in names:  # flags that mean different things of perftest's
        return [f"'{name}[{text}]'" for name in names]
    head = f"'({' '.join(names)})'{{{','.join(names)}}}" if len(names) > 1 else f"'{names[0]}"
    return [f"{head}'[{text}]{arg}'" if len(names) > 1 else f"{head}[{text}]{arg}'"]


def zsh():
    out = ["#compdef gpuwire", f"# zsh completion for gpuwire: {MADE}", "_gpuwire() {", "    local context state state_descr line",
           "    typeset -A opt_args", "    local -a names", "    names=("]
    out += [f"        '{c['name']}:{zsh_quoted(c['title'])}'" for c in SUBCOMMANDS if "-" not in c["name"]]
    out += ["        'help:a summary of a command'", "    )", "    if ((CURRENT == 2)); then",
            "        _describe -t commands command names",
            f"        compadd -- {' '.join(f for o in TOOL['option'] for f in flags(o))}", "        return", "    fi",
            "    local asked=$words[2]", "    shift words", "    ((CURRENT--))",
            *(f"    if [[ $asked == {c} && $words[2] == {w} ]] && ((CURRENT > 2)); then\n        asked={c}-{w}\n"
              "        shift words\n        ((CURRENT--))\n    fi" for c, w in WORDS), "    case $asked in"]
    for command in SUBCOMMANDS:
        words = words_of(command)
        rest = ("'*::program: _normal'" if words == "program" else "'1:model:(superresolution identity)'" if words == "models" else
                f"'1:what:({words})' '2:host:_hosts'" if words else "'*: :_files'")
        specs = [s for o in command["option"] for s in zsh_option(o)] + [rest]
        out += [f"        {command['name']})", "            _arguments -s " + " \\\n                ".join(specs), "            ;;"]
    out += ["        help) _describe -t commands command names ;;", "    esac", "}", '_gpuwire "$@"']
    return "\n".join(out) + "\n"


def main():
    check = sys.argv[1:] == ["--check"]
    if sys.argv[1:] and not check:
        sys.exit(__doc__)
    files = {TREE / "docs/man" / ("gpuwire.1" if c is TOOL else f"gpuwire-{c['name']}.1"): page(c) for c in COMMANDS}
    files |= {TREE / "completion/gpuwire.bash": bash(), TREE / "completion/_gpuwire": zsh()}
    wrong = 0
    for file, text in files.items():
        if not check:
            file.write_text(text, encoding="utf-8")
        elif not file.exists() or file.read_text(encoding="utf-8") != text:
            print(f"{file.relative_to(TREE)} differs from docs/man/commands.toml; run scripts/man.py", file=sys.stderr)
            wrong = 1
    sys.exit(wrong)


main()
