#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# What the software NIC captures is what tshark expects of RoCEv2, and every ICRC is right.
. "${0%/*}/lib.sh"
need ibv_rc_pingpong tshark python3

# check FILE: nothing malformed, all checksums and ICRCs right.
check() {
    tshark -r "$1" -o ip.check_checksum:TRUE -o udp.check_checksum:TRUE -T fields -e infiniband.bth.opcode -e _ws.expert.message \
        >"$work/dissected.out" 2>"$work/tshark.err" || fail "tshark cannot read $1: $(tail -n 1 "$work/tshark.err")"
    awk -F '\t' '$1 == "" || $2 != "" { print; bad = 1 } END { exit bad }' "$work/dissected.out" >"$work/bad.out" ||
        fail "tshark finds fault with $(wc -l <"$work/bad.out") packets, first: $(head -n 1 "$work/bad.out")"
    read -r packets wrong < <(python3 "${0%/*}/pcap_icrc.py" "$1")
    [ "$packets" = "$(wc -l <"$work/dissected.out")" ] || fail "$1: $packets packets, and another number by tshark"
    [ "$wrong" = "${2:-0}" ] || fail "$1: $wrong of $packets ICRCs are wrong, not ${2:-0}"
}
count() { # OPCODE: packets of it in the file checked last
    grep -c -E "^$1[[:space:]]*\$" "$work/dissected.out"
}
# capture NAME SERVER_NIC CLIENT_NIC PROGRAM...: the captures of a pair's processes, in $files
capture() {
    local name=$1 server=$2 client=$3
    shift 3
    mkdir "$work/$name"
    pair "$name" "$server,pcap=$work/$name/%p.pcapng" "$client,pcap=$work/$name/%p.pcapng" "$@"
    mapfile -t files < <(find "$work/$name" -name '*.pcapng' -printf '%T@ %p\n' | sort -rn | head -n 2 | cut -d' ' -f2)
    [ ${#files[@]} = 2 ] || fail "$name: ${#files[@]} captures of two processes"
}

# 40 messages of three packets each way; without loss nothing is sent twice. Messages are seen by both.
for where in "shared addr=$net.1 addr=$net.1" "apart addr=$net.1 addr=$net.2"; do
    set -- $where
    capture "$1" "$2" "$3" ibv_rc_pingpong -g 0 -c -n 40 -s 3000 -m 1024
    for f in "${files[@]}"; do
        check "$f"
        for opcode in 0 1 2; do
            n=$(count $opcode)
            # A machine that is busy may have let a packet be repeated for want of an answer.
            [ "$n" -ge 80 ] && [ "$n" -le 160 ] || fail "$1: $n packets of opcode $opcode, wanted 80"
        done
        [ "$(count 17)" -ge 2 ] || fail "$1: no acknowledgements"
    done
done

PAIR_TRIES=5 # see lib.sh: the captures are those of the last try
# What is damaged on the way is in the sender's file as it left, and damaged in it; nothing crashes on it.
capture lossy "addr=$net.1,loss=0.05,dup=0.05,reorder=0.05,seed=3" "addr=$net.2,loss=0.05,seed=4" \
    ibv_rc_pingpong -g 0 -c -n 40 -s 3000 -m 1024
for f in "${files[@]}"; do check "$f"; done

# One file, one process; it may be killed.
nic=addr=$net.3,pcap=$work/small.pcapng,pcap_max=64k
GPUWIRE_NIC=$nic timeout "$patience" "${gpuwire[@]}" run -- ibv_rc_pingpong -g 0 -p "$(free_port)" >"$work/alone.out" 2>&1 &
server=$!
pids+=("$server")
# The file is there while the process lives, and another one may not write to it.
while_lives "$server" test -s "$work/small.pcapng" || fail 'no capture of a process that waits'
GPUWIRE_NIC=$nic timeout "$patience" "${gpuwire[@]}" run -- ibv_rc_pingpong -g 0 -p "$(free_port)" >"$work/second.out" 2>&1 &&
    fail 'two processes captured to one file'
grep -q '%p in the name' "$work/second.out" || fail 'two processes captured to one file: not said'
kill -TERM "$server"
wait "$server"
check "$work/small.pcapng"
nothing_left
echo ok
