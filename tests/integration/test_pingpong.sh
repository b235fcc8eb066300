#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Unmodified ibv_rc_pingpong, two processes. test_pingpong.sh [plain|lossy]
. "${0%/*}/lib.sh"
need ibv_rc_pingpong
case ${1:-plain} in
plain) extra= iters=300 big=60 ;;
lossy) extra=,$unkind,seed=7 iters=200 big=12 PAIR_TRIES=3 ;;
esac
run() { # NAME ARGS...: on one address that both share, and on two
    local name=$1
    shift
    pair "$name-shared" "addr=$net.1$extra" "addr=$net.1$extra" ibv_rc_pingpong -g 0 -c "$@"
    pair "$name-apart" "addr=$net.1$extra" "addr=$net.2$extra" ibv_rc_pingpong -g 0 -c "$@"
    grep -q 'iters in' "$work/$name-apart.client.out" || fail "$name: no result"
    grep -qi 'invalid data' "$work"/"$name"-*.out && fail "$name: wrong bytes"
}
run plain -n $iters
run events -e -n $iters
run one-byte -s 1 -n $iters
run odd -s 4097 -m 1024 -n $iters
run small-mtu -s 3000 -m 256 -n $iters
run few-receives -r 3 -n $iters
run big -s 1048576 -n $big
run big-events -s 262144 -e -n $big -r 16
run new-api -N -n $iters
nothing_left
echo ok
