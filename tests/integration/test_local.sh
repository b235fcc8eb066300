#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Peers on one host: by copies between processes, through shared memory, over UDP; where copies are refused; when a
# peer is killed. test_local.sh DENY_COPIES HAMMER
. "${0%/*}/lib.sh"
deny=$1 hammer=$2
need ib_write_bw ib_read_bw ib_send_bw ib_atomic_lat ibv_rc_pingpong jq
fast_perftest
a=addr=$net.1

# What is to be expected is told.
expect_info() { # SETTINGS WORDS PREFIX...
    local settings=$1 words=$2
    shift 2
    GPUWIRE_NIC=$a$settings "$@" "${gpuwire[@]}" info --device softnic >"$work/info.out" 2>&1
    grep -q "same host.*$words" "$work/info.out" || fail "gpuwire info with '$settings' does not say '$words'"
}
expect_info ,local=ring "local=ring"
expect_info ,local=off "local=off"
expect_info ,loss=1% "captured or disturbed"
"$deny" true 2>/dev/null
[ $? = 77 ] || expect_info "" "not by copies: the system" "$deny"

# Every way, and two that differ.
for ways in "cma cma" "ring ring" "off off" "cma off" "ring cma"; do
    set -- $ways
    nic1=$a,local=$1 nic2=$a,local=$2 name=$1-$2
    pair "$name-pingpong" "$nic1" "$nic2" ibv_rc_pingpong -g 0 -c -n 100
    pair "$name-write" "$nic1" "$nic2" ib_write_bw -F -x 0 -s 65536 -n 100 -q 2
    pair "$name-read" "$nic1" "$nic2" ib_read_bw -F -x 0 -s 3000000 -n 10
    pair "$name-send" "$nic1" "$nic2" ib_send_bw -F -x 0 -s 20000 -n 100 -b
    pair "$name-long-send" "$nic1" "$nic2" ib_send_bw -F -x 0 -s 1000000 -n 30
    pair "$name-atomic" "$nic1" "$nic2" ib_atomic_lat -F -x 0 -n 100
    grep -qi 'invalid data' "$work/$name-pingpong".*.out && fail "$name: wrong bytes"
done
pair events "$a" "$a" ib_send_bw -e -F -x 0 -n 200 -q 3
pair two-addresses "$a" "addr=$net.2" ib_write_bw -F -x 0 -s 65536 -n 100

# watched NAME SERVER_PREFIX CLIENT_PREFIX NIC [PROGRAM CALL]: counts the client's copies.
iterations=300
watched() {
    local name=$1 before_server=$2 before_client=$3 nic=$4 program=${5:-ib_write_bw} call=${6:-process_vm_writev} port server rc
    port=$(free_port)
    GPUWIRE_NIC=$nic timeout "$patience" "${gpuwire[@]}" run -- $before_server $program -F -x 0 -s 65536 -n $iterations -p "$port" \
        >"$work/$name.server.out" 2>&1 &
    server=$!
    pids+=("$server")
    wait_listen "$port" "$server" || fail "$name: the server does not listen"
    GPUWIRE_NIC=$nic timeout "$patience" strace -f -qq -o "$work/$name.trace" -e trace=$call \
        "${gpuwire[@]}" run -- $before_client $program -F -x 0 -s 65536 -n $iterations -p "$port" 127.0.0.1 \
        >"$work/$name.client.out" 2>&1
    rc=$?
    [ $rc = 0 ] || fail "$name: the client ended with $rc"
    wait "$server" || fail "$name: the server ended with $?"
    # One call may copy several writes.
    copies=$(awk -F' = ' '$NF > 0 { n += $NF } END { print int(n / 65536) }' "$work/$name.trace")
}
# The same where copies are needed. On a busy machine hundreds of messages may have gone before the two have met: then
# ten times as many. The cases without copies that follow send as many as the last with copies needed.
copied() {
    for iterations in 300 3000 30000; do
        watched "$@"
        [ "$copies" -lt 10 ] || return 0
    done
    fail "$1: of $iterations messages $copies were copied"
}
if command -v strace >/dev/null && strace -qq -o /dev/null true 2>/dev/null; then
    copied copies "" "" "$a"
    watched no-copies "" "" "$a,local=ring"
    [ "$copies" = 0 ] || fail "local=ring: $copies copies all the same"
    # Both send, so the client fetches what the server sends.
    copied fetched "" "" "$a" "ib_send_bw -b" process_vm_readv
    watched not-fetched "" "" "$a,local=ring" "ib_send_bw -b" process_vm_readv
    [ "$copies" = 0 ] || fail "local=ring: $copies messages fetched all the same"
    "$deny" true 2>/dev/null
    if [ $? != 77 ]; then
        # Who is refused itself can still be copied to.
        copied refused-there "$deny" "" "$a"
        watched refused-here "" "$deny" "$a"
        [ "$copies" = 0 ] || fail "a filter let $copies copies through"
        watched refused-fetch "" "$deny" "$a" "ib_send_bw -b" process_vm_readv
        [ "$copies" = 0 ] || fail "a filter let $copies messages be fetched"
    fi
else
    echo "strace is not there or may not trace: that copies are copies was not looked at"
fi

# Another user's process is no peer: UDP.
if [ "$(id -u)" = 0 ] && command -v setpriv >/dev/null; then
    mkdir -p "$work/nobody" && chmod 711 "$work" && chown 65534 "$work/nobody"
    port=$(free_port)
    GPUWIRE_NIC=$a timeout "$patience" "${gpuwire[@]}" run -- ib_write_bw -F -x 0 -n 100 -p "$port" >"$work/users.server.out" 2>&1 &
    server=$!
    pids+=("$server")
    wait_listen "$port" "$server" || fail "users: the server does not listen"
    if XDG_RUNTIME_DIR=$work/nobody setpriv --reuid 65534 --clear-groups test -x "$GPUWIRE"; then
        XDG_RUNTIME_DIR=$work/nobody GPUWIRE_NIC=$a timeout "$patience" setpriv --reuid 65534 --clear-groups "${gpuwire[@]}" run -- \
            ib_write_bw -F -x 0 -n 100 -p "$port" 127.0.0.1 >"$work/users.client.out" 2>&1 || fail "users: the client ended with $?"
        wait "$server" || fail "users: the server ended with $?"
    else
        kill "$server"
    fi
fi

# A peer that is killed in the middle: the other ends with an error, and soon.
program_of() { pgrep -P "$(pgrep -P "$1")"; } # timeout, gpuwire run, the program
in_the_midst() { has_sent "$(program_of "$client")" 100000000; }
for way in cma ring; do
    port=$(free_port)
    GPUWIRE_NIC=$a,local=$way timeout "$patience" "${gpuwire[@]}" run -- ib_write_bw -F -x 0 -s 1048576 -D 30 -p "$port" \
        >"$work/killed-$way.server.out" 2>&1 &
    server=$!
    pids+=("$server")
    wait_listen "$port" "$server" || fail "killed: the server does not listen"
    GPUWIRE_NIC=$a,local=$way timeout "$patience" "${gpuwire[@]}" run -- ib_write_bw -F -x 0 -s 1048576 -D 30 -p "$port" 127.0.0.1 \
        >"$work/killed-$way.client.out" 2>&1 &
    client=$!
    pids+=("$client")
    while_lives "$client" in_the_midst || fail "killed-$way: the two do not get to work"
    kill -KILL "$(program_of "$server")"
    eventually gone "$client" || fail "killed-$way: the client does not notice"
    wait "$client"
    rc=$?
    [ $rc != 0 ] && [ $rc -lt 124 ] || fail "killed-$way: the client ended with $rc"
done

# Regions that go while a peer writes to them.
for way in cma ring; do
    GPUWIRE_NIC=$a,local=$way timeout "$patience" "${gpuwire[@]}" run -- "$hammer" 60 >"$work/hammer-$way.out" 2>&1 ||
        fail "hammer-$way: $?"
done
echo ok
