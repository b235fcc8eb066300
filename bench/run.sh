#!/usr/bin/env bash
# Every benchmark that needs no GPU, one after the other, with the machine they ran on. bench/run.sh BUILD
set -euo pipefail
cd "$(dirname "$0")/.."
bin=${1:-build}/bin
export GPUWIRE_NIC=${GPUWIRE_NIC:-addr=127.0.0.1}
echo "$(nproc) x $(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1), load $(cut -d' ' -f1 /proc/loadavg)"

part() { printf '\n## %s\n' "$*"; }
part "posting and polling on a CPU thread, beside libibverbs"
"$bin/verbs_bench" 1
part "the loop on CPU threads"
"$bin/loop_bench" --exec cpu
part "models on the CPU"
for model in superresolution identity; do "$bin/model_bench" "models/$model/1/model.onnx" --exec cpu; done
part "the software NIC's UDP wire between two processes"
"$bin/wire_bench" 127.0.0.1
part "a round trip of a request, one client with one slot (64 floats, then 200 KB each way)"
"$bin/gpuwire" serve --models tests/serve/models --exec cpu --host 127.0.0.1 --port 0 > bench.out &
worker=$!
trap 'kill $worker 2>/dev/null; rm -f bench.out' EXIT
for _ in $(seq 100); do grep -q port bench.out && break || sleep 0.1; done
server=127.0.0.1:$(sed -n 's/.*port \([0-9]*\).*/\1/p' bench.out)
for model in echo; do "$bin/gpuwire" load "$model" --server "$server" --slots 1 --requests 20000 --verify-echo; done
kill $worker
wait $worker || true
"$bin/gpuwire" serve --models models --model identity --exec cpu --host 127.0.0.1 --port 0 > bench.out &
worker=$!
for _ in $(seq 100); do grep -q port bench.out && break || sleep 0.1; done
server=127.0.0.1:$(sed -n 's/.*port \([0-9]*\).*/\1/p' bench.out)
"$bin/gpuwire" load identity --server "$server" --slots 1 --requests 5000 --verify-echo
