# SPDX-License-Identifier: Apache-2.0
# A guest that runs, and programs at both ends. Sourced; needs $work (a folder), $guest (its kernel and initrd) and
# $GPUWIRE. Every step has a time limit.
set -u
export LC_ALL=C
pids=()
failures=0

say() { printf '%s %4d s  %s\n' "$mode" "$SECONDS" "$*"; }

fail() { # the suite goes on: one disagreement should not hide the next
    say "FAILED: $*" >&2
    failures=$((failures + 1))
}

wanted() { # NAME: is this step to be done?
    [[ $1 =~ ${STEPS:-.} ]]
}

show() { # FILE...: why
    local f
    for f in "$@"; do [ -s "$f" ] && { echo "--- ${f##*/}"; tail -n 12 "$f"; } >&2; done
}

# A TCP or UDP port that no program has, below the ephemeral range so that no program is given it by chance.
free_port() {
    local p hex
    while :; do
        p=$((20000 + (RANDOM << 4 ^ RANDOM ^ $$) % 12000))
        hex=$(printf ':%04X ' "$p")
        grep -qi "$hex" /proc/net/tcp /proc/net/tcp6 /proc/net/udp /proc/net/udp6 2>/dev/null || { echo "$p"; return; }
    done
}

# Two network cards: eth0, which speaks RoCE, is the link under test; eth1 is for orders and for what programs tell each
# other by TCP, by QEMU's own NAT (which could not carry RoCE: it rewrites IP headers, and the ICRC covers those).
start_guest() { # NETDEV OPTIONS of eth0; COMMAND... that QEMU is to be run by
    local netdev=$1
    shift
    local accel=tcg cpu=max i
    # Some hosts have the device but cannot run a guest with it.
    [ -w /dev/kvm ] && grep -qE '^flags.* (vmx|svm)( |$)' /proc/cpuinfo && accel=kvm:tcg
    agent=$(free_port) inside=$(free_port)
    "$@" qemu-system-x86_64 -accel "$accel" -cpu $cpu -m "${guest_memory:-384}" -nographic -nodefaults -no-reboot -serial "file:$work/console" \
        -kernel "$guest/vmlinuz" -initrd "$guest/initrd" \
        -append "console=ttyS0 panic=-1 quiet gw.ip=$guest_ip/24 gw.ip6=$guest_ip6/64 gw.mtu=1500" \
        -netdev "$netdev" -device virtio-net-pci,netdev=link,mac=52:54:00:00:77:02,romfile=,host_mtu=9000 \
        -netdev "user,id=orders,ipv6=off,hostfwd=tcp:127.0.0.1:$agent-:2000,hostfwd=tcp:127.0.0.1:$inside-:$guest_port" \
        -device virtio-net-pci,netdev=orders,romfile= \
        -object "filter-dump,id=dump,netdev=link,file=$work/link.pcap,maxlen=65536" >"$work/qemu.log" 2>&1 &
    qemu=$!
    pids+=("$qemu")
    for ((i = 0; i < 900; i++)); do
        grep -qs 'init: ready' "$work/console" && guest 5 true 2>/dev/null && return 0
        kill -0 "$qemu" 2>/dev/null || break
        sleep 0.2
    done
    say "the guest does not come up" >&2
    show "$work/qemu.log" "$work/console"
    return 1
}

# guest SECONDS COMMAND: runs it there; prints what it prints, returns as it does. 124: it took too long.
guest() {
    local fd line last=
    exec {fd}<>"/dev/tcp/127.0.0.1/$agent" || return 125
    printf 'timeout %d sh -c %q\n' "$1" "$2" >&"$fd"
    while IFS= read -r -t $(($1 + 10)) -u "$fd" line; do
        case $line in
        rc=*) last=${line#rc=} ;;
        *) printf '%s\n' "$line" ;;
        esac
    done
    exec {fd}>&-
    return "${last:-124}"
}

# softnic SECONDS PROGRAM ARGS...: on the software NIC, in place of this (sub)shell, so that its number is the program's.
# $nic are its settings, $more those of one step.
softnic() {
    local seconds=$1
    shift
    GPUWIRE_NIC=$nic${more:+,$more} exec timeout --foreground -k 2 "$seconds" "$GPUWIRE" run -- "$@"
}

listens() { # FILE PORT: a line of /proc/net/tcp as shell test
    printf "grep -qs ':%04X [0-9A-F]*:0000 0A' /proc/net/tcp /proc/net/tcp6" "$1"
}

# wait_for SECONDS COMMAND: until it succeeds, here.
wait_for() {
    local i
    for ((i = 0; i < $1 * 20; i++)); do
        eval "$2" && return 0
        sleep 0.05
    done
    return 1
}

# server_there NAME "GUEST COMMAND" "SOFTNIC COMMAND": a server in the guest, a client on the software NIC. In the
# commands PORT stands for the TCP port and HOST for where the server is.
server_there() {
    wanted "$1" || return 0
    local name=$1 there=${2//PORT/$guest_port} here=${3//PORT/$inside} rc server
    guest "$limit" "$there" >"$work/$name.guest" 2>&1 &
    server=$!
    if ! guest 10 "until $(listens "$guest_port"); do usleep 20000; done" >/dev/null; then
        rc=125
    else
        # shellcheck disable=SC2086
        (softnic "$limit" ${here//HOST/127.0.0.1}) >"$work/$name.softnic" 2>&1
        rc=$?
    fi
    [ $rc = 0 ] || guest 5 "killall ${there%% *}" >/dev/null
    wait "$server"
    judge "$name" "$rc" $?
}

# client_there NAME "GUEST COMMAND" "SOFTNIC COMMAND": the other way round.
client_there() {
    wanted "$1" || return 0
    local name=$1 port rc server
    port=$(free_port)
    local there=${2//PORT/$port} here=${3//PORT/$port}
    # shellcheck disable=SC2086
    softnic "$limit" $here >"$work/$name.softnic" 2>&1 &
    server=$!
    pids+=("$server")
    if wait_for 20 "$(listens "$port")"; then
        guest "$limit" "${there//HOST/10.0.2.2}" >"$work/$name.guest" 2>&1
        rc=$?
    else
        rc=125
    fi
    [ $rc = 0 ] || kill "$server" 2>/dev/null
    wait "$server"
    judge "$name" $? "$rc"
}

# What the software NICs' counters say, once a second, into a file.
watch_nics() { # FILE
    while sleep 1; do "$GPUWIRE" nic --json >>"$1" 2>/dev/null; done
}

judge() { # NAME RC_HERE RC_THERE
    if [ "$2" = 0 ] && [ "$3" = 0 ]; then
        say "$1"
        return 0
    fi
    fail "$1: the software NIC's side ended with $2, the guest's with $3"
    show "$work/$1.softnic" "$work/$1.guest"
    return 1
}

# both NAME "GUEST COMMAND" "SOFTNIC COMMAND": in both directions. Clients get HOST appended.
both() {
    server_there "$1-to-guest" "$2 -p PORT" "$3 -p PORT HOST"
    client_there "$1-from-guest" "$2 -p PORT HOST" "$3 -p PORT"
}

stop_all() {
    local p
    for p in "${pids[@]}"; do kill -KILL "$p" 2>/dev/null; done
    wait 2>/dev/null
}
