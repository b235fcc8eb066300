#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The distribution's own tools see a ConnectX.
. "${0%/*}/lib.sh"
need ibv_devices ibv_devinfo
export GPUWIRE_NIC=addr=$net.1

"${gpuwire[@]}" run -- ibv_devices >"$work/devices.out" 2>&1 || fail "ibv_devices"
grep -q 'mlx5_0' "$work/devices.out" || fail "ibv_devices does not list mlx5_0"

"${gpuwire[@]}" run -- ibv_devinfo >"$work/info.out" 2>&1 || fail "ibv_devinfo"
for want in 'hca_id:.mlx5_0' 'transport:.*InfiniBand' 'vendor_part_id:.*4129' 'state:.*PORT_ACTIVE' \
            'link_layer:.*Ethernet' 'active_mtu:.*4096'; do
    grep -q "$want" "$work/info.out" || fail "ibv_devinfo says nothing like '$want'"
done

"${gpuwire[@]}" run -- ibv_devinfo -v >"$work/verbose.out" 2>&1 || fail "ibv_devinfo -v"
grep -q "GID\[ *0\]:.*::ffff:$net.1, RoCE v2" "$work/verbose.out" || fail "no GID of $net.1"
grep -q 'GID\[ *1\]' "$work/verbose.out" && fail "more than one GID"

# With few file descriptors it works, or the limit is named: libibverbs itself names no reason.
few=0
for n in 8 10 12 13 14 15 16 17 18 19 20 21; do
    (ulimit -n $n && exec "${gpuwire[@]}" run -- ibv_devinfo) >"$work/few.out" 2>&1 && continue
    few=$((few + 1))
    grep -q 'ulimit -n' "$work/few.out" || fail "a limit of $n file descriptors is not named"
done
[ $few -gt 0 ] || fail 'no limit was too low'

need ibv_asyncwatch stdbuf
timeout -s INT "$patience" "${gpuwire[@]}" run -- stdbuf -oL ibv_asyncwatch >"$work/async.out" 2>&1 &
pids+=($!)
wait_for "$work/async.out" 'mlx5_0: async event FD' "${pids[-1]}" || fail "ibv_asyncwatch does not watch"
kill -INT "${pids[-1]}"
wait "${pids[-1]}"
unset 'pids[-1]'
nothing_left
echo ok
