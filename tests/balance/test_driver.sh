#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The balancer on another of DPDK's drivers for interfaces: test_driver.sh tap|af_xdp. Redis through it answers, on both
# workers.
. "$(dirname "$0")/../integration/lib.sh"
. "$(dirname "$0")/net.sh"
need redis-server redis-cli jq
"$GPUWIRE" balance check /dev/null >/dev/null || fail "gpuwire has no balancer"
driver=$1
make_net 2 DR
for w in w1 w2; do
    at $w redis-server --port 6379 --bind '*' '-::*' --protected-mode no --save '' --dir "$work" >"$work/$w.out" 2>&1 &
    pids+=($!)
done
interface=eth0
[ "$driver" = af_xdp ] || interface=gwtap
{
    printf 'virtual_server %s 6379 {\n name redis\n lb_algo rr\n lb_kind DR\n NO_CHECK\n' "$vip"
    for w in 1 2; do printf ' real_server 10.77.0.2%s 6379 { name w%s\n }\n' "$w" "$w"; done
    printf '}\n'
} | config | sed "s/^interface eth0 {/interface $interface {\n    driver $driver/" >"$work/balance.conf"
ip netns exec "$id-lb" "$GPUWIRE" balance --config "$work/balance.conf" >"$work/balance.out" 2>&1 &
balancer=$!
pids+=("$balancer")
wait_for "$work/balance.out" 'API on' "$balancer" || {
    grep 'DPDK does not open it\|queues do not start' "$work/balance.out" && { echo "skipped: no such driver, or the kernel cannot"; exit 77; }
    fail "the balancer is not ready"
}
if [ "$driver" = tap ]; then
    # The driver's interface is the other end of its link: it becomes the switch's port, with an address of its own.
    ip -n "$id-sw" link set lb down
    ip -n "$id-lb" link set gwtap netns "$id-sw" || fail "the driver has made no interface"
    ip -n "$id-sw" link set gwtap address 02:00:00:00:00:99
    ip -n "$id-sw" link set gwtap master br0 up
fi
answers() { at client timeout 5 redis-cli -h "$vip" PING >/dev/null 2>&1; }
eventually answers || fail "no answer through $driver"
for _ in 1 2 3 4 5 6; do at client redis-cli -h "$vip" INCR n >/dev/null || fail "no answer through $driver"; done
for w in w1 w2; do [ "$(at $w redis-cli GET n)" = 3 ] || fail "$w was not asked three times"; done
kill -TERM "$balancer"
wait "$balancer" || fail "the balancer ended with $?"
echo "$driver: both workers answer"
