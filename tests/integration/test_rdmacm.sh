#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Unmodified programs of librdmacm find each other through rdma_cm. With an argument "lossy" where packets get lost, come
# twice and overtake each other. udaddy's datagrams are never sent again, and it waits for each: of it, none gets lost.
. "${0%/*}/lib.sh"
need rping ucmatose udaddy rstream riostream rcopy rdma_client rdma_xclient
kind=${1:-plain}
one=addr=$net.1
two=addr=$net.2
[ "$kind" = lossy ] && one=$one,$unkind,seed=3 two=$two,$unkind,seed=4

# ended NAME RC OUTPUT: did it end well? rping closes its event channel while its other thread may be about to wait there;
# where that thread is slow it finds the channel closed and ends the program, all of whose work is done, with 255.
ended() {
    [ "$2" = 0 ] && return
    [ "$2" = 255 ] && grep -q 'rdma_get_cm_event: Bad file descriptor' "$3" && return
    fail "$1 ended with $2"
}

# between NAME SERVER_NIC CLIENT_NIC "SERVER" "CLIENT": both must end well. The server is at $net.1 unless $at says where.
between() {
    local name=$1 server begin=$SECONDS
    GPUWIRE_NIC=$2 timeout -k 5 "$patience" "${gpuwire[@]}" run -- $4 >"$work/$name.server.out" 2>&1 &
    server=$!
    pids+=("$server")
    wait_service "${at:-$net.1}" "${served:-$port}" "$server" "${space:-106}" || fail "$name: the server does not listen"
    GPUWIRE_NIC=$3 timeout -k 5 "$patience" "${gpuwire[@]}" run -- $5 >"$work/$name.client.out" 2>&1
    ended "$name: the client" $? "$work/$name.client.out"
    wait "$server"
    ended "$name: the server" $? "$work/$name.server.out"
    echo "$name: ok, $((SECONDS - begin)) s"
}
# A port of rdma_cm's own spaces: TCP's do not matter.
port=$((20000 + RANDOM % 10000))

between rping "$one" "$two" "rping -s -C 50 -V -p $port" "rping -c -a $net.1 -C 50 -V -p $port"
between rping_one_address "$one" "$one" "rping -s -C 20 -v -p $port" "rping -c -a $net.1 -C 20 -v -p $port"
grep -q 'ping data: rdma-ping-19' "$work/rping_one_address.client.out" || fail 'rping: the last message is missing'
between ucmatose "$one" "$two" "ucmatose -c 3 -p $port" "ucmatose -c 3 -s $net.1 -p $port"
for mode in b n r; do
    between "rstream_$mode" "$one" "$two" "rstream -T $mode -S 4096 -I 5 -C 10 -p $port" \
        "rstream -T $mode -S 4096 -I 5 -C 10 -s $net.1 -p $port"
done
between riostream "$one" "$two" "riostream -S 1024 -I 3 -C 5 -p $port" "riostream -S 1024 -I 3 -C 5 -s $net.1 -p $port"
served=7174 space=111 between udaddy "${one/loss=2%,/}" "${two/loss=2%,/}" "udaddy" "udaddy -s $net.1"

# An ordinary sockets program over librspreload. (Many do not work over it, on any adapter: it knows accept but not
# accept4, and its select confuses descriptors.)
preload=$(ldconfig -p | sed -n 's,.*=> \(.*\)/librdmacm.so.1$,\1/rsocket/librspreload.so,p' | head -1)
if command -v NPtcp >/dev/null && [ -e "$preload" ]; then
    soft=$("${gpuwire[@]}" run -- sh -c 'echo "$LD_PRELOAD"')
    served=5002 between NPtcp "$one" "$two" "env LD_PRELOAD=$soft:$preload NPtcp -u 9000 -n 3 -o $work/np.s" \
        "env LD_PRELOAD=$soft:$preload NPtcp -h $net.1 -u 9000 -n 3 -o $work/np.c"
    grep -q '8195 bytes' "$work/NPtcp.client.out" || fail 'NPtcp did not measure'
fi

if [ "$kind" = lossy ]; then
    # The client's words get lost, its last ones too: the server learns of its end all the same.
    for i in 1 2 3; do
        between "farewell_$i" "addr=$net.1" "addr=$net.2,tx.loss=40%" "rping -s -C 3 -p $port" "rping -c -a $net.1 -C 3 -p $port"
    done
    nothing_left
    exit 0
fi

# A file's copy over rsockets, and the examples of librdmacm's own calls: with a shared receive queue, too.
head -c 3000001 /dev/urandom >"$work/source"
GPUWIRE_NIC=$one timeout -k 5 "$patience" "${gpuwire[@]}" run -- rcopy >"$work/rcopy.server.out" 2>&1 &
server=$!
pids+=("$server")
wait_service "$net.1" 7427 "$server" || fail 'rcopy: the server does not listen'
GPUWIRE_NIC=$two timeout -k 5 "$patience" "${gpuwire[@]}" run -- rcopy "$work/source" "$net.1:$work/copy" >"$work/rcopy.client.out" 2>&1 ||
    fail "rcopy: the client ended with $?"
eventually cmp -s "$work/source" "$work/copy" || fail 'rcopy: the copy is another'
kill -TERM "$server"
between rdma_client "$one" "$two" "rdma_server -p $port" "rdma_client -s $net.1 -p $port"
between rdma_xclient "$one" "$two" "rdma_xserver -c r -p $port" "rdma_xclient -c r -s $net.1 -p $port"

# No program listens.
GPUWIRE_NIC=$two timeout "$patience" "${gpuwire[@]}" run -- rping -c -a "$net.2" -C 1 -p "$port" >"$work/refused.out" 2>&1 &&
    fail 'a connection to a closed port succeeds'
grep -q 'REJECTED, error 8' "$work/refused.out" || fail 'a connection to a closed port is not rejected as such'
# Not even a process is there.
GPUWIRE_NIC=$two timeout "$patience" "${gpuwire[@]}" run -- rping -c -a "$net.99" -C 1 -p "$port" >"$work/void.out" 2>&1 &&
    fail 'a connection into the void succeeds'
grep -q 'REJECTED, error 8' "$work/void.out" || fail 'a connection into the void is not rejected at once'

# A server that serves several clients, one after the other and beside each other (it is told of them one by one, and
# mixes them up when two come at once); a second one on its port; one client killed.
GPUWIRE_NIC=$one "${gpuwire[@]}" run -- rping -s -P -p "$port" >"$work/persistent.out" 2>&1 &
server=$!
pids+=("$server")
wait_service "$net.1" "$port" "$server" || fail 'the persistent server does not listen'
client() {
    GPUWIRE_NIC=$1 timeout "$patience" "${gpuwire[@]}" run -- rping -c -a "$net.1" -C 10 -V -p "$port" >"$work/$2.out" 2>&1
    ended "$2" $? "$work/$2.out"
}
client "$two" first
GPUWIRE_NIC=$one timeout "$patience" "${gpuwire[@]}" run -- rping -s -C 1 -p "$port" >"$work/second.out" 2>&1 &&
    fail 'two servers have one port'
grep -q 'Address already in use' "$work/second.out" || fail 'the second server does not say why'
GPUWIRE_NIC=$two "${gpuwire[@]}" run -- rping -c -a "$net.1" -C 100000000 -v -p "$port" >"$work/victim.out" 2>&1 &
victim=$!
pids+=("$victim")
while_lives "$victim" test -s "$work/victim.out" || fail 'the victim says nothing'
client "$one" same_address
client "$two" beside_the_victim
client "addr=$net.3" third_address
kill -0 "$victim" 2>/dev/null || fail 'the victim ended by itself'
kill -KILL $(cat "/proc/$victim/task/$victim/children")
wait "$victim"
client "$two" after_the_kill
kill -KILL $(cat "/proc/$server/task/$server/children")
wait "$server"
# The killed server's port is free, and has no owner.
GPUWIRE_NIC=$one timeout "$patience" "${gpuwire[@]}" run -- rping -c -a "$net.1" -C 1 -p "$port" >"$work/gone.out" 2>&1 &&
    fail 'a killed server still answers'
between reborn "$one" "$one" "rping -s -C 2 -p $port" "rping -c -a $net.1 -C 2 -p $port"

# A process with two NICs listens at all addresses, or at one; it calls from the address it is told to.
both="$one;addr=$net.5"
for last in 1 5; do
    between "both_at_$last" "$both" "$two" "rping -s -C 5 -p $port" "rping -c -a $net.$last -C 5 -p $port"
done
at=$net.5 between only_second "$both" "$two" "rping -s -a $net.5 -C 5 -p $port" "rping -c -a $net.5 -C 5 -p $port"
between twice_there "$one;$one" "$two" "rping -s -C 5 -p $port" "rping -c -a $net.1 -C 5 -p $port"
between from_second "$one" "$two;addr=$net.6" "rping -s -C 5 -p $port" "rping -c -I $net.6 -a $net.1 -C 5 -p $port"
nothing_left
echo ok
