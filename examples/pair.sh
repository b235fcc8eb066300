#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs the examples that are two programs, on the software NIC.
# pair.sh record|ibv|kernel|{echo,gpunet}{,_tcp}{,_to_cpu,_from_cpu} cpu|gpu [FOLDER OF THE PROGRAMS]
set -euo pipefail
what=$1 exec=$2 bin=${3:-$(dirname "$0")}
gpuwire=$bin/gpuwire
[ -x "$gpuwire" ] || gpuwire=$bin/../bin/gpuwire # in a bundle
work=$(mktemp -d)
export XDG_RUNTIME_DIR=$work/run GPUWIRE_DEVICE=softnic CUDA_MODULE_LOADING=EAGER
export GPUWIRE_NIC=addr=127.$((RANDOM % 200 + 20)).$((RANDOM % 250 + 1)).1 # an address that no other test has
host=${GPUWIRE_NIC#addr=} port=$((RANDOM % 20000 + 20000))
mkdir -m 700 "$XDG_RUNTIME_DIR"
first=
trap '[ -z "$first" ] || kill "$first" 2>/dev/null || true; rm -rf "$work"' EXIT

# pair PROGRAM ARGS…: one that waits, and one that asks it, as soon as it does.
pair() {
    pair_of "$*" "$*"
}

# pair_of "PROGRAM ARGS…" "PROGRAM ARGS…": the same of two programs.
pair_of() {
    timeout 60 $1 "$port" & first=$!
    for _ in {1..100}; do
        sleep 0.1
        if timeout 60 $2 "$port" "$host" 2>"$work/asks"; then
            wait "$first" && { first=; return 0; }
            return 1
        fi
        kill -0 "$first" 2>/dev/null || break
        grep -qiE 'refused|no program listens' "$work/asks" || break # it does not listen yet
    done
    cat "$work/asks" >&2
    return 1
}

# An ordinary sockets program over RDMA: librdmacm's preload library gives it rsockets.
over_rdma() {
    local preload
    preload=$(ldconfig -p | sed -n 's,.*=> \(.*\)/librdmacm.so.1$,\1/rsocket/librspreload.so,p' | head -1)
    [ -e "$preload" ] || { echo "skipped: librspreload.so is not installed"; exit 77; }
    cpu="$gpuwire run -- env LD_PRELOAD=$("$gpuwire" run -- sh -c 'echo "$LD_PRELOAD"'):$preload $bin/example_echo_cpu"
}

case $what in
record) # each one's output is the other's input
    mkfifo "$work/to" "$work/back"
    timeout 60 "$bin/example_record" >"$work/to" <"$work/back" & first=$! # opening waits for the other end: in its order
    timeout 60 "$bin/example_record" <"$work/to" >"$work/back"
    wait "$first"
    first= ;;
ibv) pair "$gpuwire" run -- "$bin/example_pingpong_ibv" ;;
kernel) pair "$bin/example_pingpong_kernel" "$exec" ;;
echo) pair "$bin/example_echo" "$exec" rdma ;;
echo_to_cpu) over_rdma; pair_of "$cpu" "$bin/example_echo $exec rdma" ;;
echo_from_cpu) over_rdma; pair_of "$bin/example_echo $exec rdma" "$cpu" ;;
echo_tcp) pair "$bin/example_echo" "$exec" tcp ;;
echo_tcp_to_cpu) pair_of "$bin/example_echo_cpu" "$bin/example_echo $exec tcp" ;;
echo_tcp_from_cpu) pair_of "$bin/example_echo $exec tcp" "$bin/example_echo_cpu" ;;
gpunet) pair_of "$bin/example_gpunet_server $exec rdma 4" "$bin/example_gpunet_client $exec rdma 4" ;;
gpunet_to_cpu) over_rdma; pair_of "$cpu" "$bin/example_gpunet_client $exec rdma 1" ;;
gpunet_from_cpu) over_rdma; pair_of "$bin/example_gpunet_server $exec rdma 1" "$cpu" ;;
gpunet_tcp) pair_of "$bin/example_gpunet_server $exec tcp 4" "$bin/example_gpunet_client $exec tcp 4" ;;
gpunet_tcp_to_cpu) pair_of "$bin/example_echo_cpu" "$bin/example_gpunet_client $exec tcp 1" ;;
gpunet_tcp_from_cpu) pair_of "$bin/example_gpunet_server $exec tcp 1" "$bin/example_echo_cpu" ;;
*) sed -n 4p "$0" >&2; exit 2 ;;
esac
