#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A model that takes many seconds: clients that open sessions in that time make no other wait, and without a
# drain SIGTERM ends the worker within the second that is promised (ten times that here).
. "$(dirname "${BASH_SOURCE[0]}")/../integration/lib.sh"
need python3 curl
here=$(cd "$(dirname "$0")" && pwd)
export GPUWIRE_NIC=addr=127.0.0.1
mkdir -p "$work/models/slow/1"
python3 "$here/onnx_bytes.py" slow >"$work/models/slow/1/model.onnx"

"$GPUWIRE" serve --exec cpu --models "$work/models" --port 0 --sessions 8 --slots 2 --drain-seconds 0 >"$work/worker.out" 2>&1 &
worker=$!
pids+=("$worker")
wait_for "$work/worker.out" 'HTTP on port' "$worker" || fail 'the worker is not ready'
port=$(sed -n 's/.*HTTP on port \([0-9]*\).*/\1/p' "$work/worker.out")
url=http://127.0.0.1:$port/v2

client() { # NAME: in the background
    "$GPUWIRE" load slow --server "127.0.0.1:$port" --requests 1000 --slots 2 >"$work/$1.out" 2>&1 &
    pids+=($!)
}
sessions_open() { curl -sf --max-time 5 "$url/models/slow/stats" | sed -n 's/.*"sessions_open":\([0-9]*\).*/\1/p'; }
has_open() { [ "$(sessions_open)" -ge "$1" ]; }

# The model is at work from the first request on. Then three more sessions are opened while it is.
client first
eventually has_open 1 || fail 'the first client does not get in'
sleep 0.5
begun=$SECONDS
for c in second third fourth; do client $c; done
for _ in $(seq 20); do curl -sf --max-time 5 "$url/health/live" >/dev/null || fail 'a health check waits for a session that opens'; done
eventually has_open 4 || fail 'sessions are not opened while the model is at work'
[ "$(curl -sf --max-time 5 "$url/models/slow/stats" | sed -n 's/.*"answered":\([0-9]*\).*/\1/p')" = 0 ] || echo 'note: the model was faster than expected'
# A client that dies now does not get its session back before the model is done, and no client waits for that.
kill -KILL "${pids[-1]}"
curl -sf --max-time 5 "$url/health/live" >/dev/null || fail 'a health check waits for a session that closes'
echo "opened three sessions beside a busy model in $((SECONDS - begun)) s"

kill -TERM "$worker"
for _ in $(seq 100); do kill -0 "$worker" 2>/dev/null || break; sleep 0.1; done
kill -0 "$worker" 2>/dev/null && fail 'SIGTERM does not end a worker whose model is at work'
wait "$worker" || fail "the worker ended with $?"
grep -q 'model slow was at work on a request, which is lost' "$work/worker.out" || fail "it says: $(cat "$work/worker.out")"
echo ok
