#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The control plane is killed and started again, three times, under traffic: no connection breaks, new ones are made all the time,
# and what the API had changed is still so.
. "$(dirname "$0")/../integration/lib.sh"
. "$(dirname "$0")/net.sh"
need redis-server redis-cli jq python3
"$GPUWIRE" balance check /dev/null >/dev/null || fail "gpuwire has no balancer"
make_net 3 NAT
for w in w1 w2 w3; do
    at $w redis-server --port 6379 --bind '*' '-::*' --protected-mode no --save '' --dir "$work" >"$work/$w.out" 2>&1 &
    pids+=($!)
done
{
    printf 'virtual_server %s 6379 {\n name redis\n lb_algo wrr\n lb_kind NAT\n delay_loop 0.2\n' "$vip"
    for w in 2 3; do printf ' real_server 10.77.0.2%s 6379 { name w%s\n weight 10\n }\n' "$w" "$w"; done
    printf '}\n'
} | config >"$work/balance.conf"
balance "$work/balance.conf"
# The first worker is in no file: it registers itself, and speaks twice a second to whichever control plane is there.
echo "$api" >"$work/api"
while sleep 0.5; do
    at lb curl -s -X PUT --json '{"address": "10.77.0.21", "weight": 10, "beat_ms": 1000}' "http://$(cat "$work/api")/v1/services/redis/workers/w1"
done >"$work/beats.out" 2>&1 &
pids+=($!)
eventually up_are redis 3 || fail "the workers are not up"

mkfifo "$work/go"
at client python3 - "$vip" "$work/go" >"$work/client.out" 2>&1 <<'EOP' &
import socket
import sys
import threading
import time

over, lock, errors, done = threading.Event(), threading.Lock(), [], [0]


def ask(s, line, answer):
    s.sendall(line.encode() + b"\r\n")
    got = s.recv(64)
    assert got == answer.encode() + b"\r\n", f"{line}: {got}"


def connect():
    return socket.create_connection((sys.argv[1], 6379), timeout=20)


def come_and_go(n):
    i = 0
    while not over.is_set():
        i += 1
        try:
            with connect() as s:
                for k in (1, 2, 3):
                    ask(s, f"INCR fresh{n}-{i}", f":{k}")
        except Exception as e:
            with lock:
                errors.append(f"new connection: {e!r}")
        with lock:
            done[0] += 1
        time.sleep(0.01)


held = [connect() for _ in range(30)]
for i, s in enumerate(held):
    ask(s, f"INCR held{i}", ":1")
threads = [threading.Thread(target=come_and_go, args=(n,)) for n in range(3)]
for t in threads:
    t.start()
print("ready", flush=True)
threading.Thread(target=lambda: (open(sys.argv[2], encoding="ascii").read(), over.set()), daemon=True).start()
rounds = 1
while not over.is_set():
    rounds += 1
    for i, s in enumerate(held):
        try:
            ask(s, f"INCR held{i}", f":{rounds}")
        except Exception as e:
            errors.append(f"held connection: {e!r}")
            over.set()
            break
    time.sleep(0.02)
for t in threads:
    t.join()
print(f"{done[0]} connections came and went, and 30 stayed for {rounds} rounds; {len(errors)} errors {errors[:3]}")
sys.exit(bool(errors))
EOP
client=$!
pids+=($client)
wait_for "$work/client.out" ready $client || fail "no connections: $(cat "$work/client.out")"
ask drain redis w3 >/dev/null && ask weight redis w2 30 >/dev/null || fail "changes by the API"
sleep 1 # what is counted from now on knows of the drain
counted() { [ "$(at lb curl -sf "http://$api/v1/stats" | jq '.age_ms < 900')" = true ]; }
eventually counted || fail "the data plane says nothing"
plane() { at lb curl -sf "http://$api/v1/stats" | jq .data.pid; }
opened() { worker_value redis "$1" .flows.opened; }
first=$(plane) drained=$(opened w3) before=$(opened w2)

for _ in 1 2 3; do
    kill -KILL "$balancer"
    wait "$balancer" 2>/dev/null
    sleep 1 # no process is in control
    balance "$work/balance.conf"
    echo "$api" >"$work/api"
    [ "$(worker_value redis w1 .leave)" = false ] || fail "the worker that registered itself leaves"
    [ "$(worker_value redis w3 .drain)" = true ] || fail "the drain is forgotten"
    [ "$(worker_value redis w2 .weight)" = 30 ] || fail "the weight is forgotten"
    [ "$(ask list --json | jq '[.services[].workers[].health.up] | all')" = true ] || fail "the workers' health is forgotten"
    [ "$(plane)" = "$first" ] || fail "another data plane was started"
    sleep 1
done
goes_on() { [ "$(opened w2)" -gt $((before + 100)) ]; }
eventually goes_on || fail "new connections do not reach w2"
[ "$(opened w3)" = "$drained" ] || fail "the drained worker got $(($(opened w3) - drained)) connections"
# ---- no other process may take the data plane, or the interface ----

sed "s|$work/run-lb|$work/run-other|" "$work/balance.conf" >"$work/other.conf"
for conf in balance other; do
    at lb timeout 60 "$GPUWIRE" balance --config "$work/$conf.conf" >"$work/second.out" 2>&1 && fail "a second balancer runs: $conf.conf"
    cat "$work/second.out" >>"$work/seconds.out"
done
grep -q "run_dir $work/run-lb: another .gpuwire balance. is in control there" "$work/seconds.out" &&
    grep -q 'interface eth0: another `gpuwire balance`, process [0-9]*, forwards its packets' "$work/seconds.out" ||
    fail "a second balancer is not told what is wrong"
echo over >"$work/go"
wait "$client" || fail "connections broke: $(cat "$work/client.out")"
tail -n 1 "$work/client.out"
kill -TERM "$balancer"
wait "$balancer" || fail "the balancer ended with $?"
