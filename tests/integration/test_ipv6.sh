#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# NICs at IPv6 addresses: of loopback, and unique local ones in a network namespace of the test's own, plain and lossy.
if [ "${1:-}" != inside ]; then
    unshare -rn true 2>/dev/null || { echo "skipped: no network namespaces here"; exit 77; }
    exec unshare -rn "$0" inside
fi
. "${0%/*}/lib.sh"
need ip ibv_rc_pingpong ib_write_bw ib_read_lat ibv_devinfo
fast_perftest
ip link set lo up || exit 77
ip -6 addr show dev lo | grep -q '::1/128' || { echo "skipped: no IPv6 here"; exit 77; }
a=fd12:3456::1 b=fd12:3456::2
for address in $a $b; do ip addr add $address/64 dev lo nodad || fail "cannot add $address"; done

"${gpuwire[@]}" run --nic addr=$b -- ibv_devinfo -v >"$work/info.out" 2>&1 || fail "ibv_devinfo"
grep -q "GID\[ *0\]:.*$b, RoCE v2" "$work/info.out" || fail "no GID $b"

PAIR_TRIES=3 # of those that lose packets: see lib.sh
for nics in "addr=::1 addr=::1" "addr=$a addr=$b" "addr=$a,loss=1%,reorder=1% addr=$b,loss=1%,dup=1%"; do
    set -- $nics
    pair pingpong "$1" "$2" ibv_rc_pingpong -g 0 -n 200 -c
    pair write_bw "$1" "$2" ib_write_bw -F -x 0 -d mlx5_0 -s 65536 -n 100
    pair read_lat "$1" "$2" ib_read_lat -F -x 0 -d mlx5_0 -s 5000 -n 100
done
nothing_left
echo ok
