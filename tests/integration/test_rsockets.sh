#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# test_rsockets.sh PEER [lossy]: a kernel's sockets and librdmacm's rsockets, unmodified, are each other's peers: rstream by
# itself, and as an ordinary sockets program under librspreload. Each side checks every byte that the other one sends.
. "${0%/*}/lib.sh"
need rstream riostream
peer=$1
one=addr=$net.1 two=addr=$net.2
[ "${2:-}" = lossy ] && one=$one,loss=2%,seed=3 two=$two,loss=2%,seed=4
port=$((20000 + RANDOM % 10000)) # of rdma_cm's own space: TCP's do not matter

# between NAME "SERVER" "CLIENT": both must end well. The server is at $net.1.
between() {
    local name=$1 server begin=$SECONDS
    GPUWIRE_NIC=$one timeout -k 5 "$patience" $2 >"$work/$name.server.out" 2>&1 &
    server=$!
    pids+=("$server")
    wait_service "$net.1" "$port" "$server" || fail "$name: the server does not listen"
    GPUWIRE_NIC=$two timeout -k 5 "$patience" $3 >"$work/$name.client.out" 2>&1 || fail "$name: the client ended with $?"
    wait "$server" || fail "$name: the server ended with $?"
    echo "$name: ok, $((SECONDS - begin)) s"
    port=$((port + 1))
}

# both NAME SIZE ITERATIONS COUNT "RSTREAM OPTIONS" "KERNEL OPTIONS" [PRELOAD]: the kernel is the server, then the client.
both() {
    local run="${gpuwire[*]} run -- ${7:-} rstream -T v $5 -S $2 -I $3 -C $4"
    between "$1_kernel_serves" "$peer server $net.1 $port $2 $3 $4 $6" "$run -p $port -s $net.1"
    between "$1_kernel_asks" "$run -p $port" "$peer client $net.1 $port $2 $3 $4 $6"
}

both blocking 4096 5 10 "-T b" "block 4"
both nonblocking 1000 3 20 "-T n" "warp 32"
both polling 5001 3 5 "-T a" "thread"
both large 1000000 2 2 "-T b" "block 4 65536"
if [ "${2:-}" != lossy ]; then
    both small_buffers 20000 2 3 "-T b -B 8192" "block 1 4096"
    # rstream greets its peer with 16 bytes of its buffer, also of one of a single byte: AddressSanitizer minds.
    least=${SANITIZER:+16}
    both small "${least:-1}" 20 20 "-T b" "block"
    preload=$(ldconfig -p | sed -n 's,.*=> \(.*\)/librdmacm.so.1$,\1/rsocket/librspreload.so,p' | head -1)
    if [ -e "$preload" ]; then
        soft=$("${gpuwire[@]}" run -- sh -c 'echo "$LD_PRELOAD"')
        both preloaded 3000 3 5 "-T s -T b" "block" "env LD_PRELOAD=$soft:$preload"
    fi
fi

# Direct access: riostream writes into the kernel's memory, and the kernel into its.
rio() { # NAME SIZE ITERATIONS COUNT "RIOSTREAM OPTIONS" "KERNEL OPTIONS"
    local run="${gpuwire[*]} run -- riostream -T v $5 -S $2 -I $3 -C $4"
    between "$1_kernel_serves" "$peer rio-server $net.1 $port $2 $3 $4 $6" "$run -p $port -s $net.1"
    between "$1_kernel_asks" "$run -p $port" "$peer rio-client $net.1 $port $2 $3 $4 $6"
}
rio direct 10000 5 4 "-T b" "block 4"
rio direct_large 1000000 2 2 "-T n" "thread"

# No program listens; and a peer that is killed.
GPUWIRE_NIC=$two timeout "$patience" "$peer" client "$net.2" "$port" 16 1 1 >"$work/refused.out" 2>&1 && fail 'a connection to a closed port succeeds'
grep -q 'Connection refused' "$work/refused.out" || fail 'a connection to a closed port is not refused'
GPUWIRE_NIC=$one "${gpuwire[@]}" run -- rstream -T b -S 16 -I 100000000 -C 1 -p "$port" >"$work/killed.out" 2>&1 &
server=$!
pids+=("$server")
wait_service "$net.1" "$port" "$server" || fail 'the server to be killed does not listen'
GPUWIRE_NIC=$two timeout "$patience" "$peer" client "$net.1" "$port" 16 100000000 1 >"$work/bereft.out" 2>&1 &
client=$!
sleep 1
kill -KILL "$server"
wait "$client" && fail 'a client whose peer was killed ends well'
grep -qE 'Connection reset|Software caused' "$work/bereft.out" || fail 'a client whose peer was killed does not say so'
echo 'refused, killed: ok'
