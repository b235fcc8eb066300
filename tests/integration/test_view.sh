#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# All of a process sees the NIC as it would see a ConnectX: in sysfs and in /dev, by every caller and every way. test_view.sh
# VIEW LOADED_LATER SPELLED
. "${0%/*}/lib.sh"
export GPUWIRE_NIC=addr=$net.1

timeout "$patience" "${gpuwire[@]}" run -- "$1" lo >"$work/view.out" 2>&1 || fail 'view'
grep -q '^ok$' "$work/view.out" || fail 'view is not ok'

timeout "$patience" "${gpuwire[@]}" run -- "$3" >"$work/spelled.out" 2>&1 || fail 'spelled'
grep -q '^ok$' "$work/spelled.out" || fail 'spelled is not ok'
# A program that begins in a folder of its parent's.
timeout "$patience" "${gpuwire[@]}" run -- sh -c 'cd /sys/class/infiniband && cat ../net/lo/ifindex && cat mlx5_0/node_type' >"$work/child.out" 2>&1 &&
    grep -q '^1: CA$' "$work/child.out" || fail 'a program in a folder of its parent'

# The counters are the process's own, and live: a message to itself is a packet, and its acknowledgement another.
GPUWIRE_NIC=$GPUWIRE_NIC,hostile=1 timeout "$patience" "${gpuwire[@]}" run -- "$2" libibverbs.so.1 >"$work/counts.out" 2>&1 || fail 'counts'
grep -qE '^port_xmit_packets [2-9]' "$work/counts.out" || fail 'the counters do not count'

need python3
# Several NICs are several cards: their addresses differ in the bus, and not only in the function.
cat >"$work/cards.py" <<'END'
import os
cards = {os.path.realpath("/sys/class/infiniband/mlx5_%d/device" % i) for i in range(3)}
assert len({c[:-4] for c in cards}) == 3, cards
END
python=$(python3 -c 'import sys; print(sys.executable)')
GPUWIRE_NIC="addr=$net.1;addr=$net.2;addr=$net.3" timeout "$patience" "${gpuwire[@]}" run -- "$python" "$work/cards.py" >"$work/cards.out" 2>&1 || fail 'cards'

# What stands in for `rdma link`, for tests that call it.
rdma=$(cd "$(dirname "$0")/../../scripts/stand-in" && pwd)
links=$(PATH=$rdma:$PATH timeout "$patience" "${gpuwire[@]}" run -- "$python" "$rdma/rdma" link show -j)
"$python" -c 'import json, sys; (l,) = json.loads(sys.argv[1]); assert (l["ifname"], l["port"], l["state"], l["netdev"]) == ("mlx5_0", 1, "ACTIVE", "lo")' \
    "$links" || fail "rdma link: $links"

if command -v lstopo-no-graphics >/dev/null; then # hwloc looks from an open folder, /
    timeout "$patience" "${gpuwire[@]}" run -- lstopo-no-graphics --of console >"$work/lstopo.out" 2>&1
    grep -q 'mlx5_0' "$work/lstopo.out" || fail 'lstopo does not show the NIC'
fi
if command -v ibstat >/dev/null; then
    timeout "$patience" "${gpuwire[@]}" run -- ibstat >"$work/ibstat.out" 2>&1 || fail 'ibstat'
    grep -q 'State: Active' "$work/ibstat.out" && grep -q 'Link layer: Ethernet' "$work/ibstat.out" || fail 'ibstat shows no port'
fi
nothing_left
echo ok
