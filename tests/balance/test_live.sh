#!/usr/bin/env bash
# The data plane on a real link: a client and two workers in network namespaces, TCP connections by direct routing and by
# NAT, through DPDK's af_packet. Root only.
#
#     test_live.sh PLANE
set -euo pipefail
plane=$1
[ "$(id -u)" = 0 ] || { echo "needs root, to make network namespaces"; exit 77; }
command -v socat >/dev/null && command -v ethtool >/dev/null || { echo "needs socat and ethtool"; exit 77; }
ip netns add "gwb$$" 2>/dev/null || { echo "may make no network namespaces"; exit 77; }
names=(b c w1 w2)
pids=()
clean() {
    [ "${#pids[@]}" -eq 0 ] || kill "${pids[@]}" 2>/dev/null || true
    wait
    ip netns del "gwb$$" 2>/dev/null || true
    for n in "${names[@]}"; do ip netns del "gwb$$$n" 2>/dev/null || true; done
    rm -rf "$work"
}
work=$(mktemp -d)
trap clean EXIT
in_ns() { # NAME COMMAND...: in one of the hosts
    local n=$1
    shift
    ip netns exec "gwb$$$n" "$@"
}

# A switch, and a cable to each.
ip -n "gwb$$" link add br0 type bridge
ip -n "gwb$$" link set br0 up
for n in "${names[@]}"; do
    ip netns add "gwb$$$n"
    ip -n "gwb$$" link add "p$n" type veth peer name eth0 netns "gwb$$$n"
    ip -n "gwb$$" link set "p$n" master br0 up
    ip -n "gwb$$$n" link set lo up
    ip -n "gwb$$$n" link set eth0 up
    # A packet leaves whole and with its checksum, as it would on a cable.
    in_ns "$n" ethtool -K eth0 tx off tso off gso off gro off >/dev/null
done
ip -n "gwb$$c" addr add 10.128.0.1/8 dev eth0
for w in 1 2; do
    ip -n "gwb$$w$w" addr add "10.2.0.$w/16" dev eth0
    ip -n "gwb$$w$w" route add 10.0.0.1 dev eth0
    in_ns "w$w" sysctl -qw net.ipv4.conf.all.arp_ignore=1 net.ipv4.conf.all.arp_announce=2 net.ipv4.conf.all.rp_filter=0
    ip netns exec "gwb$$w$w" socat "TCP-LISTEN:80,fork,reuseaddr,backlog=128" "SYSTEM:echo worker$w" &
    pids+=($!)
done

try() { # FORWARD: 60 connections; both workers answer, none fails
    ip netns exec "gwb$$b" "$plane" live "$1" af_packet:eth0 >"$work/$1" &
    local pid=$!
    pids+=("$pid")
    for _ in $(seq 300); do grep -q up "$work/$1" && break || sleep 0.1; done
    # Its one socket is in no group: the kernel need not hash packets. (Without the kernel's packet_diag, ss says nothing of groups.)
    in_ns b ss -0 -e | tee "$work/sockets" | grep -q fanout && { echo "$1: one queue has a group of sockets"; cat "$work/sockets"; exit 1; }
    in_ns c timeout 40 socat -u TCP:10.1.0.1:80,connect-timeout=20 - >/dev/null # until the neighbours are known
    for _ in $(seq 60); do in_ns c timeout 40 socat -u TCP:10.1.0.1:80,connect-timeout=20 - ; done >"$work/answers"
    kill -TERM "$pid"
    wait "$pid"
    tail -n 1 "$work/$1"
    for w in 1 2; do
        [ "$(grep -c "worker$w" "$work/answers")" = 30 ] || { echo "$1: not 30 answers of worker $w"; cat "$work/answers"; exit 1; }
    done
}

for w in 1 2; do ip -n "gwb$$w$w" route add default via 10.0.0.1 dev eth0; done
try nat
for w in 1 2; do
    ip -n "gwb$$w$w" route del default
    ip -n "gwb$$w$w" route add 10.128.0.0/16 dev eth0
    ip -n "gwb$$w$w" addr add 10.1.0.1/32 dev lo
done
try dr
echo "60 connections by NAT and 60 by direct routing, none failed"
