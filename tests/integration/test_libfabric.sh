#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# libfabric's fi_pingpong, unmodified, over its verbs provider: connections and datagrams, and reliable datagrams made of either.
. "$(dirname "$0")/lib.sh"
need fi_pingpong ip
# It leaves out loopback interfaces, and takes an address of another one.
address=$(ip -4 -o addr show scope global 2>/dev/null | sed -n 's/.*inet \([0-9.]*\).*/\1/p' | head -n 1)
[ -n "$address" ] || { echo 'skipped: no interface but the loopback one has an address'; exit 77; }
export GPUWIRE_NIC=addr=$address

over() { # NAME PROVIDER KIND: every size that it knows; -c looks at the bytes
    local port server
    port=$(free_port)
    timeout -k 5 "$patience" "${gpuwire[@]}" run -- fi_pingpong -p "$2" -e "$3" -c -I 5 -S all -B "$port" >"$work/$1.server.out" 2>&1 &
    server=$!
    pids+=("$server")
    wait_listen "$port" "$server" || fail "$1: the server does not listen"
    timeout -k 5 "$patience" "${gpuwire[@]}" run -- fi_pingpong -p "$2" -e "$3" -c -I 5 -S all -P "$port" "$address" >"$work/$1.client.out" 2>&1 ||
        fail "$1: the client ended with $?"
    wait "$server" || fail "$1: the server ended with $?"
    grep -q '^1k ' "$work/$1.client.out" || fail "$1: no result"
}
over connections verbs msg
over datagrams verbs dgram
over rxm 'verbs;ofi_rxm' rdm
over rxd 'verbs;ofi_rxd' rdm
nothing_left
echo ok
