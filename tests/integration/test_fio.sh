#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# fio's rdma engine, unmodified: one fio connects to another through rdma_cm, and WRITEs to it or READs from it. No SENDs: fio
# asks for no repetition of one that comes before its receive.
. "${0%/*}/lib.sh"
need fio jq
fio --enghelp 2>/dev/null | grep -qw rdma || { echo 'skipped: this fio has no rdma engine'; exit 77; }
port=$((20000 + RANDOM % 10000)) # of rdma_cm's own space: TCP's do not matter
common="--eta=never --ioengine=rdma --iodepth=8 --output-format=json"

# between NAME BYTES "CLIENT'S OPTIONS": both must end well, and the client must have moved all bytes.
between() {
    local name=$1 bytes=$2 server moved
    port=$((port + 1))
    GPUWIRE_NIC=addr=$net.1 timeout -k 5 "$patience" "${gpuwire[@]}" run -- fio --name=server $common \
        --port="$port" --rw=read --bs=1m --size="$bytes" --output="$work/$name.server.json" >"$work/$name.server.out" 2>&1 &
    server=$!
    pids+=("$server")
    wait_service "$net.1" "$port" "$server" || fail "$name: the server does not listen"
    # shellcheck disable=SC2086  # options are words
    GPUWIRE_NIC=addr=$net.2 timeout -k 5 "$patience" "${gpuwire[@]}" run -- fio --name=client $common --hostname="$net.1" \
        --port="$port" --size="$bytes" $3 --output="$work/$name.client.json" >"$work/$name.client.out" 2>&1 ||
        fail "$name: the client ended with $?"
    wait "$server" || fail "$name: the server ended with $?"
    moved=$(jq '.jobs[0] | .read.io_bytes + .write.io_bytes' "$work/$name.client.json")
    [ "$moved" = "$bytes" ] || fail "$name: the client moved $moved bytes of $bytes"
    [ "$(jq '.jobs[0].error' "$work/$name.client.json")" = 0 ] || fail "$name: the client had an error"
}

between write 67108864 "--verb=write --rw=write --bs=1m"
between write_small 4194304 "--verb=write --rw=write --bs=512"
between read 67108864 "--verb=read --rw=write --bs=1m"
nothing_left
echo ok
