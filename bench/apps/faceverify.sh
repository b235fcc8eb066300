#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# faceverify beside a server on all CPU cores and a CPU+CUDA server: the same clients and memcacheds, loopback TCP, servers in turn,
# medians of the rounds. The last row, `limit`, is the CPU server with nothing compared: what network, memcached and clients leave to
# any server on these processors. For each server: the most requests/s that it answers with a p99 of P99_US at most, and its p50 there.
#
#     bench/apps/faceverify.sh FOLDER [cpu|gpu]      FOLDER: a build folder or a bundle
#
# ROUNDS (3), SECONDS_EACH (1), P99_US (1000), CONNECTIONS (64), PIPELINE (2), CLIENTS: threads of the clients (a quarter of the
# processors), MEMCACHEDS (2) with STORE_THREADS (2) each, PROXIES: of ours. CSV=FILE MACHINE=NAME as csv.sh says. TUNE=0 takes
# PROXIES and WORKERS as they are; else each server gets the number of threads that serves it best. RDMA=1: a row more, our server
# with clients over RDMA (librdmacm's rsockets, on the software NIC where GPUWIRE_NIC names none).
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
folder=$(cd "${1:?a build folder or a bundle}" && pwd) exec=${2:-gpu}
# shellcheck source=bench/csv.sh
. "$here/../csv.sh"
rounds=${ROUNDS:-3} seconds=${SECONDS_EACH:-1} limit=${P99_US:-1000} cpus=$(nproc)
connections=${CONNECTIONS:-64} pipeline=${PIPELINE:-2}
clients=${CLIENTS:-$(((cpus + 3) / 4))} proxies=${PROXIES:-$(((cpus + 3) / 4))} workers=${WORKERS:-$cpus}
stores=${MEMCACHEDS:-2} store_threads=${STORE_THREADS:-2}
gpuwire=$folder/bin/gpuwire
memcached=$folder/bin/memcached
[ -x "$memcached" ] || memcached=$(command -v memcached) || { echo "faceverify.sh: memcached is not installed" >&2; exit 77; }
work=$(mktemp -d)
server='' list='' pids=()
rdma=${RDMA:+rdma}
trap 'kill ${server:+"$server"} "${pids[@]}" 2>/dev/null || true; wait 2>/dev/null; rm -rf "$work"' EXIT
export CUDA_MODULE_LOADING=EAGER
baseline() { # a baseline's program, in a build folder or in a bundle
    local p
    for p in "$folder/bin/$1" "$folder/tests/$1"; do [ ! -x "$p" ] || echo "$p"; done
}
cpu=$(baseline app_faceverify_cpu) none=$(baseline app_faceverify_limit) cuda=$(baseline app_faceverify_cuda)
[ "$exec" = gpu ] || cuda=

user=()
[ "$(id -u)" != 0 ] || user=(-u "$(id -un 65534 2>/dev/null || echo root)")
first=$((20000 + $$ % 10000))
for ((i = 0; i < stores; i++)); do
    "$memcached" -l 127.0.0.1 -p $((first + i)) -U 0 -m 256 -t "$store_threads" "${user[@]}" 2>>"$work/memcached" & pids+=($!)
    list+=${list:+,}127.0.0.1:$((first + i))
done
sleep 0.5
"$gpuwire" app faceverify enrol --memcached "$list" --drawn --persons 16

# begin ours|cpu|cuda: leaves the port in $port.
begin() {
    : >"$work/said"
    port=$((first + 100))
    case $1 in
    ours) "$gpuwire" app faceverify serve --exec "$exec" -m "$list" -l 127.0.0.1:0 --proxies "$proxies" >"$work/said" 2>"$work/err" & ;;
    rdma) GPUWIRE_DEVICE=softnic "$gpuwire" app faceverify serve --exec "$exec" -m "$list" -l 127.0.0.1:0 --rdma --proxies "$([ "$exec" = gpu ] && echo "$proxies" || echo 1)" >"$work/said" 2>"$work/err" & ;;
    cpu) "$cpu" "$list" "$port" "$workers" >"$work/said" 2>"$work/err" & ;;
    limit) "$none" "$list" "$port" "$workers" >"$work/said" 2>"$work/err" & ;;
    cuda) "$cuda" "$list" "$port" "$workers" >"$work/said" 2>"$work/err" & ;;
    esac
    server=$! check=()
    [ "$1" != limit ] || check=(--no-check)
    client=("$gpuwire") wire=()
    [ "$1" != rdma ] || client=("$gpuwire" run -- "$gpuwire") wire=(--rdma)
    for _ in {1..300}; do
        grep -q listening "$work/said" && break
        kill -0 "$server" 2>/dev/null || { echo "faceverify.sh: $1 does not start: $(cat "$work/err")" >&2; exit 1; }
        sleep 0.1
    done
    [[ $1 != ours && $1 != rdma ]] || port=$(sed -n 's/.* port \([0-9]*\),.*/\1/p' "$work/said")
    sleep 0.5 # its connections to memcached
}

stop() {
    kill -TERM "$server" 2>/dev/null || true
    wait "$server" 2>/dev/null || true
    server=''
}

# load RATE: "requests/s p50 p99 bad", times in us.
load() {
    timeout 60 "${client[@]}" app faceverify load "127.0.0.1:$port" "${wire[@]}" --connections "$connections" --pipeline "$pipeline" --rate "$1" \
        --seconds "$seconds" --warm 0.3 --threads "$clients" --persons 16 "${check[@]}" --tolerate --json >"$work/json" 2>"$work/load.err" || true
    # Where more than one in a hundred requests was due and never sent, the rate is too high.
    sed -n 's/.*"requests_per_s": \([0-9.]*\).*"unavailable": \([0-9]*\).*"wrong": \([0-9]*\).*"gone": \([0-9]*\), "lost": \([0-9]*\), "behind": \([0-9]*\).*"us": {[^}]*"p50": \([0-9.]*\)[^}]*"p99": \([0-9.]*\).*/\1 \7 \8 \2 \3 \4 \5 \6/p' "$work/json" |
        awk -v s="$seconds" '{ print $1, $2, ($8 > $1 * s / 100 ? 1e9 : $3), $4 + $5 + $6 + $7 }'
}

# fastest: the highest rate within the limit: "requests/s p50 p99 most", by bisection below what it does at most.
fastest() {
    local most low=0 high got best="0 0 0" i
    read -r most _ < <(load max)
    high=$(awk "BEGIN { print ${most:-0} * 1.05 }")
    for ((i = 0; i < 6; i++)); do
        rate=$(awk "BEGIN { print ($low + $high) / 2 }")
        got=$(load "$rate")
        if [ -n "$got" ] && awk -v limit="$limit" '{ exit !($3 <= limit && $4 == 0) }' <<<"$got"; then
            low=$rate best=${got% *}
        else
            high=$rate
        fi
    done
    echo "$best ${most:-0}"
}

median() { sort -g | awk '{ v[NR] = $1 } END { print NR % 2 ? v[(NR + 1) / 2] : (v[NR / 2] + v[NR / 2 + 1]) / 2 }'; }

# best VARIABLE SERVER VALUE...: leaves the value with which the server answers most.
best() {
    local name=$1 which=$2 most=0 winner=$3 value rate
    shift 2
    for value; do
        [ "$value" -le "$cpus" ] || continue
        printf -v "$name" %s "$value"
        begin "$which"
        read -r rate _ < <(load max) || rate=0
        stop
        printf 'tuning: %s %s=%s: %s requests/s\n' "$which" "$name" "$value" "${rate:-0}"
        if awk "BEGIN { exit !(${rate:-0} > $most) }"; then most=$rate winner=$value; fi
    done
    printf -v "$name" %s "$winner"
}

cpu_workers=$workers cuda_workers=$workers
if [ "${TUNE:-1}" = 1 ] && [ "$exec" = gpu ]; then
    best proxies ours 2 4 6 8
    [ -z "$cpu" ] || { best workers cpu 4 8 12 16; cpu_workers=$workers; }
    [ -z "$cuda" ] || { best workers cuda 4 8 12 16; cuda_workers=$workers; }
fi
echo "faceverify: proxies=$proxies of ours; threads=$cpu_workers of CPU, $cuda_workers of CPU+CUDA; $clients threads of clients;" \
    "$stores memcacheds with $store_threads threads; $connections connections, pipeline $pipeline; $cpus processors"

for ((round = 1; round <= rounds; round++)); do
    for which in ours $rdma ${cpu:+cpu} ${cuda:+cuda} ${none:+limit}; do
        workers=$cpu_workers
        [ "$which" != cuda ] || workers=$cuda_workers
        begin "$which"
        fastest >>"$work/$which"
        stop
    done
done

printf '%-6s  %22s  %8s  %8s  %12s  %s\n' server "requests/s, p99 <= $limit us" "p50 us" "p99 us" "requests/s" "ours is"
ours=$(cut -d' ' -f1 "$work/ours" | median)
for which in ours $rdma ${cpu:+cpu} ${cuda:+cuda} ${none:+limit}; do
    file=$work/$which
    rate=$(cut -d' ' -f1 "$file" | median)
    printf '%-6s  %22.0f  %8.0f  %8.0f  %12.0f  %s\n' "$which" "$rate" "$(cut -d' ' -f2 "$file" | median)" \
        "$(cut -d' ' -f3 "$file" | median)" "$(cut -d' ' -f4 "$file" | median)" \
        "$(awk "BEGIN { if ($rate > 0) printf \"%.2f x\", $ours / $rate }")"
    [ "$which" != cpu ] || csv_row "faces at p99 $limit us : CPU, $cpu_workers threads" "$ours" requests/s + "$rate" 10 bench/apps/faceverify.sh
    [ "$which" != cuda ] || csv_row "faces at p99 $limit us : CPU+CUDA, $cuda_workers threads" "$ours" requests/s + "$rate" 2 bench/apps/faceverify.sh
done
