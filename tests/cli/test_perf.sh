#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# gpuwire perf: every operation byte by byte, two processes, the NIC's own counters, perftest on the same path, Ctrl-C, typos.
. "$(dirname "$0")/../integration/lib.sh"
need jq
export GPUWIRE_NIC=addr=$net.1 GPUWIRE_DEVICE=softnic
perf() { timeout -k 5 "$patience" "$GPUWIRE" perf "$@" --exec cpu; }

# column NAME FILE: that column of the first row of CSV.
column() {
    awk -F, -v name="$1" 'NR == 1 { for (i = 1; i <= NF; i++) if ($i == name) c = i } NR == 2 && c { print $c }' "$2"
}

# serve NAME ARGS…: a waiting side in the background, once it listens; its process is $server.
serve() {
    local name=$1
    shift
    timeout -k 5 "$patience" "$GPUWIRE" perf "$@" --exec cpu >"$work/$name.server.out" 2>&1 &
    server=$!
    pids+=("$server")
    wait_for "$work/$name.server.out" 'waiting for a client' "$server" || fail "$name: the server does not listen"
}

verify() { # NAME ARGS…: all bytes are looked at, and none is wrong
    local name=$1
    shift
    perf "$@" --loopback --verify --csv -u 18 >"$work/$name.out" 2>&1 || fail "$name: exit $?"
    [ "$(column wrong_bytes "$work/$name.out")" = 0 ] && [ "$(column checked_bytes "$work/$name.out")" -gt 1000 ] ||
        fail "$name: not all was looked at, or wrong"
    echo "$name: $(column operations "$work/$name.out") operations, $(column checked_bytes "$work/$name.out") bytes looked at"
}
for op in put put_imm get send fetch_add cmp_swap; do
    verify "$op" bw -o $op -s 3000 -n 300
    verify "$op, shared" msgrate -o $op -s 24 -n 400 -q 2 --blocks 2 --threads 4 -l 3 -Q 5 -t 64
done
verify "warps" msgrate -n 400 -q 2 --by warp -s 40
verify "a block" msgrate -n 400 -q 1 --threads 8 --by block -s 40
# A datagram may get lost, also because the other side has not begun: it is repeated.
verify "datagrams" lat -o datagram -s 900 -n 100
GPUWIRE_NIC=$GPUWIRE_NIC,local=off,loss=10%,seed=5 verify "datagrams, some lost" lat -o datagram -s 900 -n 40
verify "from size to size" bw -a -s 64k -n 40 -o send
perf post -n 2000 -q 3 -l 4 --verify --csv >"$work/post.out" 2>&1 || fail "post"
[ "$(column operations "$work/post.out")" = 6000 ] && [ "$(column wrong_bytes "$work/post.out")" = 0 ] || fail "post: not all"
for op in put put_imm send get fetch_add cmp_swap; do
    perf lat -o $op -s 64 -n 50 --loopback --json -u 18 >"$work/lat.out" 2>&1 || fail "lat $op"
    jq -e '.rows[0] | .operations == 50 and .min_us > 0 and .min_us <= .typical_us and .typical_us <= .max_us' \
        "$work/lat.out" >/dev/null || fail "lat $op: not its JSON"
done

# perftest's habits: payload inside the request, both directions (each counted, each as many as asked for), waits that sleep.
for op in put put_imm send; do
    verify "$op, inline" msgrate -o $op -I 64 -s 64 -n 400 -q 2 --blocks 4 -l 3
    perf lat -o $op -I 64 -a -s 256 -n 30 --loopback --csv -u 18 >"$work/lat_inline.out" 2>&1 || fail "lat $op, inline"
    [ "$(wc -l <"$work/lat_inline.out")" = 9 ] || fail "lat $op, inline: not every size"
done
for op in send put_imm; do
    perf lat -o $op -e -n 50 --loopback --csv -u 18 >"$work/events.out" 2>&1 || fail "lat $op, events: exit $?"
    [ "$(column operations "$work/events.out")" = 50 ] || fail "lat $op, events: not all"
done
for op in put get; do
    perf bw -b -o $op -n 300 -q 2 -s 4k --loopback --csv -u 18 >"$work/both.out" 2>&1 || fail "both ways: exit $?"
    [ "$(column operations "$work/both.out")" = 1200 ] || fail "both ways: not 300 of each of 2 queue pairs of both sides"
done
# As fingers type it that are used to perftest.
perf bw -F -R -z -N -i 1 -x 0 -d softnic -c RC --report_gbits -s 4096 -n 100 -q 2 -t 64 -Q 8 -l 4 -m 1024 -u 14 --loopback --csv >"$work/habits.out" 2>&1 ||
    fail "perftest's options: exit $?"
perf bw -b -D 1 --loopback --csv >"$work/both.out" 2>&1 || fail "both ways for a second: exit $?"

# Never faster than asked: 200 operations of two posters at 1000 a second, the first of which begin at once.
perf msgrate -q 2 -n 100 --rate 1000 --loopback --csv >"$work/rate.out" 2>&1 || fail "--rate: exit $?"
awk -v s="$(column seconds "$work/rate.out")" 'BEGIN { exit !(s >= 0.198) }' || fail "--rate: faster than asked"

# Two processes; what was counted is what the NIC has copied. The client's first row fills a pipe without a reader, so that its
# NIC is still there to be asked.
mkfifo "$work/fifo"
exec 7<>"$work/fifo"
head -c 65536 /dev/zero >&7
serve counted bw -p 18601
"$GPUWIRE" perf bw --exec cpu -n 300 -s 65536 -p 18601 --csv -u 18 "$net.1" >"$work/fifo" 2>"$work/counted.out" &
client=$!
pids+=("$client")
counters='.[0].counters // {} | "\(.direct_bytes) \(.tx_bytes) \(.retransmits)"'
counted() { # by copies and by packets, whichever the two processes had agreed on by then
    read -r direct packets again < <("$GPUWIRE" nic --json --pid $client 2>/dev/null | jq -r "$counters" 2>/dev/null)
    [ "${direct:-null}" != null ] && [ $((direct + packets)) -ge $((300 * 65536)) ]
}
while_lives "$client" counted || fail "the NIC counts $direct bytes by copies and $packets in packets"
extra=$((direct + packets - 300 * 65536))
# A machine that is busy may have let packets be repeated for want of an answer.
[ "$extra" -ge 0 ] && [ "$extra" -lt $((65536 + again * 5000)) ] || fail "the NIC counts $direct bytes by copies and $packets in packets"
echo "300 operations of 65536 bytes; the NIC counts that and $extra bytes of conversation"
timeout "$patience" head -c 65536 <&7 >/dev/null
wait "$client" || fail "the client ended with $?"
wait "$server" || fail "the server ended with $?"

# perftest, on the same path: within an order of magnitude, by the best of three.
if command -v ib_write_bw >/dev/null; then
    ours=0 theirs=0
    for i in 1 2 3; do
        PAIR_TRIES=2 pair "perftest$i" "addr=$net.1" "addr=$net.1" ib_write_bw -F -x 0 -s 65536 -n 1000 --report_gbits
        t=$(awk '$1 == 65536 { print $4 }' "$work/perftest$i.client.out")
        serve "ours$i" bw -p 18602
        perf bw -s 65536 -n 1000 -p 18602 --csv "$net.1" >"$work/ours$i.out" 2>&1 || fail "ours$i"
        wait "$server" || fail "ours$i: the server ended with $?"
        o=$(column gbit_s "$work/ours$i.out")
        ours=$(awk -v a="$ours" -v b="$o" 'BEGIN { print (a > b ? a : b) }')
        theirs=$(awk -v a="$theirs" -v b="$t" 'BEGIN { print (a > b ? a : b) }')
    done
    echo "64 KiB writes: gpuwire perf $ours Gbit/s, ib_write_bw $theirs Gbit/s"
    awk -v a="$ours" -v b="$theirs" 'BEGIN { exit !(a > 0 && b > 0 && a < 10 * b && b < 10 * a) }' || fail "more than an order apart"
fi

# Ctrl-C: what was measured so far, at both ends in order.
serve stopped bw -p 18603
timeout -k 5 "$patience" "$GPUWIRE" perf bw --exec cpu -D 50 -p 18603 --json "$net.1" >"$work/stopped.out" 2>&1 &
client=$!
pids+=("$client")
at_work() { has_sent "$(pgrep -P "$client" -x gpuwire)" 100000000; } # timeout, gpuwire
while_lives "$client" at_work || fail "Ctrl-C: the client does not get to work"
pkill -INT -P "$client" -x gpuwire
wait "$client"
[ $? = 130 ] || fail "Ctrl-C: exit code"
jq -e '.rows[0] | .cut_short and .operations > 0' "$work/stopped.out" >/dev/null || fail "Ctrl-C: no figures"
wait "$server" || fail "Ctrl-C: the server ended with $?"
serve killed bw -p 18604
kill -INT "$(pgrep -P "$server" -x gpuwire)"
wait "$server"
[ $? = 130 ] || fail "a waiting server and Ctrl-C"

# Each mistake: exit code and a word of the one line that says it.
wrong() { # CODE WORD ARGS…
    local code=$1 word=$2 rc
    shift 2
    timeout -k 5 "$patience" "$GPUWIRE" perf "$@" >"$work/wrong.out" 2>&1
    rc=$?
    [ $rc = "$code" ] && grep -q -- "$word" "$work/wrong.out" && [ "$(wc -l <"$work/wrong.out")" = 1 ] ||
        fail "perf $*: exit code $rc"
}
wrong 2 'post, bw, lat'
wrong 2 'one of post, bw' bandwith
wrong 2 'one of put,' bw -o putt
wrong 2 'no such option' bw --verfy
wrong 2 'it wants a value' bw -s
wrong 2 'a size from' bw -s 64q
wrong 2 'a number from' bw -q 0
wrong 2 '256, 512' bw -m 300
wrong 2 'one of host' bw --queues disk
wrong 2 'not understood' bw host other
wrong 2 'must be one of RC' bw -c UD
wrong 2 '-b: it goes with' bw -b --verify
wrong 2 '-b: it goes with' lat -b
wrong 2 '-e: it goes with' lat -e
wrong 2 '-I: it goes with' bw -I 64 -o get
wrong 2 'a number from 0 to 1024' bw -I 2000
wrong 1 'queues for more than' bw --exec cpu -q 1024 -t 32768 --loopback
wrong 2 'evenly' bw -q 3 --blocks 4
wrong 2 'one of them' bw -n 5 -D 5
wrong 2 'must hold' msgrate -t 16 --by warp
wrong 2 'go with bw' lat -q 2
wrong 1 'no program listens' bw --exec cpu -p 18605 "$net.1"
wrong 1 'cannot lie in GPU memory' bw --exec cpu --queues gpu --loopback
wrong 1 'kernels run on the CPU' bw --exec cpu --buffers gpu --loopback
wrong 1 'GID index' bw --exec cpu -x 77 --loopback
wrong 1 'and no other' bw --exec cpu -i 2 --loopback
wrong 2 'more posts for a doorbell' msgrate -l 200
wrong 1 '4 GiB' bw --exec cpu -s 1g -q 100 --loopback
nothing_left
