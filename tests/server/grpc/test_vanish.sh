#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# test_vanish.sh VANISH: calls that are cancelled, or whose connection goes, before the model has begun with them do not run. A
# client with as many connections as it may have is told so, and which option says how many.
. "$(dirname "$0")/../lib.sh" || exit 1
need curl python3
vanish=$1
cd "$work" || exit 1
mkdir -p models/slow/1
python3 "$source_dir/tests/security/onnx_bytes.py" slow 500 >models/slow/1/model.onnx
cp -r "$source_dir/tests/server/models/echo" models
serve worker --models models --connections-per-client 3
grpc=127.0.0.1:$(sed -n 's/.*gRPC on port \([0-9]*\).*/\1/p' worker.out)
runs() { curl -sf "http://$server/metrics" | sed -n 's/^nv_inference_exec_count{.*"slow".*} //p'; }
free_again() { [ "$(curl -sf "http://$server/metrics" | sed -n 's/^gpuwire_door_slots_taken{.*"slow".*} //p')" = 0 ]; }

for how in cancel close; do
    before=$(runs)
    "$vanish" "$grpc" 20 "$how" || fail "$how: the calls cannot be made"
    eventually free_again || fail "$how: slots stay taken"
    # The first has begun. So may have the second, before its client went.
    after=$(($(runs) - ${before:-0}))
    [ "$after" -le 2 ] || fail "$how: the model ran $after times for calls that were gone"
    [ "$after" -ge 1 ] || fail "$how: no call has reached the model"
done

# Three stay connected.
"$GPUWIRE" load echo --server "grpc://$grpc" --clients 3 --rate 30 --requests 100000 >holder.out 2>&1 &
holder=$!
pids+=("$holder")
load() { timeout "$patience" "$GPUWIRE" load echo --server "grpc://$grpc" --requests 1 >load.out 2>&1; }
refused() { ! load && grep -q 'as many connections open as one may (--connections-per-client)' load.out; }
eventually refused || { cat load.out holder.out; fail 'a fourth connection is not told why it is closed'; }
ends "$holder" INT
eventually load || { cat load.out; fail 'a connection is not served when there is room again'; }
stop_worker
all_gone
