#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A controller and a worker are killed under load: clients go on with what they hold, and nothing is lost.
. "$(dirname "$0")/../../integration/lib.sh" || exit 1
"$GPUWIRE" controller --help >"$work/out" 2>&1 || exit 77 # built without fleets
port=$(free_port)
controller() { # a life of it: $leader
    "$GPUWIRE" controller --standalone --listen "127.0.0.1:$port" --http off >"$work/controller.out" 2>&1 &
    leader=$!
    pids+=("$leader")
    wait_for "$work/controller.out" 'listening on' "$leader" || { cat "$work/controller.out"; fail 'no controller'; }
}
workers() { # NAME HOW-MANY: $process
    "$GPUWIRE" fleet emulate --controller "127.0.0.1:$port" --workers "$2" --models 4 --profile resnet50-h200 --name "$1" --quiet \
        >"$work/$1.out" 2>&1 &
    process=$!
    pids+=("$process")
    wait_for "$work/$1.out" emulating "$process" || { cat "$work/$1.out"; fail "no workers $1"; }
}
controller
workers stays 2
workers dies 1
dies=$process
"$GPUWIRE" load resnet50-0 --fleet "127.0.0.1:$port" --deadline 20s --rate 400 --requests 1600 >"$work/load.out" 2>&1 &
load=$!
pids+=("$load")
nap 1
kill -KILL "$leader"
nap 1
controller
nap 1
kill -KILL "$dies"
wait "$load" || { cat "$work/load.out"; fail 'the load'; }
cat "$work/load.out"
grep -q '100.000%' "$work/load.out" || fail 'not all were answered'
exit 0
