#!/usr/bin/env bash
# The benchmarks that need an NVIDIA GPU. Runs from a bundle (`make bundle`), with no network and nothing installed.
# Exit code 0 when all ran and found their own results right; rows that miss a target say so and fail nothing.
set -eu
cd "$(dirname "$0")"
export CUDA_MODULE_LOADING=EAGER
timeout --kill-after=5 300 tests/gpu_post_bench "$@"
