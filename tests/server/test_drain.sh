#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A server that is told to end answers what it has begun, by every door, and refuses the rest with a reason.
. "$(dirname "$0")/lib.sh" || exit 1
need curl jq python3
cd "$work" || exit 1
triton=~/.cache/gpuwire/tritonclient/bin/python
python=python3
[ -x "$triton" ] && python=$triton

# An end under load. A model that takes its time, so that there is always something under way.
serve drained --models "$source_dir/models" --model superresolution --access-log log
grpc=$(sed -n 's/.*gRPC on port \([0-9]*\).*/\1/p' drained.out)
"$python" "$here/drain_load.py" "$server" "${grpc:+127.0.0.1:$grpc}" >clients.json 2>clients.err &
clients=$!
pids+=("$clients")
"$GPUWIRE" load superresolution --server "$server" --clients 2 --requests 1000000 >load.out 2>&1 &
load=$!
pids+=("$load")
eventually stat_above superresolution answered 10 || fail 'no client is answered'
# Python takes its time on a busy machine, while the others are answered.
logged() { grep "$1" log 2>/dev/null | grep -q 'superresolution'; }
eventually logged '"door": *"http"' || fail 'no request over HTTP'
[ -z "$grpc" ] || [ "$python" = python3 ] || eventually logged '"door": *"grpc"' || fail 'no request over gRPC'
kill -TERM "$worker"
eventually grep -q 'info: the server ends' drained.out || fail "the server does not say that it ends: $(cat drained.out)"
wait "$worker" || fail "the worker failed: $(cat drained.out)"
grep -q 'not all is answered' drained.out && fail "it has not drained: $(cat drained.out)"
wait "$clients" || fail "a client failed: $(cat clients.err)"
wait "$load"
grep -q 'being stopped\|has gone\|stops' load.out || fail "the RDMA client does not say what has happened: $(cat load.out)"
# Whatever the server has answered has come to its client. Refusals have a status.
for door in http grpc; do
    answered=$(jq -s "map(select(.door == \"$door\" and (.status == 200 or (.door == \"grpc\" and .status == 0)))) | length" log)
    got=$(jq ".$door.answered" clients.json)
    [ "$answered" = "$got" ] || fail "$door: the server has answered $answered requests, and clients have $got: $(cat clients.json)"
done
[ "$(jq .http.answered clients.json)" -gt 0 ] || fail 'no request over HTTP'
[ -z "$grpc" ] || [ "$python" = python3 ] || [ "$(jq .grpc.answered clients.json)" -gt 0 ] || fail 'no request over gRPC'

# While one request is under way the server is alive, and not ready. Then it ends.
serve slow --models "$source_dir/models" --model superresolution
# A request whose body comes slowly: its slot is taken as soon as its header is there.
python3 "$here/slow_request.py" "$server" go >slow.json 2>slow.err &
slow=$!
pids+=("$slow")
taken() { curl -s "http://$server/metrics" | grep -q '^gpuwire_door_slots_taken{.*} 1$'; }
eventually taken || fail "the slow request has no slot: $(cat slow.err)"
kill -TERM "$worker"
status() { curl -s -o body -w '%{http_code}' "http://$server/$1" "${@:2}"; }
not_ready() { [ "$(status v2/health/ready)" = 503 ]; }
eventually not_ready || fail 'the server is ready while it ends'
[ "$(status v2/health/live)" = 200 ] || fail 'the server is not alive while it ends'
[ "$(status v2/models/superresolution/ready)" = 503 ] || fail 'a model is ready while the server ends'
[ "$(status v2/models/superresolution/infer -d '{"inputs": []}')" = 503 ] || fail 'a request is taken while the server ends'
grep -q 'the server is about to end' body || fail "the refusal does not say why: $(cat body)"
[ "$(status v2/rdma/sessions -d '{"model": "superresolution"}')" = 503 ] || fail 'a session is opened while the server ends'
touch go
wait "$slow" || fail "the slow request: $(cat slow.err)"
eventually gone "$worker" || fail 'the server does not end when all is answered'
wait "$worker" || fail "the worker failed: $(cat slow.out)"

# A client that never finishes holds it up for that time, and no longer. A second signal ends it at once.
for seconds in 1 600; do
    serve stuck --models "$source_dir/models" --model superresolution --drain-seconds "$seconds"
    python3 "$here/slow_request.py" "$server" never >slow.json 2>slow.err &
    slow=$!
    pids+=("$slow")
    eventually taken || fail 'the slow request has no slot'
    kill -TERM "$worker"
    eventually grep -q 'the server ends' stuck.out || fail 'the server does not say that it ends'
    [ "$seconds" = 1 ] || kill -TERM "$worker"
    eventually gone "$worker" || fail "the server does not end: $(cat stuck.out)"
    wait "$worker" 2>/dev/null
    rc=$?
    kill "$slow" 2>/dev/null
    wait "$slow" 2>/dev/null
    if [ "$seconds" = 1 ]; then
        [ "$rc" = 0 ] || fail "the worker ended with $rc"
        grep -q 'warning: not all is answered after 1 s: 1 requests' stuck.out || fail "$(cat stuck.out)"
    else
        [ "$rc" = 143 ] || fail "the second signal: the worker ended with $rc"
    fi
done
rm -f go
# What a killed process leaves goes with the next one.
serve sweeper --models "$source_dir/tests/server/models"
stop_worker
all_gone
echo ok
