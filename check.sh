#!/usr/bin/env bash
# Sets everything up on a bare machine, builds, and runs every test: unit, integration, simulation, short fuzzing.
set -euo pipefail
cd "$(dirname "$0")"
if [ $# -gt 0 ]; then
    echo "usage: ./check.sh (it takes no arguments; make test T=NAME runs one test)" >&2
    exit 2
fi

# The product needs no package of the tests: they are installed while it is built.
scripts/setup.sh
scripts/setup.sh --tests >build-setup.log 2>&1 &
setup=$!
# Built apart from what `make` builds: optimised less, which takes the compiler less time.
export BUILD=build-check
# Its invariants are checked, too.
flags=(-DGW_ASSERTS=ON -DCMAKE_{C,CXX}_FLAGS_RELWITHDEBINFO="'-O1 -g1 -DNDEBUG'" -DGW_TEST_FLAG=-Og)
# No kernel runs where there is no GPU, so one form of its code will do there. -G: nvcc does not optimise it.
nvidia-smi -L >/dev/null 2>&1 || flags+=(-DCMAKE_CUDA_ARCHITECTURES=75-virtual -DGW_TEST_CUDA_ARCHITECTURES=75-virtual
    -DGW_TAIL_CUDA_ARCHITECTURES=90-real "-DCMAKE_CUDA_FLAGS_RELWITHDEBINFO='-O0 -G -DNDEBUG'")
# 300 programs to link: gold takes half the time of ld. Libraries are as users get them.
! command -v ld.gold >/dev/null || flags+=(-DCMAKE_EXE_LINKER_FLAGS=-fuse-ld=gold)
export CMAKE_FLAGS="${flags[*]}"
failed=0
make --no-print-directory || failed=1
wait "$setup" || { cat build-setup.log; exit 1; }
[ $failed = 0 ] || exit 1
exec make --no-print-directory check
