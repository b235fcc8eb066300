#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Clients killed in the midst of their requests, 30 times: the worker serves the others, and its only free session comes
# back each time.
. "$(dirname "$0")/lib.sh" || exit 1
need curl
serve worker --models "$source_dir/models" --model identity --sessions 2
"$GPUWIRE" load identity --server "$server" --requests 1000000000 --slots 2 --verify-echo >"$work/other.out" 2>&1 &
other=$!
pids+=("$other")
eventually stat_is identity sessions_open 1 || fail 'the client does not get in'

before=0
for round in $(seq 30); do
    "$GPUWIRE" load identity --server "$server" --requests 1000000000 --slots 8 >"$work/victim.out" 2>&1 &
    victim=$!
    pids+=("$victim")
    # A new client gets in soon after the last one's death.
    eventually stat_is identity sessions_open 2 || fail "round $round: the new client does not get in"
    sleep 0.0$((RANDOM % 9 + 1))
    kill -KILL "$victim"
    wait "$victim" 2>/dev/null
    kill -0 "$other" 2>/dev/null || fail "round $round: the other client has ended: $(cat "$work/other.out")"
    eventually stat_above identity answered "$before" || fail "round $round: no client is being answered"
    before=$(stat_of identity answered)
done
eventually stat_is identity sessions_open 1 || fail 'the last session does not come back'
ends "$other" INT
grep -q 'not their request: 0' "$work/other.out" || fail 'the other client got wrong answers'
stop_worker
echo "ok: $before requests answered"
