#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# HTTP clients that go before the model has begun with their requests: these do not run. While requests wait, the metrics
# count no more slots than there are, and what waits for one is pending.
. "$(dirname "$0")/lib.sh" || exit 1
need curl python3
cd "$work" || exit 1
mkdir -p models/slow/1
python3 "$source_dir/tests/security/onnx_bytes.py" slow 400 >models/slow/1/model.onnx
head -c $((32 * 128 * 128 * 4)) /dev/zero >input
serve worker --models models
metric() { curl -sf "http://$server/metrics" | sed -n "s/^$1{.*} //p"; }
metric_is() { [ "$(metric "$1")" = "$2" ]; }
# ask SECONDS: one inference in the background; its client goes after SECONDS.
ask() {
    curl -s -o /dev/null --max-time "$1" -H 'Inference-Header-Content-Length: 0' --data-binary @input "http://$server/v2/models/slow/infer" &
    pids+=($!)
}

# The model takes longer than all that happens until the clients have gone, on a fast machine, too.
ask "$patience"
first=$!
eventually metric_is gpuwire_door_slots_taken 1 || fail 'no request arrives'
sleep 0.1
clients=()
for _ in $(seq 20); do
    ask 0.5
    clients+=($!)
done
sleep 0.35
taken=$(metric gpuwire_door_slots_taken) pending=$(metric nv_inference_pending_request_count) limit=$(metric gpuwire_door_slots_limit)
[ "$taken" -le "$limit" ] || fail "$taken slots of $limit are taken"
[ "$taken" -gt 2 ] || fail "only $taken slots are taken"
[ "$pending" -gt 5 ] || fail "$pending requests are pending"
for c in "${clients[@]}"; do wait "$c"; done
wait "$first" || fail 'the first request is not answered'
eventually metric_is gpuwire_door_slots_taken 0 || fail 'slots stay taken'
metric_is nv_inference_pending_request_count 0 || fail "requests wait forever: $(metric nv_inference_pending_request_count)"
# The second may have begun before its client went.
runs=$(metric nv_inference_exec_count)
[ "$runs" -le 2 ] || fail "the model ran $runs times for one client that waited"
stop_worker
all_gone
