#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A connection ends with its peer: a server is killed, another user takes its UDP port at once, and gets nothing but what
# was under way. Over UDP at one address and between two, and through shared memory, whose connection ends by itself.
. "${0%/*}/lib.sh"
in_own_net "$0" "$@"
need ib_write_bw jq setpriv
export PATH=/usr/bin:/bin:$PATH # what the stranger runs must not lie in root's home
need python3
attacker=$(readable "${0%/*}/take_slot.py")

# slot_port ADDRESS: the UDP port of the slot of the one process there.
slot_port() {
    local hex
    hex=$(printf '%02X%02X%02X%02X' $(awk -F. '{print $4, $3, $2, $1}' <<<"$1"))
    sed -n "s/.* $hex:\(C0..\) .*/\1/p" /proc/net/udp | while read -r p; do echo $((16#$p)); done | head -1
}
# program_of PID: what the tool runs under that `timeout`.
program_of() {
    local tool
    tool=$(cat "/proc/$1/task/$1/children" 2>/dev/null)
    cat "/proc/${tool% }/task/${tool% }/children" 2>/dev/null
}
connected() { # CLIENT
    local program
    program=$(program_of "$1")
    has_sent "${program% }" 1000000
}

take_over() { # NAME SERVER_NIC SERVER_ADDRESS CLIENT_NIC
    local name=$1 port slot server client thief program
    port=$(free_port)
    GPUWIRE_NIC=$2 timeout -k 1 60 "${gpuwire[@]}" run -- ib_write_bw -F -x 0 -D 40 -s 4096 -p "$port" >"$work/$name.server.out" 2>&1 &
    server=$!
    pids+=("$server")
    wait_listen "$port" "$server" || fail "$name: the server does not listen"
    slot=$(slot_port "$3")
    [ -n "$slot" ] || fail "$name: the server has no slot"
    GPUWIRE_NIC=$4 timeout -k 1 60 "${gpuwire[@]}" run -- ib_write_bw -F -x 0 -D 40 -s 4096 -p "$port" 127.0.0.1 >"$work/$name.client.out" 2>&1 &
    client=$!
    pids+=("$client")
    while_lives "$client" connected "$client" || fail "$name: the client does not get to work"
    as_stranger python3 "$attacker" "$3" "$slot" 2 >"$work/$name.thief.out" 2>&1 &
    thief=$!
    pids+=("$thief")
    wait_for "$work/$name.thief.out" ready "$thief" || fail "$name: the attacker does not begin"
    program=$(program_of "$server")
    kill -KILL ${program}
    wait "$thief" || fail "$name: the attacker did not get the port"
    wait "$client" && fail "$name: the client reports success"
    wait "$server"
    cat "$work/$name.thief.out"
    grep -q ' 0 of them late' "$work/$name.thief.out" || fail "$name: the attacker went on being sent packets"
}

take_over same "addr=$net.1,local=off" "$net.1" "addr=$net.1,local=off"
grep -q "a process of user $STRANGER has its slot" "$work/same.client.out" || fail "no line says who has the port now: $(grep gpuwire: "$work/same.client.out")"
take_over two "addr=$net.2,local=off" "$net.2" "addr=$net.1,local=off"
grep -q "a process of user $STRANGER has its slot" "$work/two.client.out" || fail "no line says who has the port now: $(grep gpuwire: "$work/two.client.out")"
take_over memory "addr=$net.1" "$net.1" "addr=$net.1"
nothing_left
echo ok
