#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A peer killed in the middle disturbs no other process and leaves nothing. One that stands still disturbs none, either.
. "${0%/*}/lib.sh"
need ibv_rc_pingpong jq
export GPUWIRE_NIC=addr=$net.1
port=$(free_port)
"${gpuwire[@]}" run -- ibv_rc_pingpong -g 0 -p "$port" -n 100000000 >"$work/server.out" 2>&1 &
server=$!
pids+=("$server")
wait_listen "$port" "$server" || fail 'the server does not listen'
"${gpuwire[@]}" run -- ibv_rc_pingpong -g 0 -p "$port" -n 100000000 127.0.0.1 >"$work/client.out" 2>&1 &
client=$!
pids+=("$client")
in_the_midst() {
    program=$(cat "/proc/$client/task/$client/children")
    has_sent "${program% }" 100000
}
while_lives "$client" in_the_midst || fail 'the client does not get to work'
kill -KILL ${program}
wait "$client"
[ $? = 137 ] || fail 'the client does not end as its program did'

# Others on the same address go on.
pair others "$GPUWIRE_NIC" "$GPUWIRE_NIC" ibv_rc_pingpong -g 0 -c -n 300

kill -INT "$server"
wait "$server"
rc=$?
# The program either had its error completion already (1) or was ended by the signal.
[ $rc = 130 ] || [ $rc = 1 ] || fail "the server ended with $rc"

# A process that stands still, here and at the other end's address: packets to those beside it do not wait for it.
stopped() { grep -q '^State:.*stopped' "/proc/$1/status"; }
still=() runs=()
for i in 1 2 3; do
    port=$(free_port)
    GPUWIRE_NIC=addr=$net.$i,local=off "${gpuwire[@]}" run -- ibv_rc_pingpong -g 0 -p "$port" >"$work/still.$i.out" 2>&1 &
    server=$!
    pids+=("$server")
    wait_listen "$port" "$server" || fail 'the process that is to stand still does not begin'
    program=$(cat "/proc/$server/task/$server/children")
    program=${program% }
    kill -STOP "$program"
    still+=("$program")
    runs+=("$server")
    eventually stopped "$program" || fail 'it does not stand still'
done
for i in 2 3 2 3; do
    pair "beside.$i" "addr=$net.1,local=off" "addr=$net.$i,local=off" ibv_rc_pingpong -g 0 -c -n 300
done
kill -TERM "${still[@]}"
kill -CONT "${still[@]}"
wait "${runs[@]}"
nothing_left
echo ok
