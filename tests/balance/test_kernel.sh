#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Beside the kernel. NAT works where net.ipv4.ip_forward is on, and what else the kernel forwards goes on. With `vrrp yes` two balancers
# share a link, and the one whose kernel has the VIP serves. Without nftables the data plane says what is missing.
. "$(dirname "$0")/../integration/lib.sh"
. "$(dirname "$0")/net.sh"
need python3 nft jq
"$GPUWIRE" balance check /dev/null >/dev/null || fail "gpuwire has no balancer"
make_net 2 NAT
at lb sysctl -qw net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1
cat >"$work/web.py" <<'EOC'
import http.server, socket, sys
class Six(http.server.ThreadingHTTPServer):
    address_family = socket.AF_INET6
class Say(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(sys.argv[1].encode())
    def log_message(self, *a):
        pass
Six(("::", int(sys.argv[2])), Say).serve_forever()
EOC
cat >"$work/ask.py" <<'EOC'
import sys, urllib.request
seen = set()
for i in range(20):
    for host in sys.argv[1:]:
        seen.add(urllib.request.urlopen("http://%s/" % host, timeout=2).read())
sys.exit(0 if len(seen) == 2 else "only %r answer" % seen)
EOC
for w in w1 w2; do
    at $w python3 "$work/web.py" $w 80 &
    pids+=($!)
    at $w python3 "$work/web.py" $w 81 & # no service, but the kernel's way leads there
    pids+=($!)
done
{
    for v in "$vip" "$vip6"; do
        p=10.77.0. && [ "$v" = "$vip6" ] && p=fd77::
        printf 'virtual_server %s 80 {\n lb_algo rr\n lb_kind NAT\n NO_CHECK\n real_server %s21 80 {\n }\n real_server %s22 80 {\n }\n}\n' "$v" "$p" "$p"
    done
} | config >"$work/balance.conf"

# Without nft
at lb unshare -m sh -c 'for n in /usr/sbin/nft /sbin/nft /usr/bin/nft; do [ -e $n ] && mount --bind /dev/null $n; done; exec timeout 60 "$@"' sh "$GPUWIRE" balance --config "$work/balance.conf" >"$work/bare.out" 2>&1 &&
    fail "the data plane starts though answers would go twice"
grep -q 'install nftables, or set net.ipv4.conf' "$work/bare.out" || fail "no line says what to do: $(cat "$work/bare.out")"

balance "$work/balance.conf"
asks() { at client python3 "$work/ask.py" "$vip" "[$vip6]" 2>"$work/ask.out"; }
eventually asks || fail "NAT beside ip_forward: $(tail -n 1 "$work/ask.out")"
for i in 1 2 3; do asks || fail "NAT beside ip_forward, try $i: $(tail -n 1 "$work/ask.out")"; done
# Other packets that the kernel forwards are its own: the client's to a port of a worker that no service has.
ip -n "$id-client" route add 10.77.0.21 via 10.77.0.10
at client python3 -c 'import urllib.request as u; u.urlopen("http://10.77.0.21:81/", timeout=5)' || fail "the kernel forwards nothing else any more"
ip -n "$id-client" route del 10.77.0.21
at lb nft list tables | grep -q gpuwire_balance || fail "there are no rules"
kill -TERM "$balancer"
wait "$balancer" || fail "the balancer ended with $?"
at lb nft list tables | grep -q gpuwire_balance && fail "the rules stay"
echo "NAT works beside ip_forward"

# Two balancers on the link, both configured; the VIP moves as keepalived would move it.
host lb2 10.77.0.11/16 fd77::11/48
sed -i 's/^global_defs {/&\n    vrrp yes/' "$work/balance.conf"
sed 's|run-lb|run-lb2|; s|10.77.0.10/|10.77.0.11/|; s|fd77::10/|fd77::11/|' "$work/balance.conf" >"$work/second.conf"
balance "$work/balance.conf"
ip netns exec "$id-lb2" "$GPUWIRE" balance --config "$work/second.conf" >"$work/second.out" 2>&1 &
second=$!
pids+=("$second")
wait_for "$work/second.out" 'API on' "$second" || fail "the second balancer is not ready: $(cat "$work/second.out")"
at client ip neigh flush dev eth0
once() { at client python3 -c "import urllib.request as u; u.urlopen('http://$vip/', timeout=2)" 2>/dev/null; }
once && fail "a host answers for the VIP, which no kernel has"

for n in lb lb2; do
    ip -n "$id-lb" addr del "$vip/32" dev eth0 2>/dev/null
    ip -n "$id-$n" addr add "$vip/32" dev eth0
    # NAT's workers answer by the balancer that serves.
    for w in w1 w2; do ip -n "$id-$w" route replace 10.77.1.0/24 via "$([ $n = lb ] && echo 10.77.0.10 || echo 10.77.0.11)"; done
    at client ip neigh flush dev eth0
    eventually once || fail "$n has the VIP, and does not serve"
    for i in 1 2 3 4 5; do once || fail "$n has the VIP, and serves only sometimes"; done
    at client ip neigh show "$vip" | grep -q "$(at $n cat /sys/class/net/eth0/address)" || fail "another one than $n answers ARP"
done
kill -TERM "$balancer" "$second"
wait "$balancer" "$second" || fail "a balancer ended with $?"
echo "VRRP decides which balancer serves"
