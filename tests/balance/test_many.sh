#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Ten thousand services and five thousand workers: every command works on them, and a change costs what it changes.
. "$(dirname "$0")/../integration/lib.sh"
. "$(dirname "$0")/balancers.sh"
need jq python3
conf=$work/many.conf
python3 - "$work" >"$conf" <<'EOP'
import sys

print(f"global_defs {{\n api 127.0.0.1 0\n run_dir {sys.argv[1]}/run-m\n}}")
n = 0
for i in range(10000):
    kind = ("lb_algo mh\n jet", "lb_algo rr\n lb_kind NAT", "lb_algo mh")[i % 3]
    print(f"virtual_server 10.{1 + i // 50000}.{i // 250}.{1 + i % 250} 80 {{\n name s{i}\n {kind}\n NO_CHECK")
    for _ in range(1000 if i == 0 else 2 if i < 2000 else 0):
        print(f" real_server 10.200.{n // 250}.{1 + n % 250} 80 {{\n }}")
        n += 1
    print("}")
EOP
"$GPUWIRE" balance check "$conf" | grep -q '10000 services, 4998 workers' || fail "check: $("$GPUWIRE" balance check "$conf")"
"$GPUWIRE" balance --config "$conf" >"$work/many.out" 2>&1 &
balancer=$!
pids+=($balancer)
wait_for "$work/many.out" 'API on' $balancer || fail "not ready: $(cat "$work/many.out")"
api=127.0.0.1:$(sed -n 's/.*API on .* port \([0-9]*\).*/\1/p' "$work/many.out")
ask() { "$GPUWIRE" balance "$@" --api "$api"; }
here() { ask list --json | jq -r ".services[] | select(.name == \"$1\") | .workers[] | select(.address == \"$2\") | $3"; }

ask drain s0 10.200.0.5 >/dev/null || fail "drain"
ask weight 10.1.0.1:80/tcp 10.200.0.6 9 >/dev/null || fail "weight, by the service's address"
ask add s9999 10.201.0.1 >/dev/null || fail "add a worker"
ask add 10.99.0.1:80/udp --name more >/dev/null || fail "add a service"
ask list --json >"$work/list.json" || fail "list"
[ "$(jq '.services | length' "$work/list.json")" = 10001 ] || fail "list shows $(jq '.services | length' "$work/list.json") services"
[ "$(jq '[.services[].workers[]] | length' "$work/list.json")" = 4999 ] || fail "list does not show all workers"
[ "$(jq '[.services[].workers[] | select(.drain)] | length' "$work/list.json")" = 1 ] || fail "list does not show the drain"
[ "$(jq '[.services[].workers[] | select(.weight == 9)] | length' "$work/list.json")" = 1 ] || fail "list does not show the weight"
[ "$(ask top --once --interval 50 | grep -c ' up ')" -ge 4990 ] || fail "top"
ask save | grep -c real_server | grep -q 4999 || fail "save"
ask reload >/dev/null || fail "reload"
ask remove more >/dev/null || fail "remove"
# Several changes, one after the other.
seq 91 100 | while read -r i; do
    curl -s -o "$work/patch.out" -w '%{http_code}\n' -X PATCH -H 'Content-Type: application/json' -d "{\"weight\": $i}" "http://$api/v1/services/s0/workers/10.200.0.7-80"
done | sort | uniq -c >"$work/patches"
grep -q "10 200" "$work/patches" || fail "changes: $(cat "$work/patches" "$work/patch.out")"
kill -KILL $balancer
wait $balancer 2>/dev/null
"$GPUWIRE" balance --config "$conf" >"$work/again.out" 2>&1 &
balancer=$!
pids+=($balancer)
wait_for "$work/again.out" 'API on' $balancer || fail "not ready again: $(cat "$work/again.out")"
api=127.0.0.1:$(sed -n 's/.*API on .* port \([0-9]*\).*/\1/p' "$work/again.out")
[ "$(here s0 10.200.0.5 .drain)" = true ] && [ "$(here s0 10.200.0.7 .weight)" = 100 ] || fail "a start forgets changes"
kill -TERM $balancer
wait $balancer || fail "it ended with $?"
echo "10,000 services and 4,999 workers"
