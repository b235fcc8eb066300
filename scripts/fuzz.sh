#!/usr/bin/env bash
# scripts/fuzz.sh SECONDS: builds every fuzz target with clang, AddressSanitizer and UndefinedBehaviorSanitizer, and runs each
# for SECONDS, one per processor at a time. The corpus lives in memory. Exit 1 at any finding; the input that made it is kept in
# build-fuzz/findings/. scripts/fuzz.sh --build: builds them, and says only what fails.
set -euo pipefail
cd "$(dirname "$0")/.."

seconds=${1:-60}
build=${FUZZ_BUILD:-build-fuzz}
findings=$build/findings
if ! [[ $seconds =~ ^([1-9][0-9]*|--build)$ ]]; then
    echo "usage: scripts/fuzz.sh SECONDS|--build" >&2
    exit 2
fi
if ! command -v clang >/dev/null; then
    echo "gpuwire: fuzzing needs clang with its sanitizer runtimes: scripts/setup.sh --tests installs both" >&2
    exit 1
fi

log=$build/build.log
mkdir -p "$build"
# Optimising takes longer than a short run fuzzes. --build is for a short run.
optimise=-O0
[ "$seconds" = --build ] || [ "$seconds" -lt 5 ] || optimise=-O1
# fuzzer-no-link: every module tells the fuzzer which of its branches an input reached.
if ! { cmake -S . -B "$build" -G Ninja -DCMAKE_C_COMPILER=clang -DCMAKE_C_FLAGS=-fsanitize=fuzzer-no-link \
        -DCMAKE_C_FLAGS_RELWITHDEBINFO="$optimise -g1 -DNDEBUG" -DGW_FUZZ=ON -DGW_TESTS=OFF -DGW_TOOL=OFF -DGW_CUDA=OFF -DGW_SANITIZE=address,undefined && cmake --build "$build" --target fuzzers; } >"$log" 2>&1; then
    tail -n 30 "$log" >&2
    echo "gpuwire: the fuzz targets did not build; the whole log is in $log" >&2
    exit 1
fi
[ "$seconds" != --build ] || exit 0
mapfile -t targets < <(find "$build/bin" -maxdepth 1 -type f -name 'fuzz_*' -executable | sort)
if [ "${#targets[@]}" -eq 0 ]; then
    echo "gpuwire: no fuzz target in $build/bin" >&2
    exit 1
fi

rm -rf "$findings"
mkdir -p "$findings"
run_one() { # target, seconds, findings
    local name out
    name=$(basename "$1")
    out=$3/$name.log
    # libFuzzer ends by itself; the outer limit is for a target that hangs in a way it cannot see.
    if timeout -k 5 $(($2 + 60)) "$1" -max_total_time="$2" -max_len=8192 -len_control=10 -timeout=20 -rss_limit_mb=3072 \
        -artifact_prefix="$3/$name-" -print_final_stats=1 </dev/null >"$out" 2>&1; then
        printf '%-20s %12s inputs, no finding\n' "$name" "$(sed -n 's/^stat::number_of_executed_units: *//p' "$out")"
        rm -f "$out"
    else
        printf '%-20s FINDING:\n' "$name"
        grep -m 1 -A 25 -E '^==[0-9]+==|runtime error|SUMMARY' "$out" || tail -n 30 "$out"
        return 1
    fi
}
export -f run_one
echo "fuzzing ${#targets[@]} targets for $seconds s each"
if ! printf '%s\0' "${targets[@]}" | xargs -0 -P "$(nproc)" -I{} bash -c 'run_one "$@"' _ {} "$seconds" "$findings"; then
    echo "gpuwire: findings; inputs and logs are in $findings" >&2
    exit 1
fi
