#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Large packets: with `mtu 9000` they pass whole, also RoCE with a path MTU of 4096. The balancer raises its interface's MTU, and a
# driver that cannot take such packets is refused with a line.
. "$(dirname "$0")/../integration/lib.sh"
. "$(dirname "$0")/net.sh"
need python3 jq rping dumpcap
"$GPUWIRE" balance check /dev/null >/dev/null || fail "gpuwire has no balancer"
make_net 2 DR
ip -n "$id-sw" link set br0 mtu 9000
for n in client w1 w2; do
    ip -n "$id-$n" link set eth0 mtu 9000
    ip -n "$id-sw" link set $n mtu 9000
done
ip -n "$id-sw" link set lb mtu 9000
cat >"$work/echo.py" <<'EOC'
import socket, sys
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.bind((sys.argv[1], 7000))
while True:
    data, who = s.recvfrom(65536)
    s.sendto(b"%d" % len(data), who)
EOC
cat >"$work/ask.py" <<'EOC'
import socket, sys
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.setsockopt(socket.IPPROTO_IP, 10, 2)  # IP_MTU_DISCOVER: whole, or not at all
s.settimeout(2)
for n in (1400, 4200, 8972):
    s.sendto(bytes(n), (sys.argv[1], 7000))
    answer = s.recv(100)
    if answer != b"%d" % n:
        sys.exit("%d bytes became %r" % (n, answer))
EOC
for w in w1 w2; do
    at $w python3 "$work/echo.py" "$vip" &
    pids+=($!)
done
printf 'virtual_server %s 7000 {\n name udp\n protocol UDP\n lb_kind DR\n NO_CHECK\n real_server 10.77.0.21 7000 {\n }\n real_server 10.77.0.22 7000 {\n }\n}\nvirtual_server %s 4791 {\n name rdma\n protocol ROCE\n lb_kind DR\n NO_CHECK\n real_server 10.77.0.21 4791 {\n }\n}\n' "$vip" "$vip" |
    config | sed 's/^interface eth0 {/&\n    mtu 9000/' >"$work/jumbo.conf"
mkdir -p "$work/w1" "$work/client"
GPUWIRE_NIC=addr=$vip XDG_RUNTIME_DIR=$work/w1 at w1 "${gpuwire[@]}" run -- rping -s -P -a "$vip" -p 7174 >"$work/rping.out" 2>&1 &
pids+=($!)

# A driver whose buffers are pages
sed 's/^interface eth0 {/&\n    driver af_xdp/' "$work/jumbo.conf" >"$work/xdp.conf"
at lb timeout 60 "$GPUWIRE" balance --config "$work/xdp.conf" >"$work/xdp.out" 2>&1 && fail "af_xdp takes packets of 9000 bytes"
grep -q 'mtu\|DPDK does not open it' "$work/xdp.out" || fail "no line says why af_xdp does not do: $(cat "$work/xdp.out")"
ip -n "$id-lb" link set eth0 mtu 1500

balance "$work/jumbo.conf"
[ "$(at lb cat /sys/class/net/eth0/mtu)" = 9000 ] || fail "the interface's MTU is not raised"
asks() { at client python3 "$work/ask.py" "$vip"; }
eventually asks || fail "large datagrams do not pass: $(asks 2>&1)"
asks || fail "large datagrams do not pass"
echo "datagrams of 8972 bytes pass whole"

# One packet of a message of 20000 bytes is larger than 4000 bytes when it comes from the balancer.
mac=$(at lb cat /sys/class/net/eth0/address)
ip netns exec "$id-w1" timeout "$patience" dumpcap -P -q -i eth0 -c 1 -f "ether src $mac and udp port 4791 and greater 4000" -w "$work/roce.pcap" >"$work/dumpcap.out" 2>&1 &
watcher=$!
pids+=($!)
wait_for "$work/dumpcap.out" 'File:' $watcher || fail "dumpcap: $(cat "$work/dumpcap.out")"
GPUWIRE_NIC=addr=10.77.1.1 XDG_RUNTIME_DIR=$work/client at client timeout "$patience" "${gpuwire[@]}" run -- rping -c -a "$vip" -p 7174 -C 5 -S 20000 -v >"$work/client.out" 2>&1 ||
    fail "rping does not end well: $(tail -n 3 "$work/client.out")"
wait $watcher || fail "RoCE goes in small packets"
echo "RoCE passes with a path MTU of 4096"
kill -TERM "$balancer"
wait "$balancer" || fail "the balancer ended with $?"
