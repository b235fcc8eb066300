#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Model files of less than a kilobyte that ask for gigabytes: one line, and the memory is not taken.
. "$(dirname "${BASH_SOURCE[0]}")/../integration/lib.sh"
need python3
here=$(cd "$(dirname "$0")" && pwd)
export GPUWIRE_NIC=addr=127.0.0.1

refused() { # KIND WORDS ARGS...
    local kind=$1 words=$2 rc
    shift 2
    mkdir -p "$work/$kind/greedy/1"
    python3 "$here/onnx_bytes.py" "$kind" >"$work/$kind/greedy/1/model.onnx"
    [ "$(wc -c <"$work/$kind/greedy/1/model.onnx")" -lt 1024 ] || fail "$kind: not a small file"
    timeout "$patience" "$GPUWIRE" serve --exec cpu --models "$work/$kind" --port 0 "$@" >"$work/out" 2>"$work/err"
    rc=$?
    [ "$rc" = 1 ] || fail "$kind: exit code $rc: $(cat "$work/out" "$work/err")"
    grep -q "$words" "$work/err" && [ "$(wc -l <"$work/err")" = 1 ] || fail "$kind: $(cat "$work/err")"
}
refused slots 'with the doors. own take 147456 MiB, the limit is 2048; .*--model-memory-limit'
refused arena 'take more than 20[0-9]* MiB.*--model-memory-limit'
refused weights 'take more than .* MiB.*--model-memory-limit' --model-memory-limit 64
echo ok
