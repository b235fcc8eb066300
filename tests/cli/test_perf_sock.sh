#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# gpuwire perf sock: each test over TCP and RDMA, every byte looked at; two processes; strangers; mistakes.
. "${0%/*}/../integration/lib.sh"
export GPUWIRE_DEVICE=softnic GPUWIRE_NIC=addr=$net.1
perf=(timeout -k 5 "$patience" "${gpuwire[@]}" perf sock)

# field NAME FILE: that column of the only row of CSV.
field() { awk -F, -v name="$1" 'NR == 1 { for (i = 1; i <= NF; i++) if ($i == name) at = i } NR == 2 { print $at }' "$2"; }

for over in --tcp --rdma; do
    for what in "lat -n 50 -s 5000" "lat -n 20 -q 3 -s 1m" "bw -n 100 -s 70000" "bw -n 50 -q 4 --threads 3 -B 4k -s 10001"; do
        # shellcheck disable=SC2086  # separate words
        "${perf[@]}" $what $over --verify --loopback --exec cpu --csv >"$work/row.out" 2>"$work/err.out" || fail "$what $over ended with $?"
        [ "$(field wrong_bytes "$work/row.out")" = 0 ] || fail "$what $over: wrong bytes"
        size=${what##* }
        [ "$size" = 1m ] && size=1048576
        [ "$(field checked_bytes "$work/row.out")" = $((size * $(field operations "$work/row.out"))) ] || fail "$what $over: not all was looked at"
    done
    "${perf[@]}" connects -n 20 -q 2 $over --loopback --exec cpu --csv >"$work/row.out" || fail "connects $over"
    [ "$(field operations "$work/row.out")" = 40 ] || fail "connects $over: not 40"
    echo "${over#--}: ok"
done
"${perf[@]}" bw -n 20 -a -s 4k --loopback --exec cpu --json >"$work/json.out" || fail 'JSON'
python3 -c 'import json, sys; d = json.load(open(sys.argv[1])); assert [r["bytes"] for r in d["rows"]] == [2 << i for i in range(12)] and d["over"] == "tcp"' "$work/json.out" ||
    fail 'what JSON says'

# Two processes; and those who say something else to the server, or nothing, or come from nowhere.
port=$(free_port)
"${perf[@]}" bw --exec cpu -q 3 -p "$port" >"$work/server.out" 2>&1 &
server=$!
pids+=("$server")
wait_listen "$port" "$server" || fail 'the server does not listen'
head -c 100000 /dev/urandom | timeout "$patience" bash -c "cat >/dev/tcp/127.0.0.1/$port" 2>/dev/null
python3 -c '
import socket, struct, sys
def say(b, *more):
    s = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
    s.sendall(b)
    s.shutdown(socket.SHUT_WR)
    s.recv(1)
say(b"")
say(b"GET / HTTP/1.0\r\n\r\n")
say(struct.pack("<IIQQII", 0x67777073, 2, 1 << 62, 1 << 62, 1, 0))
say(struct.pack("<IIQQII", 0x67777073, 1, (1 << 20) + 1, 1, 1, 0))
say(struct.pack("<IIQQII", 0x67777073, 99, 1, 1, 1, 0))
' "$port" || fail 'strangers are not hung up on'
"${perf[@]}" bw --exec cpu -q 3 -n 50 -s 9999 --verify -p "$port" 127.0.0.1 --csv >"$work/client.out" || fail 'the client fails'
wait "$server" || fail "the server ended with $?"
[ "$(field checked_bytes "$work/client.out")" = $((3 * 50 * 9999)) ] || fail 'two processes: not all was looked at'
echo 'two processes: ok'

# fails NAME CODE TEXT ARGUMENTS…: one line with that text, and that exit code.
fails() {
    local name=$1 code=$2 text=$3 rc
    shift 3
    "${perf[@]}" "$@" >"$work/$name.stdout" 2>"$work/$name.out"
    rc=$?
    [ $rc = "$code" ] || fail "$name: exit code $rc, not $code"
    grep -q -- "$text" "$work/$name.out" || fail "$name: does not say '$text'"
    [ "$(wc -l <"$work/$name.out")" = 1 ] || fail "$name: not one line"
}
port=$(free_port)
fails refused 1 'Connection refused' bw --exec cpu -p "$port" 127.0.0.1
fails refused_rdma 1 'Connection refused' bw --exec cpu --rdma -p "$port" "$net.1"
fails nothing 2 'lat, bw or connects'
fails no_test 2 'one of lat, bw, connects' post
fails both 2 'has no HOST' bw --loopback 127.0.0.1
fails too_large 2 '1m at most' lat -s 2m --loopback
fails connects 2 'go with lat and bw' connects --verify --loopback
fails bad_option 2 'no such option' bw --no-such
fails extra 2 'extra: not understood' bw 127.0.0.1 extra

# Ctrl-C, on either side.
"${gpuwire[@]}" perf sock bw --exec cpu -p "$port" >"$work/waits.out" 2>&1 &
server=$!
pids+=("$server")
wait_listen "$port" "$server" || fail 'the server to be interrupted does not listen'
"${gpuwire[@]}" perf sock bw --exec cpu -n 1000000000 -p "$port" 127.0.0.1 --csv >"$work/cut.out" 2>"$work/cut.err.out" &
client=$!
pids+=("$client")
sleep 1
kill -INT "$client"
wait "$client"
[ $? = 130 ] || fail 'Ctrl-C at the client'
[ "$(field cut_short "$work/cut.out")" = 1 ] || fail 'a row that is cut short does not say so'
wait "$server" || fail "the server ended with $? after Ctrl-C at the client"
"${gpuwire[@]}" perf sock bw --exec cpu -p "$port" >"$work/waits.out" 2>&1 &
server=$!
pids+=("$server")
wait_listen "$port" "$server" || fail 'the server to be interrupted does not listen'
kill -INT "$server"
wait "$server"
[ $? = 130 ] || fail 'Ctrl-C at the server'
# … and while it connects to one that does not answer: it stands still.
"${gpuwire[@]}" perf sock bw --rdma --exec cpu -p "$port" >"$work/still.out" 2>&1 &
server=$!
pids+=("$server")
wait_service "$net.1" "$port" "$server" || fail 'the server to be stopped does not listen'
kill -STOP "$server"
GPUWIRE_NIC=addr=$net.2 "${gpuwire[@]}" perf sock bw --rdma --exec cpu -p "$port" "$net.1" --csv >"$work/nobody.out" 2>&1 &
client=$!
pids+=("$client")
sleep 1
kill -INT "$client"
wait "$client"
[ $? = 130 ] || fail 'Ctrl-C while connecting'
kill -CONT "$server"
kill -INT "$server"
wait "$server"
echo 'mistakes and Ctrl-C: ok'
