#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# NAT beside nftables' `dnat to jhash`, in network namespaces: a client, a balancer and two nginx workers on one switch.
# bench/nat.sh BUILD, as root. ROUNDS (5) of SECONDS (3) each; the two take turns. It prints requests a second over 50
# connections that stay, and connections a second with one request each. Every processor of this machine is shared by client,
# balancer and workers. CSV=FILE MACHINE=NAME appends finished rows to FILE.
cd "$(dirname "$0")/.." || exit 1
. bench/csv.sh
export GPUWIRE=${1:-build}/bin/gpuwire
[ -x "$GPUWIRE" ] || { echo "bench/nat.sh: no build there: $GPUWIRE is missing (make tests builds in build; or name the folder)" >&2; exit 2; }
set -- # tests/integration/lib.sh looks at the arguments
. tests/integration/lib.sh
. tests/balance/net.sh
need nginx wrk nft curl jq
rounds=${ROUNDS:-5} seconds=${SECONDS_EACH:-3}
make_net 2 NAT

for w in w1 w2; do
    mkdir -p "$work/$w"
    cat >"$work/$w/nginx.conf" <<END
daemon off; user root; pid $work/$w/pid; error_log $work/$w/error.log crit; worker_processes 1;
events { worker_connections 4096; }
http {
    access_log off; keepalive_requests 1000000000; client_body_temp_path $work/$w/a; proxy_temp_path $work/$w/b;
    fastcgi_temp_path $work/$w/c; uwsgi_temp_path $work/$w/d; scgi_temp_path $work/$w/e;
    server { listen 80 backlog=4096; location / { return 200 "$w\n"; } }
}
END
    at $w nginx -c "$work/$w/nginx.conf" >"$work/$w.out" 2>&1 &
    pids+=($!)
    at $w sysctl -qw net.core.somaxconn=4096
done
at client sysctl -qw net.ipv4.ip_local_port_range='1024 65535' net.ipv4.tcp_tw_reuse=1

cat >"$work/services" <<END
virtual_server $vip 80 {
    name web
    protocol TCP
    lb_algo mh
    lb_kind NAT
    delay_loop 1
    real_server 10.77.0.21 80 { name w1
    }
    real_server 10.77.0.22 80 { name w2
    }
}
END
config <"$work/services" | sed 's/flows 65536/flows 1000000/' >"$work/balance.conf"

start_ours() {
    balance "$work/balance.conf"
    eventually up_are web 2 || fail "the workers are not up"
}
stop_ours() {
    kill -TERM "$balancer"
    wait "$balancer" || fail "the balancer ended with $?"
}

# The kernel's: the VIP is the balancer's own address, and a hash of client and port chooses.
start_nft() {
    ip -n "$id-lb" addr add "$vip/32" dev eth0
    at lb sysctl -qw net.ipv4.ip_forward=1 net.ipv4.conf.all.send_redirects=0 net.ipv4.conf.eth0.send_redirects=0
    at lb nft -f - <<END || fail "nftables takes no dnat to jhash"
table ip balance {
    chain prerouting {
        type nat hook prerouting priority dstnat;
        ip daddr $vip tcp dport 80 dnat to jhash ip saddr . tcp sport mod 2 map { 0 : 10.77.0.21, 1 : 10.77.0.22 }
    }
}
END
    at lb sysctl -qw net.netfilter.nf_conntrack_max=2000000 2>/dev/null
}
stop_nft() {
    at lb nft delete table ip balance
    ip -n "$id-lb" addr del "$vip/32" dev eth0
    at lb sysctl -qw net.ipv4.ip_forward=0
}

# The rate of a wrk with these options, or an end where a connection failed.
rate() {
    at client wrk -t1 -c50 -d"$seconds" "$@" "http://$vip/" >"$work/wrk.out" 2>&1 || fail "wrk"
    grep -q 'Socket errors' "$work/wrk.out" && { grep 'Socket errors' "$work/wrk.out" >&2; }
    sed -n 's/Requests.sec: *//p' "$work/wrk.out"
}

measure() { # WHO: one round
    "start_$1"
    at client ip neigh flush all
    eventually at client curl -sf --max-time 5 "http://$vip/" >/dev/null || fail "$1: no answer"
    rate >>"$work/$1.requests"
    rate -H 'Connection: close' >>"$work/$1.connections"
    "stop_$1"
}

median() { sort -g "$1" | awk '{v[NR] = $1} END {print NR % 2 ? v[(NR + 1) / 2] : (v[NR / 2] + v[NR / 2 + 1]) / 2}'; }

for ((r = 0; r < rounds; r++)); do
    measure nft
    measure ours
done
for what in requests connections; do
    ours=$(median "$work/ours.$what") peer=$(median "$work/nft.$what")
    awk -v w="$what" -v o="$ours" -v p="$peer" 'BEGIN {printf "%s a second: ours %.0f, nftables %.0f: %.2fx\n", w, o, p, o / p}'
    csv_row "NAT in namespaces, $what a second : nftables dnat to jhash" "$ours" 1/s + "$peer" 1 "bench/nat.sh BUILD"
done
