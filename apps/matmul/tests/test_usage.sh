#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What a user types: help, mistakes, the demonstration, and Ctrl-C in the middle of each command.
set -euo pipefail
: "${GPUWIRE:?the gpuwire tool}"
work=$(mktemp -d)
server=
trap '[ -z "$server" ] || kill "$server" 2>/dev/null || true; wait; rm -rf "$work"' EXIT
matmul() { timeout 60 "$GPUWIRE" app matmul "$@"; }

fail() {
    echo "FAILED: $*" >&2
    exit 1
}

# expect CODE ARGUMENT...: the exit code; a mistake is explained in one line.
expect() {
    local want=$1 code=0
    shift
    matmul "$@" >"$work/out" 2>"$work/err" || code=$?
    [ "$code" = "$want" ] || fail "$*: exit code $code, not $want: $(cat "$work/out" "$work/err")"
    [ "$want" = 0 ] || [ "$(wc -l <"$work/err")" = 1 ] || [ -s "$work/out" ] || fail "$*: $(cat "$work/err")"
}

for help in "--help" "serve --help" "load --help" "ask --help"; do
    # shellcheck disable=SC2086  # separate words
    expect 0 $help
    grep -q '^usage: gpuwire app matmul' "$work/out" || fail "$help: $(cat "$work/out")"
done
expect 2 nonsense
expect 2 --nonsense
expect 2 --listen 7000
expect 2 serve --blocks 0
expect 2 serve --blocks x
expect 2 serve --design other
expect 2 serve --exec tpu
expect 2 serve --listen 70000
expect 2 serve --largest 5000
expect 2 serve --memory
expect 2 load
expect 2 load 127.0.0.1
expect 2 load 127.0.0.1:1 --size 17
expect 2 load 127.0.0.1:1 --type fp64
expect 2 load 127.0.0.1:1 --seconds -1
expect 2 ask 127.0.0.1:1 --requests 0
expect 2 --rdma
expect 1 load 127.0.0.1:1 --connections 3
expect 1 ask 127.0.0.1:1 --exec cpu
expect 1 serve --exec cpu --listen 192.0.2.1:0
expect 1 serve --exec cpu --design daemon --blocks 1

# interrupted COMMAND...: ends with 130, soon after Ctrl-C.
interrupted() {
    local pid code=0
    "$GPUWIRE" app matmul "$@" >"$work/said" 2>&1 & pid=$!
    sleep 0.8
    kill -INT "$pid"
    (sleep 30; kill -KILL "$pid" 2>/dev/null) & local late=$!
    wait "$pid" || code=$?
    kill "$late" 2>/dev/null || true
    [ "$code" = 130 ] || fail "Ctrl-C: $*: exit code $code: $(cat "$work/said")"
}

"$GPUWIRE" app matmul serve --exec cpu --connections 32 >"$work/serve" & server=$!
for _ in {1..300}; do
    port=$(sed -n 's/.* port \([0-9]*\):.*/\1/p' "$work/serve")
    [ -z "$port" ] || break
    sleep 0.1
done
expect 1 serve --exec cpu --listen "$port"
interrupted --exec cpu
interrupted load "127.0.0.1:$port" --seconds 1000
interrupted ask "127.0.0.1:$port" --exec cpu --requests 1000000
expect 0 load "127.0.0.1:$port" --requests 2 --size 32
expect 0 --exec cpu
grep -q '^requests/s side by side' "$work/out" || fail "the demonstration: $(cat "$work/out")"
[ "$(grep -c 'daemon, \|independent, ' "$work/out")" = 2 ] || fail "the demonstration: $(cat "$work/out")"
echo "all commands do as their help says"
