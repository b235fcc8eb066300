#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Unmodified programs that use shared receive queues and XRC. test_srq.sh [plain|lossy]
. "${0%/*}/lib.sh"
need ibv_srq_pingpong ibv_xsrq_pingpong ib_send_bw ib_send_lat ib_write_bw ib_read_lat ib_atomic_lat
own_files /tmp/xrc_domain /tmp/xrc_domain_server /tmp/xrc_domain_client
fast_perftest
case ${1:-plain} in
plain) extra= iters=200 ;;
lossy) extra=,$unkind,seed=9 iters=60 PAIR_TRIES=3 ;;
esac
run() { # NAME PROGRAM ARGS...: on one address that both share, and on two
    local name=$1
    shift
    pair "$name-shared" "addr=$net.1$extra" "addr=$net.1$extra" "$@"
    pair "$name-apart" "addr=$net.1$extra" "addr=$net.2$extra" "$@"
}
run plain ibv_srq_pingpong -g 0 -c -n $iters
run events ibv_srq_pingpong -g 0 -c -e -n $iters
run few ibv_srq_pingpong -g 0 -c -q 4 -r 8 -s 5000 -m 1024 -n $iters
run xrc ibv_xsrq_pingpong -g 0 -n 50
run xrc-events ibv_xsrq_pingpong -g 0 -n 50 -e -s 5000 -m 1024
grep -qx success "$work"/xrc-apart.client.out || fail "xrc: no success"
grep -qi 'invalid data' "$work"/*.out && fail "wrong bytes"
if [ "${1:-plain}" = plain ]; then
    run bw ib_send_bw --use-srq -q 4 -s 4096 -n 500 -F -x 0 -d mlx5_0
    run bw-both ib_send_bw -b --use-srq -q 2 -s 4096 -n 500 -F -x 0 -d mlx5_0
    run lat ib_send_lat --use-srq -s 64 -n 300 -F -x 0 -d mlx5_0
    for test in "ib_send_bw -q 2 -s 4096" "ib_send_lat -s 64" "ib_write_bw -s 4096" "ib_read_lat -s 64" "ib_atomic_lat"; do
        set -- $test
        pair "xrc-$1" "addr=$net.1" "addr=$net.2" "$@" -c XRC -n 100 -F -x 0 -d mlx5_0
        grep -q '#bytes' "$work/xrc-$1.client.out" || fail "$1 over XRC: no result"
    done
    grep -q '#bytes' "$work/bw-apart.client.out" || fail "no result"
fi
nothing_left
echo ok
