#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# perftest's programs, unmodified, over RC.
. "${0%/*}/lib.sh"
need ib_atomic_lat ib_atomic_bw ib_write_lat ib_write_bw ib_send_lat ib_send_bw ib_read_lat ib_read_bw
nic=addr=$net.1
for test in "ib_write_lat -s 64 -n 500" "ib_send_lat -s 64 -n 500" "ib_read_lat -s 64 -n 500" \
            "ib_write_bw -s 65536 -n 200" "ib_send_bw -s 65536 -n 200" "ib_read_bw -s 65536 -n 100"; do
    set -- $test
    pair "$1" $nic $nic "$@" -F -x 0 -d mlx5_0
    grep -q '#bytes' "$work/$1.client.out" || fail "$1: no result"
done
# Sleeping until an event. (perftest refuses -e for WRITE: the receiver would never wake.)
for test in "ib_send_lat -e -n 200" "ib_read_lat -e -n 200" "ib_atomic_lat -e -n 200" "ib_send_bw -e -n 200 -q 3" \
            "ib_send_bw -e -b -n 200" "ib_read_bw -e -n 100" "ib_atomic_bw -e -n 200"; do
    set -- $test
    pair "$1" $nic $nic "$@" -F -x 0 -d mlx5_0
    grep -q '#bytes' "$work/$1.client.out" || fail "$test: no result"
done
nothing_left
echo ok
