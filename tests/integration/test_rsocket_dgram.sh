#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# test_rsocket_dgram.sh PEER LIBRARY: a kernel's datagram sockets over RDMA and librdmacm's datagram rsockets are each other's
# peers: udpong, unmodified, but that LIBRARY (own_ah.c) is preloaded, without which it works on InfiniBand alone.
. "${0%/*}/lib.sh"
need udpong
peer=$1
soft=$("${gpuwire[@]}" run -- sh -c 'echo "$LD_PRELOAD"')
port=$((20000 + RANDOM % 10000))

pong() {
    set -- env "LD_PRELOAD=$soft:$2" "GPUWIRE_NIC=addr=$1" timeout -k 5 "$patience" udpong -b "$1" -p "$port" "${@:3}"
    # In the background its number is the command's, which a signal to it reaches.
    [ "$BASHPID" = $$ ] || exec "$@"
    "$@"
}

# asks NAME FORM LANES COUNT: the kernel asks; it connects when COUNT is odd. Whatever it says udpong's server repeats.
asks() {
    port=$((port + 1))
    pong "$net.1" "$library" >"$work/$1.server.out" 2>&1 &
    local server=$!
    pids+=("$server")
    GPUWIRE_NIC=addr=$net.2 timeout -k 5 "$patience" "$peer" ask "$net.1" "$port" "$4" "$2" "$3" >"$work/$1.out" 2>&1 || fail "$1: the kernel ended with $?"
    kill "$server"
    wait "$server" 2>/dev/null
    grep -q "client login" "$work/$1.server.out" && fail "$1: udpong saw a login that no client made"
    echo "$1: $(tail -1 "$work/$1.out")"
}

# serves NAME FORM LANES SIZE COUNT: the kernel repeats what udpong says. udpong binds to the address that the host sends to
# 127.0.0.0/8 from, so that must be its NIC's; and the kernel's, since its packets come from where it is asked.
serves() {
    port=$((port + 1))
    GPUWIRE_NIC=addr=127.0.0.1 timeout -k 5 "$patience" "$peer" serve 127.0.0.1 "$port" 0 "$2" "$3" >"$work/$1.out" 2>&1 &
    local server=$!
    pids+=("$server")
    pong 127.0.0.1 "$library" -s 127.0.0.1 -T e -S "$4" -C "$5" >"$work/$1.client.out" 2>&1 || fail "$1: udpong ended with $?"
    wait "$server" || fail "$1: the kernel ended with $?"
    grep -q "^custom" "$work/$1.client.out" || fail "$1: udpong told no result"
    echo "$1: $(tail -1 "$work/$1.out")"
}

library=$2
asks asks_thread thread 1 41
asks asks_warp warp 32 40
asks asks_block block 4 41
serves serves_thread thread 1 64 50
serves serves_block block 4 1400 50
serves serves_lanes block 32 1500 20
