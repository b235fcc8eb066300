#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Traffic goes on, every byte right and no connection lost, beside another user who does whatever another user can.
# test_beside.sh TRAFFIC SECONDS [NIC SETTINGS]   The settings, say faults, are those of both sides.
. "${0%/*}/lib.sh"
in_own_net "$0" "$@"
export PATH=/usr/bin:/bin:$PATH # what the stranger runs must not lie in root's home
need python3 setpriv
attacker=$(readable "${0%/*}/bother.py")
as_stranger python3 "$attacker" "$net.1" "$net.9" >"$work/bother.out" 2>&1 &
bother=$!
pids+=("$bother")
wait_for "$work/bother.out" ready "$bother" || fail 'the attacker does not begin'
more=${3:+,$3}
PAIR_TIMEOUT=$(($2 * 4 + 120))
for local in off cma; do
    pair "$local" "addr=$net.1,local=$local$more" "addr=$net.1,local=$local$more" \
        "$1" --seconds "$2" --types rc,uc,ud --links 8 --seed "$RANDOM"
    grep -q 'every byte right' "$work/$local.client.out" || fail 'it did not say that all was right'
    grep -h 'connection is over' "$work/$local".*.out && fail 'a connection was lost'
done
kill -TERM "$(pgrep -P "$bother" python3 || echo "$bother")"
wait "$bother"
cat "$work/bother.out"
grep -q "'packets': [1-9]" "$work/bother.out" || fail 'the attacker sent nothing'
nothing_left
echo ok
