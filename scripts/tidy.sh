#!/usr/bin/env bash
# scripts/tidy.sh BUILD: runs .clang-tidy's checks over the sources of the libraries and the tool, as BUILD compiles them.
set -euo pipefail
cd "$(dirname "$0")/.."
if [ $# -ne 1 ] || [ ! -e "$1/build.ninja" ]; then
    echo "usage: scripts/tidy.sh BUILD, a folder that \`make\` has configured" >&2
    exit 2
fi
build=$1 commands=$(mktemp -d)
trap 'rm -rf "$commands"' EXIT
if ! command -v clang-tidy >/dev/null; then
    echo "gpuwire: clang-tidy is not installed; \`scripts/setup.sh --ci\` installs it" >&2
    exit 1
fi
ninja -C "$build" -t compdb >"$commands/compile_commands.json"
mapfile -t files < <(git ls-files 'src/*.c' 'softnic/*.c' 'apps/*.c')
# It counts warnings that it does not show, of the system's headers, on standard error.
if ! printf '%s\0' "${files[@]}" | xargs -0 -n 16 -P "$(nproc)" clang-tidy --quiet -p "$commands" 2>"$commands/log"; then
    grep -v 'warnings\? generated' "$commands/log" >&2 || true
    exit 1
fi
echo "clang-tidy: ${#files[@]} files, nothing to say"
