#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# test_grpc.sh ECHO: another user of the host at the gRPC door of `gpuwire serve`: frames that are none, more connections than
# allowed, messages that never end, and answers without a reader. The others are served at the same time.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
in_own_net "$0" "$@"
python=/usr/bin/python3 # another user's: there may be others, in folders that only their owner reads
[ -x "$python" ] || { echo "skipped: there is no $python"; exit 77; }
here=$(cd "$(dirname "$0")" && pwd)
export GPUWIRE_NIC=addr=127.0.0.1
attack=$(readable "$here/grpc_attack.py")
echo=$1
MESSAGES=$((420 * 1024)) # KiB: what one client's messages may take (384 MiB), and a little
FRAMES=$((24 * 1024))    # what frames may leave that bring no message

"$GPUWIRE" serve --exec cpu --models "$here/../server/models" --port 0 >"$work/worker.out" 2>&1 &
worker=$!
pids+=("$worker")
wait_for "$work/worker.out" 'gRPC on port' "$worker" || fail 'the worker is not ready'
port=$(sed -n 's/.*gRPC on port \([0-9]*\).*/\1/p' "$work/worker.out")
rss() { sed -n 's/^VmRSS:[^0-9]*\([0-9]*\).*/\1/p' "/proc/$worker/status"; }
served() {
    timeout "$patience" "$echo" "127.0.0.1:$port" 200 >"$work/echo.out" 2>&1 || fail "$1: others are not served: $(cat "$work/echo.out")"
    kill -0 "$worker" || fail "$1: the worker has ended: $(tail -n 5 "$work/worker.out")"
}

# Only this host reaches it.
[ "$(ss -Hltn "sport = :$port" | awk '{print $4}')" = "127.0.0.1:$port" ] || fail "it listens elsewhere: $(ss -Hltn)"
served 'at first'

# attacks KIB WHAT…: the stranger does it; others are served while he holds on, and afterwards. The worker grows by less than
# KIB; a sanitizer's own memory says nothing of that. $got: how much he got.
attacks() {
    local may_grow=$1 at_first
    shift
    at_first=$(rss)
    rm -f "$work/attack.out" "$work/hold"
    mkfifo "$work/hold"
    as_stranger "$python" "$attack" "$port" "$@" <"$work/hold" >"$work/attack.out" 2>"$work/attack.err" &
    local attacker=$! grown
    pids+=("$attacker")
    exec 9>"$work/hold"
    wait_for "$work/attack.out" ready "$attacker" || fail "the attack $*: $(cat "$work/attack.err")"
    got=$(sed -n 's/ready //p' "$work/attack.out")
    served "$1"
    grown=$(($(rss) - at_first))
    echo "$1: he got $got; the worker has $grown KiB more than at first"
    [ "$grown" -lt "$may_grow" ] || [ -n "${SANITIZED:-}" ] || fail "$1: the worker has grown by $grown KiB"
    exec 9>&-
    wait "$attacker"
    served "after $1"
}

attacks "$FRAMES" garbage
attacks "$FRAMES" connections
[ "$got" -le 64 ] || fail "one client has $got connections"
grep -q "user $STRANGER has 64 connections open, as many as one client may" "$work/worker.out" || fail 'nothing is said of the connections'
for flood in continuations long indexed resets mistakes pings; do attacks "$FRAMES" "$flood"; done
grep -q "user $STRANGER: too many frames, calls and connections that come to nothing" "$work/worker.out" || fail 'nothing is said of the floods'
attacks "$MESSAGES" uploads
attacks "$MESSAGES" queue "$(sed -n 's/.*HTTP on port \([0-9]*\).*/\1/p' "$work/worker.out")"
attacks "$FRAMES" readers
[ "$(wc -l <"$work/worker.out")" -lt 60 ] || fail "a stranger fills the log: $(wc -l <"$work/worker.out") lines"
kill -TERM "$worker"
wait "$worker" || fail "the worker ended with $?"
echo ok
