#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Our client at a gRPC server that is not ours: Google's own, as it comes with tritonclient. scripts/setup.sh --tests installs it.
. "$(dirname "$0")/../server/lib.sh" || exit 1
python=${TRITON_PYTHON:-${XDG_CACHE_HOME:-$HOME/.cache}/gpuwire/tritonclient/bin/python}
"$python" -c 'import tritonclient.grpc' 2>/dev/null || { echo "skipped: $python has no tritonclient"; exit 77; }
cd "$work" || exit 1
mkfifo hold
"$python" "$source_dir/tests/client/foreign_grpc.py" <hold >port 2>foreign.err &
foreign=$!
pids+=("$foreign")
exec 9>hold
has_port() { [ -s port ]; }
eventually has_port || { cat foreign.err; fail 'the foreign server does not start'; }
load() { timeout "$patience" "$GPUWIRE" load "$@" --server "grpc://127.0.0.1:$(cat port)" >load.out 2>&1; }

for model in mirror parts; do
    load "$model" --requests 20 --concurrency 4 --verify-echo || { cat load.out; fail "$model"; }
    grep -q '^answers that are not their request: 0' load.out || { cat load.out; fail "$model: other answers"; }
done
# refused MODEL TEXT
refused() {
    load "$1" --requests 2 && { cat load.out; fail "$1 is answered"; }
    grep -qF -- "$2" load.out || { cat load.out; fail "$1: no '$2'"; }
}
refused words 'refused with status INTERNAL: 100 % f??r nichts?und wieder nichts'
refused busy 'refused with status RESOURCE_EXHAUSTED: too much to do'
refused packed 'compressed'
# The server is killed while a request is under way.
load slow --requests 1 &
loader=$!
sleep 1
kill -KILL "$foreign"
wait "$foreign" 2>/dev/null
wait "$loader" && { cat load.out; fail 'a request to a server that has ended is answered'; }
grep -q 'has gone\|refused with status' load.out || { cat load.out; fail 'it does not say that the server has gone'; }
load mirror --requests 1 && fail 'no server is there, and one answers'
grep -q 'is `gpuwire serve` running there, with its gRPC port' load.out || { cat load.out; fail 'it does not say that no server is there'; }
echo "Google's gRPC server is understood"
