#!/usr/bin/env bash
# The benchmarks that need an NVIDIA GPU. Runs from a bundle (`make bundle`), with no network and nothing installed.
# Exit code 0 when all ran and found their own results right; rows that miss a target say so and fail nothing.
set -eu
cd "$(dirname "$0")"
if [ ! -e tests/gpu_post_bench ]; then
    echo "gpuwire: this runs from a bundle: \`make gpu-bench\` makes one, and runs it there" >&2
    exit 2
fi
export CUDA_MODULE_LOADING=EAGER
timeout --kill-after=5 300 tests/gpu_post_bench "$@"
timeout --kill-after=5 60 tests/test_gpu_ipc bench
echo
for poll in adaptive busy; do
    for memory in host device; do
        echo "the software NIC's thread: poll=$poll"
        GPUWIRE_NIC=${GPUWIRE_NIC:-addr=127.0.0.1},verbose=0,poll=$poll \
            timeout --kill-after=5 60 tests/nic_bench ping --memory "$memory"
    done
done
echo
echo "sockets of kernels, two NICs: ours, the other, the ratio, the aim; medians of 5 rounds"
nics='addr=127.0.0.1,verbose=0;addr=127.0.0.2,verbose=0'
for row in stream in_place latency "many 416" "many 4096" tcp_latency tcp_stream; do
    # shellcheck disable=SC2086 # a word and a number
    GPUWIRE_NIC=$nics timeout --kill-after=5 120 tests/gpu_sock_bench $row || echo "failed: $row"
done
bench/figures/make.sh tests bench/figures
cat bench/figures/post.csv bench/figures/throughput.csv
