#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# gpuwire nic: what it shows of processes that work, and changes of their network while they do.
. "${0%/*}/lib.sh"
need ibv_rc_pingpong jq
nic() { timeout "$patience" "${gpuwire[@]}" nic "$@"; }
# of PID EXPRESSION: what jq makes of that process's NIC.
of() { nic --pid "$1" --json | jq -r ".[0] | $2"; }
above() { [ "$(of "$1" "$2")" -gt "$3" ]; }
# grows PID COUNTER: does it?
grows() { eventually above "$1" "$2" "$(of "$1" "$2")"; }

export GPUWIRE_NIC=addr=$net.1,loss=0,threads=2
port=$(free_port)
timeout $((4 * patience)) "${gpuwire[@]}" run -- ibv_rc_pingpong -g 0 -n 100000000 -p "$port" >"$work/server.out" 2>&1 &
pids+=($!)
wait_listen "$port" $! || fail 'the server does not listen'
timeout $((4 * patience)) "${gpuwire[@]}" run -- ibv_rc_pingpong -g 0 -n 100000000 -p "$port" 127.0.0.1 >"$work/client.out" 2>&1 &
pids+=($!)
two_seen() {
    read -r -d '' a b < <(nic --json | jq -r ".[] | select(.address == \"$net.1\" and .qps[0].state == \"RTS\") | .pid")
    [ -n "$b" ]
}
eventually two_seen || fail 'two NICs were not seen'

# What both show fits together.
for p in $a $b; do
    other=$((a + b - p))
    [ "$(of "$p" .program)" = ibv_rc_pingpong ] || fail 'the program'
    [ "$(of "$p" .qps[0].peer)" = "$(of $other .qps[0].number)" ] || fail 'the peer'
    [ "$(of "$p" .qps[0].peer_address)" = "$net.1" ] || fail "the peer's address"
    [ "$(of "$p" .objects.mrs)" = 1 ] && [ "$(of "$p" .objects.mr_bytes)" = 4096 ] || fail 'memory regions'
    [ "$(of "$p" .stuck)" = false ] || fail 'stuck'
    [ "$(of "$p" .threads)" = 2 ] || fail 'threads'
    grows "$p" .counters.tx_packets || fail 'packets do not grow'
done
qpn=$(of "$a" '.qps[0].number')
hex=$(printf 0x%06x "$qpn")
nic --pid "$a" >"$work/nic.out" || fail 'as text'
grep -q "^$a ibv_rc_pingpong  $net.1, slot" "$work/nic.out" || fail 'as text: no head'
grep -q '^  threads   gw-nic and 1 gw-nic-rx' "$work/nic.out" || fail 'as text: no threads'
grep -q "^  $hex RC       RTS " "$work/nic.out" || fail 'as text: no queue pair'
nic --qp "$hex" >"$work/qp.out" || fail 'one queue pair'
grep -q '^    next_psn ' "$work/qp.out" || fail 'one queue pair: no PSN'

# A change while it works: the loss is there, the program goes on, and it ends with "none". So few that the program, which
# tries eight times, outlives any number of them: a busy machine may take its time until the end.
nic --pid "$a" --fault loss=0.05,seed=5 >"$work/fault.out" || fail 'a change of faults'
grep -q 'tx.loss=0.05' "$work/fault.out" || fail 'a change of faults: not said'
eventually above "$a" .faults_tx.lost 10 || fail 'nothing gets lost'
eventually above "$a" .counters.retransmits 0 || fail 'losses without repeats'
[ "$(of "$a" .faults)" = tx.loss=0.05 ] || fail 'the faults in force'
nic --pid "$a" --fault none >/dev/null || fail 'no faults any more'
lost=$(of "$a" .faults_tx.lost)
grows "$a" .counters.cqes || fail 'the program does not go on'
[ "$(of "$a" .faults_tx.lost)" = "$lost" ] || fail 'packets still get lost'

# Down for a while, far shorter than the program is patient (8 times 67 ms): silence, and then it goes on. Where the program
# gets no turn in that time nothing is cut off: once more.
cut_off() {
    nic --pid "$a" --fault down=0+150ms >/dev/null || fail 'link down'
    sleep 0.3
    above "$a" .faults_tx.cut 0
}
eventually cut_off || fail 'nothing is cut off'
grows "$a" .counters.cqes || fail 'the link does not come back'

# Again and again, with rates, until it is interrupted.
"${gpuwire[@]}" nic --pid "$a" --watch 1 >"$work/watch.out" 2>&1 &
watch=$!
pids+=("$watch")
wait_for "$work/watch.out" 'packets/s, .* Gbit/s' "$watch" || fail 'no rates'
kill -INT "$watch"
wait "$watch" || fail "--watch ended with $?"

# Other users get no answer, and a client that says nothing, or nonsense, holds no other up.
if [ "$(id -u)" = 0 ] && command -v python3 >/dev/null; then
    python3 - "$(grep -o "gpuwire-nic-$a-[0-9a-f]*" /proc/net/unix | head -n 1)" >"$work/others.out" 2>&1 <<'EOP' || fail 'others'
import os, socket, sys
def ask(line):
    s = socket.socket(socket.AF_UNIX)
    s.settimeout(120)
    s.connect("\0" + sys.argv[1])
    try:
        s.sendall(line)
        return b"".join(iter(lambda: s.recv(65536), b""))
    except (BrokenPipeError, ConnectionResetError):
        return b""
assert ask(b"show\n").startswith(b"{") and b'"error"' in ask(b"shwo\n") and b'"error"' in ask(b"show 99999999\n")
assert ask(b"x" * 100000) == b"" and b'"error"' in ask(b"fault \x01\xff=\"\\\n")
mute = socket.socket(socket.AF_UNIX)
mute.connect("\0" + sys.argv[1])
assert ask(b"show\n").startswith(b"{")
os.setgroups([]); os.setgid(65534); os.setuid(65534)
assert ask(b"show\n") in (b"", b'{"error": "this NIC is another user\'s: only that user and root may ask it"}\n')
EOP
fi

refuse() { # CODE WORDS ARGS...
    local code=$1 words=$2 rc
    shift 2
    nic "$@" >"$work/refuse.out" 2>&1
    rc=$?
    [ $rc = "$code" ] || fail "nic $*: exit code $rc, not $code"
    grep -q -e "$words" "$work/refuse.out" || fail "nic $*: nothing is said of $words"
    [ "$(wc -l <"$work/refuse.out")" = 1 ] || fail "nic $*: more than one line"
}
refuse 2 '--pdi: no such option' --pdi 3
refuse 2 '--pid x: must be a number' --pid x
refuse 2 '--pid: it wants a value' --pid
refuse 2 'which process' --fault loss=1
refuse 2 "unknown fault 'los'" --pid "$a" --fault los=1
refuse 2 'goes with --pid alone' --pid "$a" --fault none --json
refuse 2 "a queue pair's number" --qp 0x1000000
refuse 2 '--watch 0: must be a number' --watch 0
refuse 2 'everything: not understood' everything
refuse 1 'no software NIC' --pid 1
refuse 1 'has a queue pair 0x000001' --qp 1
kill -STOP "$a"
# A thread that runs on another processor stops a moment later.
for ((i = 0; i < 200; i++)); do
    grep -h '^State' "/proc/$a/task"/*/status 2>/dev/null | grep -qv '^State:.T' || break
    sleep 0.02
done
nic --pid "$a" >"$work/stopped.out" 2>&1 && fail 'a stopped process answers'
kill -CONT "$a"
grep -q "process $a is stopped: left out; .kill -CONT $a. lets it go on" "$work/stopped.out" || fail 'a stopped process'
kill "${pids[@]}" 2>/dev/null
wait
[ "$(nic --json | jq "[.[] | select(.address == \"$net.1\")] | length")" = 0 ] || fail 'NICs of processes that ended'
nothing_left
echo ok
