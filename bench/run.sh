#!/usr/bin/env bash
# Every benchmark that needs no GPU, one after the other, with the machine they ran on. bench/run.sh BUILD
set -euo pipefail
cd "$(dirname "$0")/.."
bin=${1:-build}/bin
[ -x "$bin/post_bench" ] || { echo "bench/run.sh: no build there: $bin/post_bench is missing (make tests builds in build; or name the folder)" >&2; exit 2; }
export GPUWIRE_NIC=${GPUWIRE_NIC:-addr=127.0.0.1,verbose=0}
echo "$(nproc) x $(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1), load $(cut -d' ' -f1 /proc/loadavg)"

part() { printf '\n## %s\n' "$*"; }
part "posting on a CPU thread, beside libmlx5"
"$bin/post_bench"
part "posting and polling on a CPU thread, beside libibverbs"
"$bin/verbs_bench" 2
part "the thread that posts for kernels, idle"
"$bin/proxy_bench"
part "sockets for kernels, beside rsockets"
bench/sockets.sh "${1:-build}"
part "the loop on CPU threads"
"$bin/loop_bench" --exec cpu
part "models on the CPU"
for model in superresolution identity; do "$bin/model_bench" "models/$model/1/model.onnx" --exec cpu; done
part "the software NIC's UDP wire between two processes"
"$bin/wire_bench" 127.0.0.1
part "copies between two processes of this host"
"$bin/copy_bench"
part "TCP for kernels through the proxy, beside the host's own sockets"
"$bin/tcp_bench"
part "a round trip of a request, one client with one slot (64 floats, then 200 KB each way)"
says=$(mktemp)
worker=
trap '[ -z "$worker" ] || kill "$worker" 2>/dev/null; rm -f "$says"' EXIT
round_trip() { # REPOSITORY MODEL REQUESTS
    "$bin/gpuwire" serve --models "$1" --model "$2" --exec cpu --port 0 >"$says" &
    worker=$!
    for _ in $(seq 100); do grep -q 'port' "$says" && break || sleep 0.1; done
    "$bin/gpuwire" load "$2" --server "127.0.0.1:$(sed -n 's/.*port \([0-9]*\).*/\1/p' "$says")" --slots 1 --requests "$3" --verify-echo
    kill "$worker"
    wait "$worker"
    worker=
}
round_trip tests/server/models echo 20000
round_trip models identity 5000
part "the balancer's data path on one core, from memory"
"$bin/balance_bench"
part "flow tables beside rte_hash"
"$bin/flow_bench"
if [ "$(id -u)" = 0 ]; then
    part "flow tables beside BPF's LRU map, which Katran has"
    "$bin/lru_bench" || true
    part "the balancer on DPDK's drivers, beside testpmd"
    bench/plane.py "${1:-build}"
    part "NAT in network namespaces, beside nftables"
    (bench/nat.sh "${1:-build}") || true
fi
part "the HTTP door beside nginx"
bench/http_door.sh "${1:-build}"
part "the software NIC beside UCX and iperf3"
bench/softnic.sh "${1:-build}"
