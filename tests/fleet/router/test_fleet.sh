#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# `gpuwire router` in front of a real controller and emulated workers: 300 models, a worker that is killed while it has
# requests, a controller that is killed and comes back.
here=$(cd "${0%/*}" && pwd)
. "$here/../../integration/lib.sh"
need curl python3
ulimit -c 0

# started PID FILE PATTERN: the process has said so in that file.
started() {
    pids+=("$1")
    wait_for "$2" "$3" "$1" || fail "$(tail -3 "$2")"
}
controller() {
    "$GPUWIRE" controller --standalone --listen "127.0.0.1:$port" --http off >"$work/controller.out" 2>&1 &
    leader=$!
    started "$leader" "$work/controller.out" "$port"
}
# workers NAME NUMBER: emulated, with 300 models each. Sets $emulated.
workers() {
    "$GPUWIRE" fleet emulate --controller "127.0.0.1:$port" --name "$1" --workers "$2" --models 300 --drain-seconds 0 >"$work/$1.out" 2>&1 &
    emulated=$!
    started "$emulated" "$work/$1.out" 'emulating'
}
port=$(python3 -c "import socket; s = socket.socket(); s.bind(('127.0.0.1', 0)); print(s.getsockname()[1])")
controller
workers doomed 1
doomed=$emulated
workers other 1
"$GPUWIRE" router --controller "127.0.0.1:$port" --port 0 --deadline 5000 --drain-seconds 2 >"$work/router.out" 2>&1 &
router=$!
started "$router" "$work/router.out" 'HTTP on port'
url=http://127.0.0.1:$(sed -n 's/.*HTTP on port \([0-9]*\).*/\1/p' "$work/router.out")

head -c 602112 /dev/zero >"$work/picture"
# infer MODEL: its status, of a request with a tensor of 602,112 bytes.
infer() {
    curl -s --max-time "$patience" -o "$work/answer" -w '%{http_code}' -H 'Inference-Header-Content-Length: 0' \
        --data-binary "@$work/picture" "$url/v2/models/$1/infer"
}
ready() { [ "$(curl -s -o "$work/answer" -w '%{http_code}' "$url/v2/health/ready")" = "$1" ]; }
listed() { [ "$(curl -s -d '{}' "$url/v2/repository/index" | grep -o '"READY"' | wc -l)" = 300 ]; }

eventually ready 200 || fail "the router is not ready: $(cat "$work/answer")"
eventually listed || fail 'the router does not list 300 models'
curl -s "$url/v2/models/resnet50-299" | grep -q '"shape":\[-1,150528\]' || fail 'a model is not described'
[ "$(infer resnet50-0)" = 200 ] || fail "an inference: $(head -c 300 "$work/answer")"
[ "$(tail -c 4000 "$work/answer" | wc -c)" = 4000 ] || fail 'the answer has no tensor'
[ "$(infer resnet50-300)" = 404 ] || fail 'a model that there is not is served'

# ---- a worker dies: each request is answered all the same
python3 "$here/stream.py" "${url#http://}" 16 3 resnet50-0 resnet50-1 resnet50-2 >"$work/stream.out" 2>&1 &
stream=$!
nap 1
kill -KILL "$doomed"
wait "$stream" || fail "with a worker killed: $(tail -3 "$work/stream.out")"
[ "$(infer resnet50-3)" = 200 ] || fail "the other worker does not answer: $(head -c 300 "$work/answer")"

# ---- the controller dies: what is leased goes on; it comes back, and all goes on
kill -KILL "$leader"
python3 "$here/stream.py" "${url#http://}" 4 2 resnet50-0 >"$work/stream.out" 2>&1 || fail "without a controller: $(tail -3 "$work/stream.out")"
ready 200 || fail "with leases the router must be ready: $(cat "$work/answer")"
controller
back() { [ "$(infer resnet50-77)" = 200 ]; }
eventually back || fail "with the controller back: $(head -c 300 "$work/answer")"

kill -TERM "$router"
wait "$router" || fail "the router ended with $?"
echo "a fleet is served over HTTP"
