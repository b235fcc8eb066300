#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# `gpuwire generate` as a process: what it prints, its answers over HTTP and by RDMA, how it ends, and what it says when it
# cannot begin.
set -u
here=$(cd "${BASH_SOURCE[0]%/*}" && pwd)
. "$here/../../server/lib.sh"
model=$GPUWIRE_SOURCE/models/storyteller

# generate NAME ARGS...: a server on any free port: $worker is its pid, $server where it is.
generate() {
    local name=$1
    shift
    "$GPUWIRE" generate --port 0 --exec cpu --threads 1 "$@" >"$work/$name.out" 2>&1 &
    worker=$!
    pids+=("$worker")
    wait_for "$work/$name.out" 'HTTP on port' "$worker" || fail "$name: not ready: $(cat "$work/$name.out")"
    server=127.0.0.1:$(sed -n 's/.*HTTP on port \([0-9]*\).*/\1/p' "$work/$name.out")
}
grep_running() { curl -sf "http://$server/metrics" | grep -q "$1"; }
complete() { curl -sf "http://$server/v1/completions" -d "{\"prompt\": \"Once upon a time\", \"max_tokens\": $1, \"temperature\": 0}"; }
# refused PATTERN ARGS...: it does not start, and says why.
refused() {
    local pattern=$1
    shift
    "$GPUWIRE" generate --port 0 --exec cpu "$@" >"$work/refused.out" 2>&1 && fail "$*: it started"
    grep -q -- "$pattern" "$work/refused.out" || fail "$*: said $(cat "$work/refused.out")"
}

# It says what it serves and how to try it; that command works.
generate first "$model"
grep -q '^storyteller: .* lanes, .* tokens of context' "$work/first.out" || fail "said $(cat "$work/first.out")"
try=$(sed -n 's/^try: //p' "$work/first.out")
[ -n "$try" ] || fail 'it names no command to try'
eval "$try" >"$work/try.out" 2>"$work/try.err" || fail "$try: $(cat "$work/try.err")"
grep -q '^data: \[DONE\]' "$work/try.out" || fail "$try: said $(cat "$work/try.out")"

# The same tokens over HTTP, again, and beside a load by RDMA.
once=$(complete 24 | sed 's/.*"text": *"\([^"]*\)".*/\1/')
[ -n "$once" ] || fail 'no text'
"$GPUWIRE" generate load "http://$server" --streams 12 --prompt 40 --prompt-spread 30 --tokens 20 --seconds 1 --warmup 0.2 --json \
    >"$work/load.out" 2>&1 &
load=$!
for _ in 1 2 3; do
    again=$(complete 24 | sed 's/.*"text": *"\([^"]*\)".*/\1/')
    [ "$again" = "$once" ] || fail "beside others it says '$again' and not '$once'"
done
wait "$load" || fail "load: $(cat "$work/load.out")"
grep -q '"failed": 0' "$work/load.out" || fail "load: $(cat "$work/load.out")"
"$EXAMPLE" "http://$server" 1 2 3 >"$work/example.out" || fail "example: $(cat "$work/example.out")"
"$GPUWIRE" generate load "http://$server" --rate 20 --tokens 5 --seconds 1 >"$work/rate.out" 2>&1 || fail "$(cat "$work/rate.out")"
grep -q '^first token' "$work/rate.out" || fail "load: $(cat "$work/rate.out")"

# SIGTERM lets a stream end that is under way.
curl -sN "http://$server/v1/completions" -d '{"prompt": "Once", "max_tokens": 60, "ignore_eos": true, "stream": true}' >"$work/last.out" &
last=$!
wait_for "$work/last.out" 'data:' "$last" || fail 'no stream'
stop_worker
wait "$last"
grep -q '^data: \[DONE\]' "$work/last.out" || fail "the stream was cut: $(tail -3 "$work/last.out")"

# Killed clients leave nothing behind.
generate second --lanes 4 --context 256 a="$model" b="$model"
curl -sf "http://$server/v1/models" | grep -q '"id": *"b"' || fail 'no model b'
for i in 1 2 3; do
    "$GPUWIRE" generate load "http://$server" --model a --streams 8 --tokens 100 --seconds 60 >/dev/null 2>&1 &
    pids+=($!)
    loads[i]=$!
done
eventually grep_running 'vllm:num_requests_running{[^}]*"a"[^}]*} [1-9]' || fail 'no load'
for i in 1 2 3; do kill -KILL "${loads[i]}"; wait "${loads[i]}"; done 2>/dev/null
eventually grep_running 'vllm:num_requests_running{[^}]*"a"[^}]*} 0' || fail 'requests of killed clients go on'
stop_worker

# What it needs, and what is wrong.
refused 'folder of a model is missing'
refused 'nothing-here' "$work/nothing-here"
refused 'raise it, or lower --context' --kv-memory 1k "$model"
refused 'knows .* positions' --context 100000 "$model"
refused 'two models are called' "$model" "$model"
refused 'must be one of these' --kv int8 "$model"
generate third "$model"
refused 'already' --port "${server##*:}" "$model"
stop_worker
all_gone
