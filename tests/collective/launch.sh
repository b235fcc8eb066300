#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# launch.sh N [killed=R] PROGRAM ARG...: N processes that meet by an address in the environment. All must end with success,
# but for rank R, which a signal must have killed. Exit code 77 where a rank says so.
. "$(dirname "$0")/../integration/lib.sh"
ranks=$1 killed=none
shift
case $1 in killed=*) killed=${1#killed=} && shift ;; esac
program=$1
shift
[[ $program == */* ]] || program=$(dirname "$0")/../$program # in a bundle
GPUWIRE_RENDEZVOUS=127.0.0.1:$(free_port)
export GPUWIRE_SIZE=$ranks GPUWIRE_DEVICE=softnic GPUWIRE_NIC=${NIC:-addr=$net.1} GPUWIRE_RENDEZVOUS
for ((rank = 0; rank < ranks; rank++)); do
    GPUWIRE_RANK=$rank timeout -k 5 "$patience" "$program" "$@" >"$work/$rank.out" 2>&1 &
    pids+=($!)
done
for ((rank = 0; rank < ranks; rank++)); do
    wait "${pids[rank]}"
    code=$?
    [ $code != 77 ] || { cat "$work/$rank.out" && exit 77; }
    if [ "$rank" = "$killed" ]; then
        [ $code = 137 ] || fail "rank $rank was not killed: $code"
    else
        [ $code = 0 ] || fail "rank $rank: exit code $code"
        grep -qx "rank $rank of $ranks: as it must be" "$work/$rank.out" || fail "rank $rank did not say that all is well"
    fi
done
nothing_left
