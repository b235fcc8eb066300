# SPDX-License-Identifier: Apache-2.0
# A network for the balancer, of network namespaces: clients, the balancer and workers on one switch. Sourced after
# tests/integration/lib.sh; needs root. $id begins the names of the namespaces; they go when the script ends.
#
#   make_net WORKERS FORWARD   client 10.77.1.1, balancer 10.77.0.10, workers 10.77.0.21 …; the VIP is 10.77.0.100, and the
#                              same with fd77:: (client fd77:0:0:1::1). FORWARD: DR, TUN, GUE or NAT.
#   at NAME COMMAND...         runs it in client, lb, w1, w2, … with no wait for the end of what it starts
#   balance FILE               `gpuwire balance` there; sets $balancer and $api
#   ask WORD...                `gpuwire balance WORD...` of that balancer
#   watch NAME...              from now on each frame that the balancer sends these hosts is written down, up to 30 MB
#   watched LEAST              ends that. At least N frames came from the balancer, and all their checksums and ICRCs are right
[ "$(id -u)" = 0 ] || { echo "skipped: network namespaces with several hosts need root"; exit 77; }
need ip ethtool
id=gwb$$
vip=10.77.0.100 vip6=fd77::100
nets=()

drop_net() {
    local n p
    for n in "${nets[@]}"; do
        for p in $(ip netns pids "$n" 2>/dev/null); do kill -KILL "$p" 2>/dev/null; done
        ip netns del "$n" 2>/dev/null
    done
    nets=()
}
. "$(dirname "${BASH_SOURCE[0]}")/balancers.sh"
trap 'drop_net; clean_up' EXIT

at() {
    local n=$1
    shift
    ip netns exec "$id-$n" "$@"
}

# host NAME ADDRESS ADDRESS6: a namespace with eth0 on the switch. veth leaves checksums to hardware that is not there.
host() {
    ip netns add "$id-$1" 2>/dev/null || { echo "skipped: no network namespaces here"; exit 77; }
    nets+=("$id-$1")
    ip -n "$id-$1" link set lo up
    ip -n "$id-$1" link add eth0 type veth peer name "$1" netns "$id-sw" || fail "no veth"
    ip -n "$id-sw" link set "$1" master br0 up
    at "$1" ethtool -K eth0 tx off tso off gso off gro off >/dev/null 2>&1
    ip netns exec "$id-sw" ethtool -K "$1" tx off tso off gso off gro off >/dev/null 2>&1
    ip -n "$id-$1" link set eth0 up
    ip -n "$id-$1" addr add "$2" dev eth0
    ip -n "$id-$1" addr add "$3" dev eth0 nodad
}

# A worker with DR or a tunnel has the VIP, and does not answer for it. With NAT its way back is through the balancer.
worker_net() {
    local n=w$1
    host "$n" "10.77.0.$((20 + $1))/24" "fd77::$((20 + $1))/64"
    if [ "$2" = NAT ]; then
        ip -n "$id-$n" route add 10.77.1.0/24 via 10.77.0.10
        ip -n "$id-$n" -6 route add fd77:0:0:1::/64 via fd77::10
        return
    fi
    at "$n" sysctl -qw net.ipv4.conf.all.arp_ignore=1 net.ipv4.conf.all.arp_announce=2 net.ipv4.conf.all.rp_filter=0
    ip -n "$id-$n" addr add "$vip/32" dev lo
    ip -n "$id-$n" addr add "$vip6/128" dev lo nodad
    ip -n "$id-$n" route add 10.77.1.0/24 dev eth0
    ip -n "$id-$n" -6 route add fd77:0:0:1::/64 dev eth0
}

make_net() {
    local i
    ip netns add "$id-sw" 2>/dev/null || { echo "skipped: no network namespaces here"; exit 77; }
    nets+=("$id-sw")
    ip -n "$id-sw" link add br0 type bridge
    ip -n "$id-sw" link set br0 up
    host lb 10.77.0.10/16 fd77::10/48
    host client 10.77.1.1/16 fd77:0:0:1::1/48
    for ((i = 1; i <= $1; i++)); do worker_net "$i" "$2"; done
}

# The part of the file that names the port; services follow on standard input. $cores: the processors that forward.
config() {
    cat <<EOC
global_defs {
    api 127.0.0.1 0
    run_dir $work/run-lb
    flows 65536
    wide_flows 65536
    ${cores:+cores $cores}
    timeouts {
        fin_wait 1
        close 1
    }
}
interface eth0 {
    address 10.77.0.10/16
    address fd77::10/48
}
EOC
    cat
}

balance() {
    rm -f "$work/balance.out"
    ip netns exec "$id-lb" "$GPUWIRE" balance --config "$@" >"$work/balance.out" 2>&1 & # not at: its pid is needed
    balancer=$!
    pids+=("$balancer")
    wait_for "$work/balance.out" 'API on' "$balancer" || fail "the balancer is not ready"
    api=127.0.0.1:$(sed -n 's/.*API on .* port \([0-9]*\).*/\1/p' "$work/balance.out")
}

ask() { at lb "$GPUWIRE" balance "$@" --api "$api"; }
# up_are SERVICE NUMBER: NUMBER workers are up.
up_are() { [ "$(ask list --json | jq "[.services[] | select(.name == \"$1\") | .workers[] | select(.state == \"up\")] | length")" = "$2" ]; }
# opened SERVICE WORKER: how many connections it was given.
worker_value() { ask list --json | jq ".services[] | select(.name == \"$1\") | .workers[] | select(.name == \"$2\") | $3"; }

watch() {
    local n mac
    watchers=()
    mac=$(at lb cat /sys/class/net/eth0/address)
    for n in "$@"; do
        ip netns exec "$id-$n" dumpcap -P -q -i eth0 -f "ether src $mac and (ip or ip6)" -a filesize:30000 -w "$work/$n.pcap" >"$work/$n.watch" 2>&1 &
        watchers+=($!)
        pids+=($!)
        wait_for "$work/$n.watch" 'File:' $! || fail "dumpcap: $(cat "$work/$n.watch")"
    done
    watched_hosts=("$@")
}

# Two who know nothing of the balancer look: tshark at checksums, and zlib at ICRCs.
watched() {
    local n frames packets wrong all=0
    sleep 0.5
    kill -TERM "${watchers[@]}" 2>/dev/null
    wait "${watchers[@]}" 2>/dev/null
    for n in "${watched_hosts[@]}"; do
        # Names, and what a connection's frames say of one another, are half of tshark's time, and nothing here.
        tshark -n -r "$work/$n.pcap" -o tcp.analyze_sequence_numbers:FALSE \
            -o tcp.desegment_tcp_streams:FALSE --disable-protocol http -o ip.defragment:FALSE -o ip.check_checksum:TRUE -o udp.check_checksum:TRUE -o tcp.check_checksum:TRUE \
            -o udp.ignore_ipv6_zero_checksum:TRUE -T fields -e frame.number -e ip.checksum.status -e tcp.checksum.status \
            -e udp.checksum.status -e icmp.checksum.status -e icmpv6.checksum.status -e _ws.malformed \
            -e tcp.checksum -e tcp.checksum_calculated >"$work/$n.seen" 2>/dev/null ||
            fail "tshark cannot read what $n got"
        frames=$(wc -l <"$work/$n.seen")
        # "Bad" is 0; a tunnel's frame has the status of both headers. Linux sends 0xffff for a TCP checksum of 0, which is the same
        # sum, and which tshark calls bad. What an ICMP error quotes is cut off, and says nothing of its checksum. At a
        # well-known port tshark expects that program's messages: only the headers must be well formed.
        awk -F '\t' '$8 == "0xffff" && $9 == "0x0000" { $3 = "" } $5 $6 != "" { $3 = $4 = "" } { for (i = 2; i <= 6; i++) if ("," $i "," ~ /,0,/ || $7 ~ /: (Ethernet|IPv4|IPv6|TCP|UDP|ICMP|ICMPv6|GRE|IB|InfiniBand)]/) { print; bad = 1 } } END { exit bad }' "$work/$n.seen" >"$work/bad.out" ||
            fail "$n: tshark finds fault with forwarded frames, first $(head -n 1 "$work/bad.out"): $(tshark -r "$work/$n.pcap" -Y "frame.number == $(head -n 1 "$work/bad.out" | cut -f1)" 2>/dev/null)"
        read -r packets wrong < <(python3 "$(dirname "$0")/../integration/pcap_icrc.py" "$work/$n.pcap")
        [ "$wrong" = 0 ] || fail "$n: $wrong of $packets ICRCs are wrong"
        all=$((all + frames))
        echo "$n got $frames frames from the balancer, $packets of them RoCE: all checksums and ICRCs are right"
        rm -f "$work/$n.pcap"
    done
    [ "$all" -ge "$1" ] || fail "only $all frames were forwarded"
}
