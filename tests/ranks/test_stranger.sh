#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Another user of the host knows where rank 0 listens, and says that it is rank 1. Without the secret it is refused, and the right
# rank 1 joins. $1: the program.
. "$(dirname "$0")/../integration/lib.sh"
need setpriv
[ "$(id -u)" = 0 ] || { echo "skipped: only root has another user at hand"; exit 77; }
chmod 755 "$work"
cp "$1" "$work/peer"
port=$(free_port)
export GPUWIRE_RENDEZVOUS=127.0.0.1:$port GPUWIRE_SIZE=2
rank() { GPUWIRE_RANK=$1 timeout -k 5 "$patience" "${@:2}" "$work/peer"; }

GPUWIRE_SECRET=known rank 0 env >"$work/first" 2>&1 & first=$!
for secret in '' guessed; do
    code=0
    (cd / && GPUWIRE_SECRET=$secret rank 1 setpriv --reuid 65534 --regid 65534 --clear-groups) >"$work/out" 2>"$work/err" || code=$?
    [ "$code" = 1 ] && grep -q 'rank 0 has another secret' "$work/err" || fail "a stranger with the secret '$secret': exit code $code"
done
GPUWIRE_SECRET=known rank 1 env >"$work/out" 2>"$work/err" || fail "the right rank 1: exit code $?"
wait "$first" || fail "rank 0: exit code $?"
grep -qx 'rank 0 of 2 by 2: all said' "$work/first" || fail "rank 0 did not meet rank 1"
nothing_left
