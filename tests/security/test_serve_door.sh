#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Another user of the host at the HTTP door of `gpuwire serve`: more connections than there may be, each of which says a
# byte now and then; and sessions, as many as there are, for a queue pair that does not exist. The others are served.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
in_own_net "$0" "$@"
need curl
python=/usr/bin/python3 # another user's: there may be others, in folders that only their owner reads
[ -x "$python" ] || { echo "skipped: there is no $python"; exit 77; }
here=$(cd "$(dirname "$0")" && pwd)
export GPUWIRE_NIC=addr=127.0.0.1
ip addr add 10.99.0.2/32 dev lo
attack=$(readable "$here/http_attack.py")

"$GPUWIRE" serve --exec cpu --models "$here/../server/models" --port 0 --idle 3 >"$work/worker.out" 2>&1 &
worker=$!
pids+=("$worker")
wait_for "$work/worker.out" 'HTTP on port' "$worker" || fail 'the worker is not ready'
port=$(sed -n 's/.*HTTP on port \([0-9]*\).*/\1/p' "$work/worker.out")
sessions_open() { curl -sf --max-time 10 "http://127.0.0.1:$port/v2/models/echo/stats" | sed -n 's/.*"sessions_open":\([0-9]*\).*/\1/p'; }
none_open() { [ "$(sessions_open)" = 0 ]; }

# Only this host reaches it.
[ "$(ss -Hltn "sport = :$port" | awk '{print $4}')" = "127.0.0.1:$port" ] || fail "it listens elsewhere: $(ss -Hltn)"

# attacks WHAT...: the stranger does it from now on. $got: how much he got.
attacks() {
    rm -f "$work/attack.out" "$work/hold"
    mkfifo "$work/hold"
    as_stranger "$python" "$attack" "$port" "$@" <"$work/hold" >"$work/attack.out" 2>"$work/attack.err" &
    attacker=$!
    pids+=("$attacker")
    exec 9>"$work/hold"
    wait_for "$work/attack.out" ready "$attacker" || fail "the attack $*: $(cat "$work/attack.err")"
    got=$(sed -n 's/ready //p' "$work/attack.out")
}
ends_attack() {
    exec 9>&-
    wait "$attacker"
}
served() { timeout "$patience" "$GPUWIRE" load echo --server "127.0.0.1:$port" --requests 20 --verify-echo >"$work/load.out" 2>&1; }

attacks slow
for _ in 1 2 3; do curl -sf --max-time 10 "http://127.0.0.1:$port/v2/health/live" >/dev/null || fail 'slow connections close the door'; done
served || fail "no client is served beside slow connections: $(cat "$work/load.out")"
grep -q "user $STRANGER has [0-9]* connections open, as many as one client may" "$work/worker.out" || fail 'nothing is said of the slow connections'
ends_attack

attacks sessions echo 127.0.0.1 10.99.0.2 127.0.0.9
[ "$got" = 12 ] || fail "the stranger got $got sessions of 16"
grep -q "user $STRANGER has 12 sessions of model echo, as many as one client may" "$work/attack.err" || fail "he is told: $(cat "$work/attack.err")"
served || fail "no client is served beside one that takes all it gets: $(cat "$work/load.out")"
eventually none_open || fail 'unused sessions do not end'
kill -0 "$attacker" 2>/dev/null || fail 'the attacker has ended by itself'
grep -q 'closed: no request came within 3 s' "$work/worker.out" || fail 'nothing is said of the sessions that ended'
ends_attack
[ "$(wc -l <"$work/worker.out")" -lt 40 ] || fail "a stranger fills the log: $(wc -l <"$work/worker.out") lines"

# A connection that was closed before the server looked is not root's, whatever the kernel's list says.
object=gw-test-door-$$
(umask 077 && head -c 64 /dev/zero >"/dev/shm/$object")
as_stranger "$python" "$attack" "$port" ghost "/$object" >"$work/ghost.out" || fail 'the ghost fails'
sleep 0.3
regions=$(curl -sf --max-time 10 "http://127.0.0.1:$port/v2/systemsharedmemory/status")
rm -f "/dev/shm/$object"
[ "$regions" = '[]' ] || fail "a stranger has root's shared memory registered: $regions"

kill -TERM "$worker"
wait "$worker" || fail "the worker ended with $?"

# A user who opens the door to other hosts is told what that means.
"$GPUWIRE" serve --exec cpu --models "$here/../server/models" --listen 0.0.0.0 --port 0 >"$work/open.out" 2>&1 &
worker=$!
pids+=("$worker")
wait_for "$work/open.out" 'HTTP on port' "$worker" || fail 'the open worker is not ready'
grep -q 'listening on 0.0.0.0: every client that reaches it may use every model' "$work/open.out" || fail 'nothing is said of the open door'
kill -TERM "$worker"
wait "$worker" || fail "the open worker ended with $?"
echo ok
