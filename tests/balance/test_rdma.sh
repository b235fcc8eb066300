#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# RDMA through the balancer: connections of rdma_cm over the software NIC, in network namespaces, by direct routing. The workers'
# NICs have the VIP.
. "$(dirname "$0")/../integration/lib.sh"
. "$(dirname "$0")/net.sh"
need rping jq
"$GPUWIRE" balance check /dev/null >/dev/null || fail "gpuwire has no balancer"
make_net 3 DR
export GPUWIRE_NIC=addr=$vip
for w in w1 w2 w3; do
    mkdir -p "$work/$w"
    XDG_RUNTIME_DIR=$work/$w at $w "${gpuwire[@]}" run -- rping -s -P -a "$vip" -p 7174 >"$work/$w.out" 2>&1 &
    pids+=($!)
done
config >"$work/balance.conf" <<EOC
virtual_server $vip 4791 {
    name rdma
    protocol roce
    lb_algo rr
    lb_kind DR
    real_server 10.77.0.21 4791 {
        name w1
    }
    real_server 10.77.0.22 4791 {
        name w2
    }
    real_server 10.77.0.23 4791 {
        name w3
    }
}
EOC
unset GPUWIRE_NIC
balance "$work/balance.conf"
# Each client has an address of its own. By direct routing the answers do not pass the balancer, so it takes what one address
# does within 10 s for one client's, and gives it to one worker.
for i in 1 2 3 4; do
    mkdir -p "$work/client$i"
    [ "$i" = 1 ] || ip -n "$id-client" addr add "10.77.1.$i/16" dev eth0
    GPUWIRE_NIC=addr=10.77.1.$i XDG_RUNTIME_DIR=$work/client$i at client timeout "$patience" "${gpuwire[@]}" run -- rping -c -a "$vip" -p 7174 -C 20 -v >"$work/client$i.out" 2>&1 ||
        fail "rping $i does not end well: $(ask list)"
done
# How many workers were given connections, and how many connections there were.
spread() { ask list --json | jq -c '[.services[0].workers[].flows.opened] | [map(select(. > 0)) | length >= 2, add >= 4]'; }
spread_well() { [ "$(spread)" = '[true,true]' ]; }
eventually spread_well || fail "the connections are not spread: $(ask list)"
ask list
kill -TERM "$balancer"
wait "$balancer" || fail "the balancer ended with $?"
