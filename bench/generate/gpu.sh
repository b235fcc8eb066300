#!/usr/bin/env bash
# Attention and steps of networks on a GPU, against the memory's bandwidth: one line for each measurement, as CSV.
#
#     bench/generate/gpu.sh [FOLDER OF THE PROGRAMS]     # build/bin, or a bundle's tests
#
# Columns: what, shape, …, ours, the limit of the same run, the ratio. Exit code 77: there is no GPU.
set -eu
bin=${1:-build/bin}
export CUDA_MODULE_LOADING=EAGER
for heads in "32 8 128" "16 8 64" "32 32 128" "64 8 128" "32 32 80" "16 8 256"; do
    read -r heads kv head <<<"$heads"
    "$bin/generate_attention_bench" --heads "$heads" --kv-heads "$kv" --head "$head"
done
for lanes in 1 8; do "$bin/generate_attention_bench" --lanes "$lanes" --tokens 16384; done
for shape in 0 1; do "$bin/generate_step_bench" --shape "$shape"; done
