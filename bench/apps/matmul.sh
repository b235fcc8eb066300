#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The server of matrix products beside a CPU+CUDA server and a single-threaded BLAS server: the same clients, loopback TCP, servers
# in turn, medians of the rounds.
#
#     bench/apps/matmul.sh FOLDER [cpu|gpu]      FOLDER: a build folder or a bundle
#
# ROUNDS (3), SECONDS_EACH (0.7), CLIENTS: threads of the clients (half the processors), CSV=FILE MACHINE=NAME as csv.sh says.
# TUNE=0: takes PROXIES, BLOCKS and WORKERS as they are; else both GPU servers get the numbers of threads that serve them best.
# With RDMA=1 ours and the clients speak RDMA over the software NIC: the clients are sockets programs under librdmacm's preload
# library. That library has no epoll(7), so the CPU+CUDA server is not in that table.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
folder=$(cd "${1:?a build folder or a bundle}" && pwd) exec=${2:-gpu}
# shellcheck source=bench/csv.sh
. "$here/../csv.sh"
rounds=${ROUNDS:-3} seconds=${SECONDS_EACH:-0.7} cpus=$(nproc)
clients=${CLIENTS:-$((cpus > 1 ? cpus / 2 : 1))}
proxies=${PROXIES:-$(((cpus + 3) / 4))} workers=${WORKERS:-$(((cpus + 1) / 2))} blocks=${BLOCKS:-0} buffer=${BUFFER:-256}
gpuwire=$folder/bin/gpuwire
client=("$folder/libexec/gpuwire/gpuwire-app-matmul-client")
work=$(mktemp -d)
server=
trap '[ -z "$server" ] || kill "$server" 2>/dev/null || true; wait 2>/dev/null; rm -rf "$work"' EXIT
baseline() { # a baseline's program, in a build folder or in a bundle
    local p
    for p in "$folder/bin/$1" "$folder/tests/$1"; do [ ! -x "$p" ] || echo "$p"; done
}
cuda=$(baseline app_matmul_cuda) blas=$(baseline app_matmul_blas) run=()
[ "$exec" = gpu ] && [ "${RDMA:-0}" = 0 ] || cuda=

if [ "${RDMA:-0}" = 1 ]; then
    export XDG_RUNTIME_DIR=$work/run GPUWIRE_DEVICE=softnic GPUWIRE_NIC=addr=127.77.1.1
    mkdir -m 700 "$XDG_RUNTIME_DIR"
    preload=$folder/lib/librspreload.so
    [ -e "$preload" ] || preload=$(ldconfig -p | sed -n 's,.*=> \(.*\)/librdmacm.so.1$,\1/rsocket/librspreload.so,p' | head -1)
    run=("$gpuwire" run -- env "LD_PRELOAD=$("$gpuwire" run -- sh -c 'echo "$LD_PRELOAD"'):$preload")
    client=("${run[@]}" "${client[@]}")
fi
host=${GPUWIRE_NIC:-addr=127.0.0.1} host=${host#addr=}

# start COMMAND...: a server, whose port is $port then.
start() {
    : >"$work/said"
    "$@" >"$work/said" 2>"$work/err" & server=$!
    for _ in {1..300}; do
        port=$(sed -n 's/.* port \([0-9]*\):.*/\1/p' "$work/said")
        [ -z "$port" ] || return 0
        kill -0 "$server" 2>/dev/null || break
        sleep 0.1
    done
    echo "matmul.sh: it does not start: $*: $(cat "$work/err")" >&2
    exit 1
}

stop() {
    kill -TERM "$server"
    wait "$server" || true
    server=
    grep '^on average' "$work/said" || true
}

# begin ours|daemon|cuda|blas CONNECTIONS
begin() {
    local more=()
    [ "$blocks" = 0 ] || more+=(--blocks "$blocks")
    [ "$1" != daemon ] || more=(--design daemon)
    if [ "${RDMA:-0}" = 1 ]; then more+=(--rdma); else more+=(--proxies "$proxies"); fi
    case $1 in
    ours | daemon) start env CUDA_MODULE_LOADING=EAGER "$gpuwire" app matmul serve --exec "$exec" --listen "$host:0" --connections 512 --buffer "$buffer" "${more[@]}" ;;
    cuda) start "$cuda" "$host:0" "$workers" ;;
    blas) start "$blas" "$host:0" ;;
    esac
}

# load SIZE CONNECTIONS TYPE: prints the line that load --csv prints.
load() {
    timeout 60 "${client[@]}" "$host:$port" --size "$1" --connections "$2" --type "$3" --threads "$clients" --seconds "$seconds" --warm 0.3 \
        --verify 50 --csv || echo "$3,$1,$2,0,0,0,0,1,0,0,0"
}

median() { sort -g | awk '{ v[NR] = $1 } END { print NR % 2 ? v[(NR + 1) / 2] : (v[NR / 2] + v[NR / 2 + 1]) / 2 }'; }
rate_of() { cut -d, -f4; }

# best VARIABLE SERVER VALUE...: leaves the value with which the server does most 256 x 256, 26 connections.
best() {
    local name=$1 which=$2 most=0 winner=$3 value rate
    shift 2
    for value; do
        printf -v "$name" %s "$value"
        begin "$which"
        rate=$(load 256 26 fp32 | rate_of)
        stop
        printf 'tuning: %s %s=%s: %s requests/s\n' "$which" "$name" "$value" "$rate"
        if awk "BEGIN { exit !($rate > $most) }"; then most=$rate winner=$value; fi
    done
    printf -v "$name" %s "$winner"
}

if [ "${TUNE:-1}" = 1 ] && [ "$exec" = gpu ]; then
    if [ "${RDMA:-0}" = 1 ]; then
        best blocks ours 32 64
    else
        best proxies ours 2 4 6 8
        best buffer ours 64 256 512
        best blocks ours 32 0
        blocks=${BLOCKS:-0} # with more connections more blocks are better
    fi
    [ -z "$cuda" ] || best workers cuda 2 4 8 12
fi
echo "matmul: proxies=$proxies blocks=$blocks buffer=$buffer of ours; threads=$workers of CPU+CUDA; $clients threads of clients; $cpus processors"

if [ "$exec" = gpu ]; then
    rows=("256 26 fp32" "256 416 fp32" "64 26 fp32" "128 26 fp32" "512 26 fp32" "1024 26 fp32" "256 26 TF32" "256 26 fp16")
else
    rows=("64 4 fp32" "256 26 fp32" "128 416 fp32")
fi
servers=(ours daemon ${cuda:+cuda})
[ "${RDMA:-0}" = 1 ] || servers+=(${blas:+blas})
for ((round = 1; round <= rounds; round++)); do
    for which in "${servers[@]}"; do
        begin "$which"
        for row in "${rows[@]}"; do
            # The BLAS server is slow, and is compared in few rows.
            [ "$which" != blas ] || [[ $row = 256*fp32 ]] || [ "$exec" = cpu ] || continue
            # shellcheck disable=SC2086  # three words
            load $row >>"$work/$which.${row// /.}"
        done
        stop
    done
done

printf '%-18s  %-6s  %10s  %9s  %8s  %8s  %6s  %s\n' "size conns type" server requests/s GFLOP/s "p50 us" "p99 us" clients "ours is"
for row in "${rows[@]}"; do
    ours=$(cut -d, -f4 "$work/ours.${row// /.}" | median)
    for which in "${servers[@]}"; do
        file=$work/$which.${row// /.}
        [ -e "$file" ] || continue
        rate=$(cut -d, -f4 "$file" | median)
        printf '%-18s  %-6s  %10.0f  %9.1f  %8.0f  %8.0f  %6.1f  %s\n' "$row" "$which" "$rate" "$(cut -d, -f5 "$file" | median)" \
            "$(cut -d, -f6 "$file" | median)" "$(cut -d, -f7 "$file" | median)" "$(cut -d, -f11 "$file" | median)" \
            "$(awk "BEGIN { if ($rate > 0) printf \"%.2f x\", $ours / $rate }")"
        bad=$(awk -F, '{ n += $8 + $9 } END { print n }' "$file")
        [ "$bad" = 0 ] || echo "  $which: $bad failed connections or wrong answers"
        [ "$which" = ours ] || [ "$which" = daemon ] || {
            goal=-
            [ "$which/$row" != "cuda/256 26 fp32" ] || goal=1
            [ "$which/$row" != "cuda/256 416 fp32" ] || goal=1.5
            peer=$([ "$which" = cuda ] && echo "CPU+CUDA, $workers threads" || echo "BLAS, one thread")
            # shellcheck disable=SC2086  # three words
            set -- $row
            csv_row "products of $1 × $1, $3, $2 connections : $peer" "$ours" requests/s + "$rate" "$goal" bench/apps/matmul.sh
        }
    done
done
