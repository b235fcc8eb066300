#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Root asks a stranger's process for its NIC. The stranger answers without end, or too slowly, or to a terminal's harm; or
# it has taken the names of others' sockets.
. "$(dirname "$0")/lib.sh"
in_own_net "$0" "$@"
PATH=/usr/bin:/bin:$PATH # a stranger cannot run what lies in root's home
need python3

cat >"$work/stranger.py" <<'PYTHON'
import os, socket, sys, time

def listen(pid, number):
    s = socket.socket(socket.AF_UNIX)
    s.bind(f"\0gpuwire-nic-{pid}-{number:08x}")
    s.listen(0)
    return s

how = sys.argv[1]
kept = []
if how == "full":  # sockets without a reader, and no place in their queues
    for i in range(200):
        s = listen(os.getpid(), i)
        waiting = socket.socket(socket.AF_UNIX)
        waiting.connect(s.getsockname())
        kept += [s, waiting]
else:
    victim = int(sys.argv[2]) if how == "squat" else os.getpid()
    kept.append(listen(victim, 1))
print("ready", flush=True)
while how in ("endless", "slow", "escape"):
    c, _ = kept[0].accept()
    c.recv(100)
    try:
        if how == "endless":
            c.sendall(b'{"qps": [')
            for _ in range(400):
                c.sendall(b"[]," * 20000)
        elif how == "slow":
            while True:
                c.sendall(b" ")
                time.sleep(0.05)
        else:
            c.sendall(rb'{"program": "\u001b]0;evil\u0007\u009b31m", "evil\u001b[2J": 1, "pid": 1}' + b"\n")
    except OSError:
        pass
    c.close()
time.sleep(600)
PYTHON
chmod 755 "$work"
chmod 644 "$work/stranger.py"

# stranger HOW [ARG]: the attacker; sets `attacker`.
stranger() {
    rm -f "$work/stranger.out" # the last one's "ready"
    as_stranger python3 "$work/stranger.py" "$@" >"$work/stranger.out" &
    attacker=$!
    pids+=("$attacker")
    wait_for "$work/stranger.out" ready "$attacker" || fail "the attacker does not start"
}
over() { kill "$attacker"; wait "$attacker" 2>/dev/null; }

# asked ARGS...: `gpuwire nic ARGS`; sets `seconds` and `megabytes`, what it took at most.
asked() {
    read -r seconds megabytes < <(python3 - "$work" "${gpuwire[@]}" nic "$@" <<'PYTHON'
import resource, subprocess, sys, time
start = time.monotonic()
with open(sys.argv[1] + "/nic.out", "wb") as out:
    subprocess.run(sys.argv[2:], stdout=out, stderr=out, timeout=500)
print(int(time.monotonic() - start), resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss // 1024)
PYTHON
    )
}
says() { grep -q "$1" "$work/nic.out" || fail "gpuwire nic does not say: $1"; }

most=500
[ -n "${SANITIZER:-}" ] && most=4000
stranger endless
asked --pid "$attacker"
echo "endless: $seconds s, $megabytes MB"
says 'sends a longer answer than any software NIC'
[ "$megabytes" -lt "$most" ] || fail "it grew to $megabytes MB"
over

stranger slow
asked --pid "$attacker"
echo "slow: $seconds s"
says 'did not answer in time'
[ "$seconds" -lt 60 ] || fail "it waited $seconds s"
over

stranger escape
asked --pid "$attacker"
says '?]0;evil??31m'
! grep -q "$(printf '\033\|\a\|\302\233')" "$work/nic.out" || fail 'control characters of a stranger come through'
over

stranger squat $$
asked --pid $$
says "named as process $$'s and are not: one is of process $attacker of user $STRANGER"
asked
says 'no process of this user'
over

stranger full
asked
echo "full: $seconds s"
says 'accept no connection'
[ "$seconds" -lt 60 ] || fail "it waited $seconds s"
over

# A process of another user, asked by one who is not root.
readable_tool
stranger slow
as_neighbour "${gpuwire[@]}" nic --pid "$attacker" >"$work/nic.out" 2>&1
says "is user $STRANGER's: only that user and root may ask it"
over
echo ok
