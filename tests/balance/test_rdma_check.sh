#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# RDMA_CHECK: a server that answers over RDMA is up; one that is stopped goes down after `fall` checks that failed, and comes
# up again after `rise` that went well. HTTP alone is not enough: the server's NIC must answer.
. "$(dirname "$0")/../integration/lib.sh"
. "$(dirname "$0")/balancers.sh"
need jq curl
conf=$work/b.conf
port=$(free_port)
cat >"$conf" <<EOC
global_defs {
    api 127.0.0.1 0
    run_dir $work/run-b
}
virtual_server 10.99.0.1 4791 {
    name rdma
    protocol roce
    lb_kind NAT
    RDMA_CHECK {
        model identity
        connect_port $port
        delay_loop 0.3
        connect_timeout 3
        rise 2
        fall 3
    }
    real_server $net.1 4791 {
        name w1
    }
}
EOC
export GPUWIRE_NIC=addr=$net.1
serve() {
    "$GPUWIRE" serve --model identity --exec cpu --listen "$net.1" --port "$port" --grpc off >"$work/serve.out" 2>&1 &
    server=$!
    pids+=("$server")
    wait_for "$work/serve.out" 'HTTP on port' "$server" || fail "the server is not ready"
}
serve
GPUWIRE_NIC=addr=$net.2 "$GPUWIRE" balance --config "$conf" >"$work/balance.out" 2>&1 &
balancer=$!
pids+=("$balancer")
wait_for "$work/balance.out" 'API on' "$balancer" || fail "the balancer is not ready"
api=127.0.0.1:$(sed -n 's/.*API on .* port \([0-9]*\).*/\1/p' "$work/balance.out")
health() { curl -sf "http://$api/v1/services/rdma/workers/w1" | jq -r "$1"; }
is() { [ "$(health "$1")" = "$2" ]; }

eventually is .state up || fail "a server that answers is not up: $(health .health)"
is .health.failures 0 || fail "a check of a good server failed: $(health .health)"

# Three in a row, not one: the first failures leave it up.
kill -STOP "$server"
eventually is '.health.failures >= 1' true || fail "a stopped server answers"
while is '.health.bad < 3' true; do
    is '.state == "up" or .health.bad >= 3' true || fail "it is down after $(health .health.bad) failures, and fall is 3"
    sleep 0.05
done
eventually is .state down || fail "a stopped server is up: $(health .health)"
echo "down: $(health .health.why)"

kill -CONT "$server"
eventually is '.health.good >= 1' true || fail "a server that goes on does not answer"
eventually is .state up || fail "a server that goes on is not up again"
is '.health.good >= 2' true || fail "it is up after one good check, and rise is 2"

# It dies, and another one takes its place.
kill -KILL "$server"
wait "$server" 2>/dev/null
eventually is .state down || fail "a dead server is up"
serve
eventually is .state up || fail "the next server is not up: $(health .health)"
[ "$(grep -c 'worker w1 is up' "$work/balance.out")" = 3 ] && [ "$(grep -c 'worker w1 is down' "$work/balance.out")" = 2 ] ||
    fail "not up, down, up, down, up: $(cat "$work/balance.out")"
kill -TERM "$balancer"
wait "$balancer" || fail "the balancer ended with $?"
echo "RDMA_CHECK: up, down, up, down, up"
