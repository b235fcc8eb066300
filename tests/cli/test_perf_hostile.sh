#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# gpuwire perf and a hostile peer: one line, an exit code, and nothing waits forever. $1 is perf_hostile.
. "$(dirname "$0")/../integration/lib.sh"
need jq
export GPUWIRE_NIC=addr=$net.1,verbose=0 GPUWIRE_DEVICE=softnic
hostile=$1
[ -z "${SANITIZER:-}" ] || export ASAN_OPTIONS=detect_leaks=0

waits() { # NAME PROGRAM…: in the background, until it waits for a client; its process is $waiting
    local name=$1
    shift
    timeout -k 5 "$patience" "$@" >"$work/$name.out" 2>&1 &
    waiting=$!
    pids+=("$waiting")
    wait_for "$work/$name.out" 'waiting for a client' "$waiting" || fail "$name: it does not wait"
}
ends() { # NAME CODE WORDS: what waited ends with one line more than that it waits
    local rc
    wait "$waiting"
    rc=$?
    [ $rc = "$2" ] || fail "$1: exit code $rc, not $2"
    [ -z "$3" ] || grep -v 'waiting for' "$work/$1.out" | grep -q -- "$3" || fail "$1: nothing of '$3'"
    [ "$(grep -vc 'waiting for' "$work/$1.out")" = $(($2 == 1)) ] || fail "$1: not one line"
}
port=18640
against() { # CASE WORDS: a hostile client
    waits "$1" "$GPUWIRE" perf bw --exec cpu -p $((++port))
    timeout -k 5 "$patience" "$hostile" "$net.1" $port "$1" >"$work/$1.peer.out" 2>&1 || fail "$1: the peer itself"
    ends "$1" 1 "$2"
}
against magic 'sends nonsense'
against short 'sends nonsense'
against long 'control connection'
against word 'something senseless'
against early 'step is senseless: not now'
against nothing_runs 'stop is senseless: nothing runs'
against shape 'senseless: a measurement out of all bounds'
against memory 'senseless: buffers of more than 4 GiB'
against queues 'senseless: queues for more than'
against mtu 'senseless: the path MTU'
against twice 'senseless: a second measurement'
against big_step 'senseless: a step of a size'
against big_stop 'senseless: more is to be looked at'
against flood ''
grep -q 'answer 6' "$work/big_stop.peer.out" || fail "the peer is not told"

# Who leaves in the middle; who gives a number that there is not, and then a good one; who is asked to be known by it.
waits number "$GPUWIRE" perf bw --exec cpu -p $((++port))
timeout -k 5 "$patience" "$hostile" "$net.1" $port number >"$work/number.peer.out" 2>&1 || fail "number: the peer itself"
grep -q 'refused: .*busy with another client' "$work/number.peer.out" || fail "number: not refused"
ends number 1 'ended the connection'

# A stranger at another address asks for a queue pair that the server has made for its client.
waits robbed "$GPUWIRE" perf bw --exec cpu -p $((++port))
timeout -k 5 "$patience" "$hostile" "$net.1" $port silent >"$work/robbed.peer.out" 2>&1 &
pids+=($!)
wait_for "$work/robbed.peer.out" answer $! || fail "robbed: no answer"
GPUWIRE_NIC=addr=$net.2,verbose=0 timeout -k 5 "$patience" "$hostile" "$net.1" $port thief >"$work/thief.out" 2>&1
grep -q 'refused: .*busy with another client' "$work/thief.out" || fail "a stranger gets the client's queue pair"
kill -INT "$(pgrep -P "$waiting" -x gpuwire)"
ends robbed 130 ''

# Strangers are turned away, and the next client is served.
waits strangers "$GPUWIRE" perf bw --exec cpu -p $((++port))
timeout -k 5 "$patience" "$hostile" "$net.1" $port stranger >"$work/stranger.out" 2>&1
grep -q 'refused: .*use it at both ends' "$work/stranger.out" || fail "a stranger is not told"
timeout -k 5 "$patience" "$hostile" "$net.1" $port version >"$work/version.out" 2>&1
grep -q 'refused: .*of another version' "$work/version.out" || fail "another version is not told"
timeout -k 5 "$patience" "$GPUWIRE" perf bw -n 50 --exec cpu -p $port "$net.1" >"$work/after.out" 2>&1 || fail "after strangers: exit code $?"
ends strangers 0 ''

# A client that is interrupted while it connects, since no answer comes: the next one is served. What the server sends
# to itself while it looks at its NIC is cut too, so only what is cut after that is an answer.
waits hasty env "GPUWIRE_NIC=$GPUWIRE_NIC,tx.down=0" "$GPUWIRE" perf bw --exec cpu -p $((++port))
server=$(pgrep -P "$waiting" -x gpuwire)
cut_so_far() { "$GPUWIRE" nic --json --pid "$server" 2>/dev/null | jq '.[0].faults_tx.cut'; }
earlier=$(cut_so_far)
[ -n "$earlier" ] || fail "hasty: the server's NIC does not say what was cut"
answered() { [ "$(cut_so_far)" -gt "$earlier" ]; }
timeout -k 5 "$patience" "$GPUWIRE" perf bw -n 50 --exec cpu -p $port "$net.1" >"$work/hasty.client.out" 2>&1 &
client=$!
pids+=("$client")
while_lives "$client" answered || fail "hasty: the request is not answered"
kill -INT "$(pgrep -P "$client" -x gpuwire)"
wait "$client"
[ $? = 130 ] || fail "hasty: the client's exit code"
"$GPUWIRE" nic --pid "$server" --fault none >/dev/null || fail "hasty: the network cannot be mended"
wait_for "$work/hasty.out" 'left before it was connected; waiting for the next' "$waiting" || fail "hasty: nothing of it is said"
timeout -k 5 "$patience" "$GPUWIRE" perf bw -n 50 --exec cpu -p $port "$net.1" >"$work/hasty.after.out" 2>&1 || fail "after one who left: exit code $?"
ends hasty 0 ''

# Ctrl-C while the client keeps everybody waiting, and in the middle of a measurement, at the side that serves.
waits silent "$GPUWIRE" perf bw --exec cpu -p $((++port))
timeout -k 5 "$patience" "$hostile" "$net.1" $port silent >"$work/silent.peer.out" 2>&1 &
pids+=($!)
wait_for "$work/silent.peer.out" answer $! || fail "silent: no answer"
kill -INT "$(pgrep -P "$waiting" -x gpuwire)"
ends silent 130 ''
client_works() { has_sent "$(pgrep -P "$client" -x gpuwire)" 10000000; }
waits served "$GPUWIRE" perf bw --exec cpu -p $((++port))
timeout -k 5 "$patience" "$GPUWIRE" perf bw -D 40 --exec cpu -u 8 -p $port "$net.1" >"$work/client.out" 2>&1 &
client=$!
pids+=("$client")
while_lives "$client" client_works || fail "the client does not get to work"
kill -INT "$(pgrep -P "$waiting" -x gpuwire)"
ends served 130 ''
wait "$client"
[ $? = 1 ] || fail "the serving side was stopped: the client's exit code"
grep -q '^gpuwire perf bw: .*the peer does not answer\|^gpuwire perf bw: the other side' "$work/client.out" || fail "the serving side was stopped: the client says nothing"

# A client that dies without a word, in the middle of a measurement: the side that serves notices it.
waits left "$GPUWIRE" perf bw --exec cpu -p $((++port))
timeout -k 5 "$patience" "$GPUWIRE" perf bw -D 40 --exec cpu -p $port "$net.1" >"$work/left.client.out" 2>&1 &
client=$!
pids+=("$client")
while_lives "$client" client_works || fail "the client that is to die does not get to work"
kill -KILL "$(pgrep -P "$client" -x gpuwire)"
wait "$waiting"
[ $? = 1 ] && grep -q '^gpuwire perf bw: the other side is gone' "$work/left.out" || fail "the client died: the side that serves"

# A hostile side that waits.
at() { # CASE WORDS
    waits "at_$1" "$hostile" - $((++port)) "$1"
    timeout -k 5 "$patience" "$GPUWIRE" perf bw --exec cpu -p $port "$net.1" >"$work/at_$1.client.out" 2>&1
    [ $? = 1 ] || fail "at $1: exit code"
    grep -q -- "$2" "$work/at_$1.client.out" || fail "at $1: nothing of '$2'"
    [ "$(wc -l <"$work/at_$1.client.out")" = 1 ] || fail "at $1: not one line"
    grep -q $'\x1b' "$work/at_$1.client.out" && fail "at $1: it may write to the terminal"
    wait "$waiting"
}
at magic 'sends nonsense'
at word 'something else than an answer'
at text 'the other side: ????'
at little 'too little memory'
at leaves 'gpuwire perf bw: '
at version 'no gpuwire perf of this version'
nothing_left
