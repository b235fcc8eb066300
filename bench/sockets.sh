#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Sockets for kernels, on CPU threads, beside rsockets (rstream of rdmacm-utils; rsock_bench) on the same software NIC, and
# beside themselves. One line for each comparison: ours, the other, the ratio, what is aimed at; medians of RUNS rounds
# (default 5), in each of which every program runs once. Buffers are 512 KiB, which is what rstream asks for.
#     bench/sockets.sh [BUILD]        RUNS=5 ONLY="text of a row" CSV=FILE MACHINE=NAME (see csv.sh)
set -uo pipefail
cd "$(dirname "$0")/.."
. bench/csv.sh
bin=${1:-build}/bin
[[ $bin = /* ]] || bin=$PWD/$bin
[ -x "$bin/sock_bench" ] || { echo "bench/sockets.sh: no build there: $bin/sock_bench is missing" >&2; exit 2; }
runs=${RUNS:-5} only=${ONLY:-}
port=$((20000 + RANDOM % 10000))
work=$(mktemp -d)
export XDG_RUNTIME_DIR=$work/run LC_ALL=C GPUWIRE_NIC=addr=127.0.0.1,verbose=0 RBUF=524288 WBUF=524288
mkdir -m 700 "$XDG_RUNTIME_DIR"
pids=()
trap '[ "${#pids[@]}" = 0 ] || kill -KILL "${pids[@]}" 2>/dev/null; rm -rf "$work"' EXIT

# both SERVER... :: CLIENT...: the client's last line.
both() {
    local server=()
    while [ "$1" != :: ]; do server+=("$1"); shift; done
    shift
    timeout -k 2 90 "${server[@]}" >"$work/server" 2>&1 &
    pids=($!)
    sleep 0.7
    timeout -k 2 90 "$@" 2>"$work/client" | tail -n 1
    kill "${pids[0]}" 2>/dev/null
    wait "${pids[0]}" 2>/dev/null
    pids=()
    port=$((port + 1))
}
ours() { # SIZE COUNT ITERATIONS COLUMN
    both "$bin/sock_bench" stream server 127.0.0.1 $port "${@:1:3}" :: "$bin/sock_bench" stream client 127.0.0.1 $port "${@:1:3}" |
        awk -v c="$4" '{ print $c }'
}
in_place() { IN_PLACE=1 ours "$@"; }
theirs() { # the same; rstream prints its figures in the last two columns
    local run=("$bin/gpuwire" run -- rstream -T b -S "$1" -C "$2" -I "$3" -p "$port")
    both "${run[@]}" :: "${run[@]}" -s 127.0.0.1 | awk -v c="$4" '{ print $(NF - 2 + c) }'
}
mixed() { # a kernel serves rstream
    both "$bin/sock_bench" stream server 127.0.0.1 $port "${@:1:3}" :: \
        "$bin/gpuwire" run -- rstream -T b -S "$1" -C "$2" -I "$3" -p $port -s 127.0.0.1 | awk -v c="$4" '{ print $(NF - 2 + c) }'
}
connects() { both "$bin/sock_bench" connect server 127.0.0.1 $port "$1" :: "$bin/sock_bench" connect client 127.0.0.1 $port "$1"; }
rconnects() {
    local run=("$bin/gpuwire" run -- "$bin/rsock_bench")
    both "${run[@]}" server 127.0.0.1 $port "$1" :: "${run[@]}" client 127.0.0.1 $port "$1"
}
many() { # CONNECTIONS, with a set's own buffers; enough sends that each connection has one at least
    local run=(env -u RBUF -u WBUF "$bin/sock_bench" many)
    both "${run[@]}" server 127.0.0.1 $port 262144 6144 "$1" :: "${run[@]}" client 127.0.0.1 $port 262144 6144 "$1"
}
put() { both "$bin/sock_bench" put server 127.0.0.1 $port "$1" 2000 :: "$bin/sock_bench" put client 127.0.0.1 $port "$1" 2000; }

# NAME COMMAND: what is measured in a round.
samples=(
    "bw64k ours 65536 1000 2 1" "rs_bw64k theirs 65536 1000 2 1" "mixed64k mixed 65536 1000 2 1"
    "bw256k ours 262144 250 2 1" "rs_bw256k theirs 262144 250 2 1" "mixed256k mixed 262144 250 2 1"
    "place64k in_place 65536 1000 2 1" "place256k in_place 262144 250 2 1"
    "lat ours 64 1 5000 2" "rs_lat theirs 64 1 5000 2" "mixedlat mixed 64 1 5000 2"
    "conns connects 300" "rs_conns rconnects 300"
    "many1 many 1" "many416 many 416" "many4096 many 4096"
    "put64k put 65536" "put256k put 262144"
)
# OURS OTHER UNIT AIM BETTER TEXT. BETTER: + more is better, - less is.
rows=(
    "bw64k     rs_bw64k  Gbit/s 1   + stream, 64 KiB, kernel to kernel : rstream to rstream"
    "mixed64k  rs_bw64k  Gbit/s 1   + stream, 64 KiB, rstream to kernel : rstream to rstream"
    "bw256k    rs_bw256k Gbit/s 1   + stream, 256 KiB, kernel to kernel : rstream to rstream"
    "mixed256k rs_bw256k Gbit/s 1   + stream, 256 KiB, rstream to kernel : rstream to rstream"
    "lat       rs_lat    us     1   - stream, 64 B, half a round trip, kernel to kernel : rstream to rstream"
    "mixedlat  rs_lat    us     1   - stream, 64 B, half a round trip, rstream to kernel : rstream to rstream"
    "conns     rs_conns  1/s    1   + connections, a byte there and back, one after the other : rsockets"
    "many416   many1     Gbit/s 0.9 + 416 connections, 256 KiB sends, all together : one connection"
    "many4096  many1     Gbit/s 0.9 + 4096 connections, 256 KiB sends, all together : one connection"
    "bw64k     put64k    Gbit/s 0.9 + stream, 64 KiB : WRITE, 64 KiB"
    "place64k  put64k    Gbit/s 0.9 + stream, 64 KiB, neither copied in nor out : WRITE, 64 KiB"
    "bw256k    put256k   Gbit/s 0.9 + stream, 256 KiB : WRITE, 256 KiB"
    "place256k put256k   Gbit/s 0.9 + stream, 256 KiB, neither copied in nor out : WRITE, 256 KiB"
)
median() { [ -s "$work/$1" ] && sort -g "$work/$1" | awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }'; }
wanted() { # SAMPLE: does a row that is asked for need it?
    local row
    for row in "${rows[@]}"; do [[ $row == *"$only"* && " $row " == *" $1 "* ]] && return 0; done
    return 1
}

echo "measured on: $(nproc) x $(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1), load $(cut -d' ' -f1 /proc/loadavg)" \
    "at the start; medians of $runs rounds; buffers of 512 KiB (128 KiB with 416 and 4096 connections and what they are compared with)"
for ((round = 0; round < runs; round++)); do
    for sample in "${samples[@]}"; do
        read -r name command <<<"$sample"
        wanted "$name" && $command >>"$work/$name"
    done
done
for row in "${rows[@]}"; do
    [[ $row == *"$only"* ]] || continue
    read -r a b unit aim better text <<<"$row"
    x=$(median "$a") y=$(median "$b")
    [ -n "$x" ] && [ -n "$y" ] || { echo "skipped: $text: no result (rstream comes with rdmacm-utils)"; continue; }
    awk -v o="$x" -v p="$y" -v unit="$unit" -v aim="$aim" -v better="$better" -v text="$text" 'BEGIN {
        won = better == "+" ? o / p >= aim : o / p <= aim
        printf "%10.3f %-7s %10.3f %8.2fx  %s  [aim %s %sx]%s\n", o, unit, p, o / p, text, better == "+" ? ">=" : "<=", aim, won ? "" : "  LOSES"
    }'
    csv_row "$text" "$x" "$unit" "$better" "$y" "$aim" "RUNS=$runs bench/sockets.sh"
done
exit 0
