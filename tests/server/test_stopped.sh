#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A client that is not let run for three seconds, with answers on their way to it, keeps its session and goes on. Its NIC is
# the software NIC, which acknowledges nothing in that time.
. "$(dirname "$0")/lib.sh" || exit 1
need curl
serve worker --models "$source_dir/models" --model identity --sessions 2
"$GPUWIRE" load identity --server "$server" --requests 1000000000 --slots 8 --verify-echo >"$work/client.out" 2>&1 &
client=$!
pids+=("$client")
before=0
for round in 1 2 3; do
    eventually stat_above identity answered $((before + 100)) || fail "round $round: no client is being answered"
    kill -STOP "$client"
    sleep 3
    kill -CONT "$client"
    before=$(stat_of identity answered)
    eventually stat_above identity answered "$before" || fail "round $round: the client does not go on"
    kill -0 "$client" 2>/dev/null || fail "round $round: the client has ended"
done
ends "$client" INT
grep -q 'not their request: 0' "$work/client.out" || fail 'the client got wrong answers'
! grep -q 'closed:' "$work/worker.out" || fail 'the session was closed'
stop_worker
