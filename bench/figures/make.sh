#!/usr/bin/env bash
# Figures 4 and 5 of "Toward GPU-centric Networking on Commodity Hardware", with softnic for the NIC: throughput, and the time
# of a post, against the payload, for posts from a GPU, by our code on a CPU thread, and by ibv_post_send. Writes
# throughput.csv and post.csv, and with gnuplot throughput.svg and post.svg.
#   bench/figures/make.sh [FOLDER-OF-THE-BENCHMARKS] [OUT]
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
bin=${1:-$here/../../build/bin} out=${2:-$here}
export GPUWIRE_NIC=${GPUWIRE_NIC:-addr=127.0.0.1,verbose=0} CUDA_MODULE_LOADING=EAGER
mkdir -p "$out"

# A part that this machine has no GPU for (exit code 77, or 1 from the one that needs nothing else) is left out.
part() { timeout 120 "$@" || echo "left out: $*" >&2; }
{
    echo "how,bytes,ns_per_post"
    [ ! -x "$bin/gpu_post_bench" ] || part "$bin/gpu_post_bench" --payload
    part "$bin/post_bench" --payload
} >"$out/post.csv"
{
    echo "how,bytes,gbit_per_second"
    part "$bin/nic_bench" stream --exec gpu
    part "$bin/nic_bench" stream --exec cpu --memory host
    part "$bin/verbs_bench" --stream
} >"$out/throughput.csv"
if command -v gnuplot >/dev/null; then
    gnuplot -e "folder='$out'" "$here/figures.gp"
fi
