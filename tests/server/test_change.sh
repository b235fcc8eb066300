#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A change of models that takes seconds, as the one that goes is at work on a request: clients of the others open and close more
# sessions in that time than there are.
. "$(dirname "$0")/lib.sh" || exit 1
need curl python3
cd "$work" || exit 1
mkdir -p models/slow/1
cp -r "$source_dir/tests/server/models/echo" models
python3 "$source_dir/tests/security/onnx_bytes.py" slow 600 >models/slow/1/model.onnx
head -c $((32 * 128 * 128 * 4)) /dev/zero >input
serve worker --models models --model-control --sessions 4
taken() { curl -sf "http://$server/metrics" | grep -q '^gpuwire_door_slots_taken{model="slow".*} 1$'; }
curl -s -o answer -w '%{http_code}' -H 'Inference-Header-Content-Length: 0' --data-binary @input "http://$server/v2/models/slow/infer" >status &
asker=$!
pids+=("$asker")
eventually taken || fail 'no request arrives'
sleep 0.2
curl -s -X POST "http://$server/v2/repository/models/slow/unload" >unloaded &
unloader=$!
pids+=("$unloader")
sleep 0.3
opened=0
while kill -0 "$unloader" 2>/dev/null && [ "$opened" -lt 12 ]; do
    timeout "$patience" "$GPUWIRE" load echo --server "$server" --requests 1 >load.out 2>&1 || { cat load.out; fail "after $opened sessions beside an unload"; }
    opened=$((opened + 1))
done
[ "$opened" -gt 4 ] || { echo "skipped: the slow model was done after $opened sessions"; exit 77; }
wait "$unloader" || fail 'unload fails'
wait "$asker" || fail 'the request is lost'
[ "$(cat status)" = 200 ] || fail "the request that was at work: $(cat status)"
stop_worker
all_gone
