#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# suite.sh tap|frames: softnic against Linux' soft-RoCE in a guest that runs for as long as this does.
#   tap     the guest's card is a tap interface of this network namespace; softnic is on UDP sockets, and the kernel
#           makes its headers. Run it in a namespace of its own.
#   frames  the guest's card is a UDP port that takes whole Ethernet frames; softnic makes them itself, ARP included.
here=${BASH_SOURCE[0]%/*}
mode=$1
guest_ip=10.77.0.2 guest_ip6=fd77::2 guest_port=2001 limit=40
. "$here/lib.sh"
trap stop_all EXIT
more=
trap 'exit 130' INT TERM

ip link set lo up 2>/dev/null # in a namespace of its own
case $mode in
tap)
    ip tuntap add tap0 mode tap && ip link set tap0 mtu 9000 txqueuelen 10000 up || exit 1
    ip addr add 10.77.0.1/24 dev tap0
    ip addr add fd77::1/64 dev tap0 nodad
    start_guest tap,id=link,ifname=tap0,script=no,downscript=no,vnet_hdr=off || exit 1
    v4=addr=10.77.0.1 v6=addr=fd77::1
    ;;
frames)
    ours=$(free_port) theirs=$(free_port)
    start_guest dgram,id=link,local.type=fd,local.str=9 "$here/with_socket.py" "$theirs" "$ours" || exit 1
    wire=wire=eth,bind=127.0.0.1:$ours,peer=127.0.0.1:$theirs
    v4=$wire,addr=10.77.0.1/24 v6=$wire,addr=fd77::1/64
    ;;
esac
watch_nics "$work/nics.json" &
pids+=($!)
say "the guest is up"

# GID index there: 1 IPv4, 2 IPv6. Here there is one.
pingpong() { # NAME PROGRAM GUEST_GID ARGS...
    local name=$1 program=$2 gid=$3
    shift 3
    both "$name" "$program -g $gid $*" "$program -g 0 $*"
}
perf() { # NAME PROGRAM ARGS...: as softnic does 16 READs and atomics at a time, rxe must not offer more
    local name=$1 program=$2
    shift 2
    both "$name" "$program -F -x 1 $*" "$program -F -x 0 $*"
}
# Every kind of request both ways at once, every byte checked, by the same program at both ends, at a rate that the guest
# follows and the link's buffers hold. The guest fences nothing: a fenced request that is repeated may silence rxe for good
# (docs/softnic-design.md says how).
traffic() { # NAME TYPES SECONDS GUEST_GID [MILLISECONDS of a round]
    local unkind=$more
    wanted "$1" || return 0
    more=tx.rate=40M${unkind:+,$unkind}
    limit=150 server_there "$1" "traffic --no-fences --gid-index $4 -p PORT" \
        "$TRAFFIC --types $2 --seconds $3 --round-ms ${5:-1000} --links 3 --seed ${SEED:-$RANDOM} -p PORT HOST"
    grep -q 'every byte right' "$work/$1.softnic" || fail "$1: it did not say that every byte is right"
    more=$unkind
}
# All that went over the link: nothing malformed, and every ICRC right, by the specification's words and zlib.
check_capture() {
    read -r packets wrong < <(python3 "$here/../integration/pcap_icrc.py" "$work/link.pcap")
    [ "${wrong:-1}" = 0 ] || fail "${wrong:-?} of ${packets:-?} ICRCs on the link are wrong"
    [ "${packets:-0}" -gt 10000 ] || [ -n "${STEPS:-}" ] || fail "only ${packets:-0} packets on the link"
    # What tshark makes of payloads, which it takes for the beginning of this or that protocol, does not count, nor that rxe
    # leaves the UDP checksum out over IPv6, as RoCEv2 may.
    tshark -r "$work/link.pcap" -c 40000 -o ip.check_checksum:TRUE -o udp.ignore_ipv6_zero_checksum:TRUE -Y 'udp.port == 4791 && (!infiniband ||
        (_ws.malformed || _ws.expert.severity >= 6291456) && frame.protocols matches "infiniband(:data)?$")' \
        >"$work/malformed" 2>"$work/tshark.log" || fail "tshark cannot read the capture: $(tail -n 1 "$work/tshark.log")"
    [ ! -s "$work/malformed" ] || { fail "tshark finds fault with $(wc -l <"$work/malformed") packets"; show "$work/malformed"; }
    say "$packets packets on the link, $wrong wrong ICRCs"
}
# What the software NICs counted while they were looked at: nothing of what came was damaged, or not RoCE.
check_counters() {
    local looks bad
    looks=$(grep -c '"drop_icrc"' "$work/nics.json")
    bad=$(grep -cE '"(drop_icrc|drop_malformed)": [1-9]' "$work/nics.json")
    [ "$bad" = 0 ] || fail "the software NIC counted wrong ICRCs or malformed packets, $bad times of $looks"
    [ "$looks" -gt 0 ] || [ -n "${STEPS:-}" ] || fail "no software NIC was seen at work"
    say "$looks looks at the software NICs' counters: no wrong ICRC"
}
set_mtu() { # there; here the tap's stays at 9000 and settings say it
    guest 10 "ip link set eth0 mtu $1" || fail "the guest does not take an MTU of $1"
}

# Kernels' own posting, on rxe by itself: a CPU thread posts for them (proxy-post). Nothing goes over the link.
if [ $mode = frames ]; then
    for test in loopback errors faults; do
        wanted verbs-$test || continue
        guest 150 "GPUWIRE_DEVICE=rxe0 test_verbs_$test --lanes 1" >"$work/verbs-$test.guest" 2>&1 ||
            { fail "verbs-$test on rxe"; show "$work/verbs-$test.guest"; }
        say "verbs-$test: $(grep -c ' OK ' "$work/verbs-$test.guest") tests passed on rxe"
    done
fi

nic=$v4,mtu=1024
pingpong rc ibv_rc_pingpong 1 -c -n 300 -s 5000
pingpong rc-events ibv_rc_pingpong 1 -c -e -n 100
pingpong uc ibv_uc_pingpong 1 -c -n 200
pingpong ud ibv_ud_pingpong 1 -c -n 200 -s 1000
pingpong uc-odd ibv_uc_pingpong 1 -c -n 100 -s 4097
pingpong srq ibv_srq_pingpong 1 -c -n 100 -q 4
perf send-bw ib_send_bw -n 200 -s 16384
perf send-lat ib_send_lat -n 100 -s 64
perf write-bw ib_write_bw -n 200 -s 16384 -q 4
perf write-lat ib_write_lat -n 100
perf read-bw ib_read_bw -n 100 -s 16384 -o 16
perf read-lat ib_read_lat -n 100 -o 16
perf add-bw ib_atomic_bw -n 100 -o 16
perf swap-lat ib_atomic_lat -n 100 -A CMP_AND_SWAP -o 16
perf uc-write-bw ib_write_bw -c UC -n 100 -s 16384
perf ud-send-lat ib_send_lat -c UD -n 100 -s 1000
traffic traffic rc 3 1
traffic traffic-srq rc,srq 3 1
# One round: nothing slows datagrams down, and what waits at the link of one round is in the next one's way.
traffic traffic-unreliable uc,ud 3 1 3000

nic=$v6,mtu=1024
pingpong ipv6 ibv_rc_pingpong 2 -c -n 100 -s 5000
traffic traffic-ipv6 rc 2 2

set_mtu 9000
nic=$v4,mtu=4096
pingpong big-mtu ibv_rc_pingpong 1 -c -n 100 -s 30001 -m 4096
traffic traffic-big-mtu rc 2 1

# Loss both ways. A last acknowledgement may get lost too, and its sender be gone: perftest and pingpong tell each other
# by TCP when they end, so that is rare, and once more is enough.
more=loss=2%,dup=1%,reorder=2%,rx.loss=2%,rx.dup=1%,rx.reorder=2%
pingpong unkind ibv_rc_pingpong 1 -c -n 100 -s 5000 -m 4096
perf unkind-send-bw ib_send_bw -n 50 -s 16384
perf unkind-write-bw ib_write_bw -n 100 -s 16384
perf unkind-read-bw ib_read_bw -n 50 -s 16384 -o 16
perf unkind-add-bw ib_atomic_bw -n 50 -o 16
traffic unkind-traffic rc 3 1
more=

. "$here/rdma_cm.sh"

# Our own verbs on a NIC that is not ours: kernels' requests posted by libibverbs (proxy-post), connected by the kernel's
# rdma_cm, every byte looked at. Over one of the links, for the time that it takes.
if [ "$mode" = frames ] && wanted hwcheck; then
    if GUEST_AGENT=$agent GPUWIRE_DEVICE=softnic GPUWIRE_NIC=$nic timeout 150 "$GPUWIRE" hwcheck --quick \
        --ssh "$here/guest_ssh" --remote gpuwire --remote-dev rxe0 --address "$guest_ip" -o "$work/hwcheck.json" guest \
        >"$work/hwcheck.out" 2>&1; then
        say "hwcheck: $(grep 'checks passed' "$work/hwcheck.out")"
    else
        fail "hwcheck"
        show "$work/hwcheck.out"
    fi
fi

guest 10 'dmesg' >"$work/dmesg"
grep -i 'icrc' "$work/dmesg" >"$work/icrc.guest" && { fail "the guest complains of ICRCs"; show "$work/icrc.guest"; }
guest 10 'cd /sys/class/infiniband/rxe0/ports/1/hw_counters; grep . *' | tr '\n' ' '
echo
guest 5 'poweroff -f' >/dev/null
wait "$qemu"
check_capture
check_counters
[ $failures = 0 ] || { say "$failures failures"; exit 1; }
say "all went well"
