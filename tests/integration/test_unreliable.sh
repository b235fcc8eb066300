#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Unmodified programs over UC and UD, two processes at one address and at two. Nothing gets lost here: these programs wait
# forever for what does, as they would on any network. test_unreliable.sh [pingpong|perftest]
. "${0%/*}/lib.sh"
fast_perftest
both() { # NAME RESULT PROGRAM ARGS...: RESULT is what the client's output must have
    local name=$1 result=$2 where
    shift 2
    for where in 1 2; do
        pair "$name-$where" "addr=$net.1" "addr=$net.$where" "$@"
        grep -q "$result" "$work/$name-$where.client.out" || fail "$name: no result"
        grep -qi 'invalid data' "$work/$name-$where".*.out && fail "$name: wrong bytes"
    done
}
case ${1:-pingpong} in
pingpong)
    need ibv_uc_pingpong ibv_ud_pingpong
    uc() { local name=$1; shift; both "uc-$name" 'iters in' ibv_uc_pingpong -g 0 -c "$@"; }
    ud() { local name=$1; shift; both "ud-$name" 'iters in' ibv_ud_pingpong -g 0 -c "$@"; }
    uc plain -n 300
    uc events -e -n 200
    uc odd -s 4097 -m 1024 -n 200
    uc small-mtu -s 3000 -m 256 -n 200
    uc big -s 65536 -n 50
    uc one-byte -s 1 -n 200
    ud plain -n 300
    ud events -e -n 200
    ud one-byte -s 1 -n 200
    ud longest -s 4096 -n 200
    ;;
perftest)
    need ib_write_lat ib_write_bw ib_send_lat ib_send_bw
    for test in "ib_send_lat -c UC -s 64 -n 500" "ib_send_lat -c UD -s 64 -n 500" "ib_write_lat -c UC -s 64 -n 300" \
                "ib_write_bw -c UC -s 65536 -n 50" "ib_send_bw -c UC -s 16384 -n 50" "ib_send_bw -c UD -s 1024 -n 200" \
                "ib_send_bw -c UD -s 512 -n 100 -b"; do
        set -- $test
        both "$1-$3" '#bytes' "$@" -F -x 0 -d mlx5_0
    done
    ;;
esac
nothing_left
echo ok
