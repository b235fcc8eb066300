#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# test_gpunet.sh TEST_GPUNET ECHO_CPU: kernels in GPUnet's words, and an ordinary sockets program as their peer: over TCP, and
# over RDMA under librdmacm's preload library.
. "${0%/*}/lib.sh"
kernel=$1 plain=$2
port=$((20000 + RANDOM % 10000))
preload=$(ldconfig -p | sed -n 's,.*=> \(.*\)/librdmacm.so.1$,\1/rsocket/librspreload.so,p' | head -1)
[ -e "$preload" ] || { echo 'skipped: librspreload.so is not installed'; exit 77; }
soft=$("${gpuwire[@]}" run -- sh -c 'echo "$LD_PRELOAD"')
plain="${gpuwire[*]} run -- env LD_PRELOAD=$soft:$preload $plain"

# between NAME "SERVER" "CLIENT": both must end well. The server is at $net.1.
between() {
    GPUWIRE_NIC=addr=$net.1 timeout -k 5 "$patience" $2 >"$work/$1.server.out" 2>&1 &
    local server=$!
    pids+=("$server")
    $wait "$port" "$server" || fail "$1: the server does not listen"
    GPUWIRE_NIC=addr=$net.2 timeout -k 5 "$patience" $3 >"$work/$1.client.out" 2>&1 || fail "$1: the client ended with $?"
    wait "$server" || fail "$1: the server ended with $?"
    echo "$1: ok"
    port=$((port + 1))
}

over_rdma() { wait_service "$net.1" "$1" "$2"; }

wait=wait_listen
port=$(free_port)
between tcp_asks "$2 $port" "$kernel tcp client $net.1 $port"
port=$(free_port)
between tcp_answers "$kernel tcp server $net.1 $port" "$2 $port $net.1"
wait=over_rdma
for lanes in 1 4; do
    between "asks_$lanes" "$plain $port" "$kernel client $net.1 $port --lanes $lanes"
    between "answers_$lanes" "$kernel server $net.1 $port --lanes $lanes" "$plain $port $net.1"
done
GPUWIRE_NIC=addr=$net.2 timeout "$patience" "$kernel" client "$net.2" "$port" >"$work/refused.out" 2>&1 && fail 'a connection to a closed port succeeds'
grep -q 'Connection refused' "$work/refused.out" || fail 'a connection to a closed port is not refused'
