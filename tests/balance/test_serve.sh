#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# RDMA sessions of `gpuwire serve` through the balancer, over the software NIC: test_serve.sh DR|NAT
# The servers register themselves and tell of each session's queue pair. Sessions stay where they began while a worker
# drains and while the control plane starts again. A server that is killed takes its own sessions along, and no others.
. "$(dirname "$0")/../integration/lib.sh"
. "$(dirname "$0")/net.sh"
need jq curl python3 tshark dumpcap
"$GPUWIRE" balance check /dev/null >/dev/null || fail "gpuwire has no balancer"
forward=$1
make_net 2 "$forward"
printf "\x93NUMPY\x01\x00v\x00%-117s\n" "{'descr': '<f4', 'fortran_order': False, 'shape': (1, 1, 224, 224), }" >"$work/x.npy"
head -c $((224 * 224 * 4)) /dev/zero >>"$work/x.npy"

# ---- the balancer, and two servers that register themselves ----

api=10.77.0.10:9091
{
    printf 'virtual_server %s 8000 {\n name infer\n lb_algo rr\n lb_kind %s\n}\n' "$vip" "$forward"
    printf 'virtual_server %s 4791 {\n name infer-rdma\n protocol roce\n lb_kind %s\n}\n' "$vip" "$forward"
} | config | sed 's/api 127.0.0.1 0/api 10.77.0.10 9091/' >"$work/balance.conf"
start_balancer() {
    balance "$work/balance.conf" "$@"
    api=10.77.0.10:9091
}
start_balancer
declare -A server
serve() {
    local n=$1 nic=10.77.0.2${1#w}
    [ "$forward" = NAT ] || nic=$vip # by direct routing the worker answers from the VIP
    mkdir -p "$work/$n"
    GPUWIRE_NIC=addr=$nic XDG_RUNTIME_DIR=$work/$n ip netns exec "$id-$n" "$GPUWIRE" serve --model identity \
        --exec cpu --listen 0.0.0.0 --port 8000 --grpc off --balancer http://$api/infer --balancer-token-file "$work/run-lb/api.token" >"$work/$n.out" 2>&1 &
    server[$n]=$!
    pids+=("$!")
}
[ "$(at w1 curl -s -o /dev/null -w '%{http_code}' "http://$api/v1/services")" = 401 ] || fail "another host needs no token"
serve w1
serve w2
both_up() { up_are infer 2 && up_are infer-rdma 2; }
eventually both_up || { ask list >&2; fail "the servers do not register"; }
name_of() { ask list --json | jq -r ".services[] | select(.name == \"$1\") | .workers[] | select(.address == \"10.77.0.2$2\") | .name"; }
# of SERVICE NUMBER JQ: a value of worker NUMBER there.
of() { ask list --json | jq ".services[] | select(.name == \"$1\") | .workers[] | select(.address == \"10.77.0.2$2\") | $3"; }

# ---- clients, each with a NIC of its own ----

# client WORD...: `gpuwire WORD... identity` on the client's host.
client() {
    mkdir -p "$work/run-c"
    XDG_RUNTIME_DIR=$work/run-c GPUWIRE_NIC=addr=10.77.1.1 ip netns exec "$id-client" "$GPUWIRE" "$1" identity --server "rdma://$vip:8000" "${@:2}"
}
watch w1 w2 client
for i in 1 2 3 4; do
    client infer --input "$work/x.npy" >"$work/infer.txt" 2>&1 || fail "infer: $(head -c 500 "$work/infer.txt") $(ask list)"
done
grep -q '"data": \[0, 0, 0' "$work/infer.txt" || fail "infer has printed no answer"
client load --clients 4 --slots 2 --requests 100 --verify-echo >"$work/load.out" 2>&1 || fail "load: $(cat "$work/load.out")"
grep -q 'past the load balancer' "$work"/w?.out && fail "sessions go past the balancer"
watched 1000
used() { [ "$(of infer-rdma 1 '.flows.opened >= 4 and .flows.packets > 100')" = true ] && [ "$(of infer-rdma 2 '.flows.opened >= 4 and .flows.packets > 100')" = true ]; }
eventually used || { ask list >&2; fail "the sessions are not spread, or do not pass the balancer"; }
all_ended() { [ "$(ask list --json | jq '[.services[] | select(.name == "infer-rdma") | .workers[] | .queue_pairs + .flows.live] | add')" = 0 ]; }
eventually all_ended || { ask list --json >&2; fail "sessions have ended, and their queue pairs have not"; }
echo "$forward: 12 sessions, over both servers, through the balancer"

# ---- sessions that stay: one server drains, then the control plane dies ----

for i in 1 2 3 4; do
    client load --clients 1 --slots 1 --requests 100000000 --verify-echo >"$work/long$i.out" 2>&1 &
    long[$i]=$!
    pids+=("$!")
done
pairs() { of infer-rdma "$1" .queue_pairs; }
two_each() { [ "$(pairs 1)" = 2 ] && [ "$(pairs 2)" = 2 ]; }
eventually two_each || { ask list --json >&2; fail "four sessions are not two for each server"; }
packets_1() { of infer-rdma 1 .flows.packets; }
goes_on() { [ "$(packets_1)" -gt $((before + 200)) ]; }
ask drain infer "$(name_of infer 1)" >/dev/null || fail "drain"
before=$(packets_1)
eventually goes_on || fail "the drained server's sessions stand still"
for i in 1 2 3; do client infer --input "$work/x.npy" >"$work/infer.txt" 2>&1 || fail "a new session while one server drains: $(head -c 500 "$work/infer.txt")"; done
[ "$(pairs 1)" = 2 ] || fail "the drained server got another session, or lost one"
kill -KILL "$balancer"
wait "$balancer" 2>/dev/null
sleep 1
start_balancer
eventually two_each || { ask list --json >&2; fail "the new control plane does not learn of the sessions"; }
before=$(packets_1)
eventually goes_on || fail "sessions stand still after the control plane has started again"
for i in 1 2 3 4; do kill -0 "${long[$i]}" 2>/dev/null || fail "a session broke: $(cat "$work/long$i.out")"; done
ask up infer "$(name_of infer 1)" >/dev/null || fail "up"
eventually both_up || fail "not both are up after the restart"
echo "$forward: a drain and a restart of the control plane moved no session"

# ---- a session that the balancer cannot be told of is refused in words ----

kill -STOP "$balancer"
client infer --input "$work/x.npy" >"$work/refused.txt" 2>&1 && fail "a session that the balancer was not told of"
kill -CONT "$balancer"
grep -q 'load balancer' "$work/refused.txt" || fail "the refusal does not say why: $(head -c 500 "$work/refused.txt")"
again() { client infer --input "$work/x.npy" >"$work/infer.txt" 2>&1; }
eventually again || fail "no session after the balancer is back: $(head -c 500 "$work/infer.txt")"
for i in 1 2 3 4; do kill -0 "${long[$i]}" 2>/dev/null || fail "a session broke while the balancer was stopped: $(cat "$work/long$i.out")"; done

# ---- one server is killed: its two sessions break, with words; the others go on ----

eventually both_up || fail "not both are up before the kill"
kill -KILL "${server[w1]}"
ended() {
    gone_now=0
    for i in 1 2 3 4; do kill -0 "${long[$i]}" 2>/dev/null || gone_now=$((gone_now + 1)); done
    [ "$gone_now" -ge 2 ]
}
eventually ended || fail "the dead server's clients do not end"
before=$(of infer-rdma 2 .flows.packets)
goes_on_2() { [ "$(of infer-rdma 2 .flows.packets)" -gt $((before + 200)) ]; }
eventually goes_on_2 || fail "the other server's sessions stand still"
ended
[ "$gone_now" = 2 ] || fail "$gone_now sessions broke, and two were the dead server's"
for i in 1 2 3 4; do
    kill -0 "${long[$i]}" 2>/dev/null && continue
    wait "${long[$i]}"
    [ $? = 1 ] || fail "a client of the dead server ended with $?"
    grep -q 'has gone' "$work/long$i.out" || fail "the client does not say that its server has gone: $(cat "$work/long$i.out")"
done
echo "$forward: killed one server: $(cat "$work"/long?.out | grep -m1 'has gone')"
one_up() { up_are infer 1 && up_are infer-rdma 1; }
eventually one_up || fail "the balancer has not noticed that the server died"
for i in 1 2 3; do again || fail "a new session after the kill: $(head -c 500 "$work/infer.txt")"; done

# ---- the other one ends in order, and deregisters from both services ----

for i in 1 2 3 4; do kill -INT "${long[$i]}" 2>/dev/null; done
kill -TERM "${server[w2]}"
wait "${server[w2]}" || fail "the server ended with $?"
left() { [ "$(of infer 2 .name)$(of infer-rdma 2 .name)" = "" ]; }
eventually left || { ask list >&2; fail "the server did not deregister"; }
kill -TERM "$balancer"
wait "$balancer" || fail "the balancer ended with $?"
