#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Whole Ethernet frames over a pair of virtual interfaces, in a network namespace of the test's own: two such NICs, and
# one against a NIC on UDP sockets, whose headers are the kernel's.
if [ -z "${IN_NAMESPACE:-}" ]; then
    for unshare in "unshare -n" "unshare -rn"; do
        $unshare ip link add gw-try type veth peer name gw-yrt 2>/dev/null && IN_NAMESPACE=1 exec $unshare "$0"
    done
    echo "skipped: no right to make network interfaces"
    exit 77
fi
. "${0%/*}/lib.sh"
need ibv_rc_pingpong ip

ip link set lo up
ip link add va mtu 9000 address 02:00:00:00:0a:01 type veth peer name vb mtu 9000 address 02:00:00:00:0b:01
ip link set va up
ip link set vb up
# The host is at vb, with these addresses; the NICs at the other ones are stations of their own.
ip addr add 192.0.2.2/24 dev vb
ip addr add 2001:db8::2/64 dev vb nodad

eth=wire=eth,if=va
run() { # NAME SERVER CLIENT ARGS...
    local name=$1 snic=$2 cnic=$3
    shift 3
    pair "$name" "$snic" "$cnic" ibv_rc_pingpong -g 0 -c -n 200 "$@"
    grep -q 'iters in' "$work/$name.client.out" || fail "$name: no result"
}
run to-sockets addr=192.0.2.2 $eth,addr=192.0.2.1/24 -s 5000 -m 4096
run from-sockets $eth,addr=192.0.2.1/24 addr=192.0.2.2 -s 5001 -m 1024
run sockets-ipv6 addr=2001:db8::2 $eth,addr=2001:db8::1/64 -s 5000
run from-sockets-ipv6 $eth,addr=2001:db8::1/64 addr=2001:db8::2 -s 5000 -e
run two-stations $eth,addr=192.0.2.1 wire=eth,if=vb,addr=192.0.2.9,mac=02:00:00:00:99:01 -s 100000
run two-stations-ipv6 $eth,addr=2001:db8::1/64,mac=02:00:00:00:99:02 wire=eth,if=vb,addr=2001:db8::9/64 -s 100000
PAIR_TRIES=3 run unkind $eth,addr=192.0.2.1/24,loss=1%,dup=1%,reorder=1%,seed=3 addr=192.0.2.2 -s 20000

# What cannot be is said in one line.
refused() { # NIC WORDS
    GPUWIRE_NIC=$1 timeout "$patience" "${gpuwire[@]}" run -- ibv_rc_pingpong -g 0 >"$work/refused.out" 2>&1 && fail "$1 was taken"
    grep -q "$2" "$work/refused.out" || fail "$1: not said: $2"
}
refused $eth,addr=192.0.2.2 "an address of this host"
refused wire=eth,if=lo,addr=192.0.2.1 "no Ethernet"
refused wire=eth,if=none,addr=192.0.2.1 "no interface none"
port=$(free_port)
GPUWIRE_NIC=$eth,addr=192.0.2.1 timeout "$patience" "${gpuwire[@]}" run -- ibv_rc_pingpong -g 0 -p "$port" >"$work/first.out" 2>&1 &
pids+=($!)
wait_listen "$port" "$!" || fail "the first one does not listen"
refused $eth,addr=192.0.2.1 "another process's NIC has the address"
kill "$!"
wait "$!"
nothing_left
echo ok
