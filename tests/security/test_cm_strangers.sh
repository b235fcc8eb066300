#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# rdma_cm beside another user of the host. The stranger knows all numbers of a connection and sends DREQs from a slot of
# its own; writes letters to the server's claim; and holds UDP port 4791 of the server's address to see the requests.
. "$(dirname "$0")/lib.sh"
in_own_net "$0" "$@"
PATH=/usr/bin:/bin:$PATH # a stranger cannot run what lies in root's home
need python3 rping
readable_tool
attack=$(readable "$(dirname "$0")/cm_attack.py")
port=$((20000 + RANDOM % 10000))

# Other users' programs are children of children, and some of them never end by themselves.
descendants() {
    local child
    for child in $(pgrep -P "$1"); do
        descendants "$child"
        echo "$child"
    done
}
end_all() {
    local p
    for p in "${pids[@]}"; do
        for p in $(descendants "$p"); do kill -KILL "$p" 2>/dev/null; done
    done
    clean_up
}
trap end_all EXIT

# server NAME ADDRESS PORT: of the neighbour's; answers clients one after the other. Sets `server`.
server() {
    GPUWIRE_NIC=addr=$2 as_neighbour "${gpuwire[@]}" run -- rping -s -P -p "$3" >"$work/$1.out" 2>&1 &
    server=$!
    pids+=("$server")
    wait_service "$2" "$3" "$server" || fail "$1 does not listen"
}

# says FILE WORDS
says() { eventually grep -qs -e "$2" "$1" || fail "no line says '$2'"; }

# A connection of one user, and a stranger who wants to end it.
server server "$net.1" "$port"
python3 "$attack" listen "$work/seen" >"$work/listen.out" 2>&1 &
listener=$!
pids+=("$listener")
wait_for "$work/listen.out" listening "$listener" || fail "no process listens to the loopback interface"
GPUWIRE_NIC=addr=$net.2 as_neighbour "${gpuwire[@]}" run -- rping -c -a "$net.1" -C 100000000 -p "$port" >"$work/client.out" 2>&1 &
client=$!
pids+=("$client")
while_lives "$client" test -s "$work/seen" || fail "the client does not connect"
chmod 644 "$work/seen"
as_stranger python3 "$attack" dreq "$work/seen" || fail "the stranger cannot send"
says "$work/server.out" 'rdma_cm refused a DREQ'
sleep 0.5
kill -0 "$client" 2>/dev/null || fail "a stranger ended the connection by a packet"

# Letters, to a server whose one line about such has not been said yet.
server letters "$net.1" $((port + 1))
as_stranger python3 "$attack" letter "$net.1" $((port + 1)) || fail "the stranger cannot write"
says "$work/letters.out" "rdma_cm refused a REQ.* of user $STRANGER passed it on, for another host"
as_stranger python3 "$attack" dreq_letter "$work/seen" "$port" || fail "the stranger cannot write"
sleep 0.5
kill -0 "$client" 2>/dev/null || fail "a stranger ended the connection by a letter"

# What users of one host may do: the stranger's own client connects to the neighbour's server, at its address and another.
for own in 1 3; do
    GPUWIRE_NIC=addr=$net.$own as_stranger timeout "$patience" "${gpuwire[@]}" run -- \
        rping -c -a "$net.1" -C 3 -p $((port + 1)) >"$work/visitor.out" 2>&1
    rc=$?
    [ $rc = 0 ] || grep -q 'rdma_get_cm_event: Bad file descriptor' "$work/visitor.out" ||
        fail "another user's client ended with $rc"
done

# A stranger who was first at port 4791 of an address gets what comes there. It is no request of this host.
as_stranger python3 "$attack" hold "$net.4" 600 >"$work/hold.out" 2>&1 &
holder=$!
pids+=("$holder")
wait_for "$work/hold.out" holding "$holder" || fail "the stranger cannot take port 4791"
server behind "$net.4" "$port"
GPUWIRE_NIC=addr=$net.5 as_neighbour timeout "$patience" "${gpuwire[@]}" run -- \
    rping -c -a "$net.4" -C 3 -p "$port" >"$work/past.out" 2>&1
rc=$?
[ $rc = 0 ] || grep -q 'rdma_get_cm_event: Bad file descriptor' "$work/past.out" || fail "past a stranger the client ended with $rc"
! grep -q saw "$work/hold.out" || fail "a stranger saw a request of this host: $(cat "$work/hold.out")"
kill -0 "$client" 2>/dev/null || fail "the connection ended"
echo "the stranger ended nothing and saw nothing"
