#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# MapReduce's jobs beside the programs of apps/mapreduce/baseline: CPU threads on up to 16 processors, and CUB and cuBLAS on
# one GPU. One line for each comparison: ours, the other, the ratio, the goal. Seconds, medians of RUNS rounds (default 3), in
# each of which every program runs once; from the first read to the last write. `whole` has the start of the programs as well,
# which on a GPU is the driver's and the memory's for the most part.
#     bench/apps/mapreduce.sh [BUILD|BUNDLE]      EXEC=gpu|cpu RUNS=3 ONLY="text of a row"
# On a GPU the inputs are those of GPUnet's table: 600 MB of text, 500 MB of points and 500 clusters. On a CPU small ones.
set -uo pipefail
here=$(cd "$(dirname "$0")/../.." && pwd)
top=${1:-$here}
[ $# -gt 0 ] || [ -x "$top/bin/gpuwire" ] || top=$here/build
top=$(cd "$top" && pwd) || exit 2
tool=$top/bin/gpuwire cpu=$top/libexec/gpuwire/gpuwire-mapreduce-baseline gpu=$top/libexec/gpuwire/gpuwire-mapreduce-gpu
[ -x "$tool" ] && [ -x "$cpu" ] || { echo "bench/apps/mapreduce.sh: no build there: $tool or $cpu is missing" >&2; exit 2; }
gpus=$(nvidia-smi -L 2>/dev/null | grep -c '^GPU')
exec=${EXEC:-$([ "$gpus" -gt 0 ] && echo gpu || echo cpu)}
runs=${RUNS:-3} only=${ONLY:-}
threads=$(nproc)
[ "$threads" -le 16 ] || threads=16
if [ "$exec" = gpu ]; then
    text=600000000 records=600000000 points=500000000 matrix=1000000000 clusters=500 rounds=10
else
    text=20000000 records=20000000 points=4000000 matrix=20000000 clusters=50 rounds=3
fi
shm=/dev/shm
[ "$(df --output=avail -B1M $shm 2>/dev/null | tail -n 1)" -gt 8000 ] || shm=${TMPDIR:-/tmp}
work=$(mktemp -d "$shm/gpuwire-bench.XXXXXX")
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM
export XDG_RUNTIME_DIR=$work/run LC_ALL=C GPUWIRE_DEVICE=softnic GPUWIRE_NIC=${GPUWIRE_NIC:-addr=127.0.0.1,verbose=0}
mkdir -m 700 "$XDG_RUNTIME_DIR"
cd "$work" || exit 1

gen() { "$tool" app mapreduce gen "$@" || exit 1; }
gen text $text text &
gen records $records records &
gen points $points points --columns 32 --clusters $clusters &
gen matrix $matrix matrix --columns 4096 &
gen vector $((4096 * 4)) vector &
wait

ours() { # WORKERS JOB FILE [-- ARGUMENT...]: seconds, from the table
    local workers=$1
    shift
    rm -rf out
    timeout -k 2 120 "$tool" app mapreduce "$1" "$2" --exec "$exec" --workers "$workers" -o out "${@:3}" 2>error >/dev/null ||
        { echo "ours failed: $*: $(tail -n 3 error)" >&2; return; }
    awk 'seen { print $4; exit } $1 == "job" { seen = 1 }' error
}
threads() { # JOB FILE [OPTION...]
    timeout -k 2 300 "$cpu" "$@" --threads "$threads" --time --out other 2>error || echo "the baseline failed: $(cat error)" >&2
    sed -n 's/^seconds: //p' error
}
library() { # JOB FILE OUT [ARGUMENT...]
    LD_LIBRARY_PATH=${LD_LIBRARY_PATH:-}:/usr/local/cuda/lib64 timeout -k 2 120 "$gpu" "$@" 2>error >line ||
        echo "the library's program failed: $(cat error)" >&2
    sed -n 's/.*seconds: //p' line
}

# NAME | OURS | THE OTHER | GOAL | PARTS: the other is the baseline unless it is one of ours
rows=(
    "word count, CPU threads|ours 1 wordcount text|threads wordcount text|2"
    "k-means, CPU threads|ours 1 kmeans points -- $clusters $rounds|threads kmeans points --clusters $clusters --rounds $rounds|5"
    "sort, CPU threads|ours 1 sort records|threads sort records|"
    "index, CPU threads|ours 1 index text|threads index text|"
    "matrix-vector, CPU threads|ours 1 matvec matrix -- vector|threads matvec matrix --vector vector|"
)
if [ "$exec" = gpu ] && [ -x "$gpu" ]; then
    rows+=("sort, CUB|ours 1 sort records|library sort records other|"
        "k-means, cuBLAS|ours 1 kmeans points -- $clusters $rounds|library kmeans points other $clusters $rounds|")
fi
if [ "$exec" = cpu ] || [ "$gpus" -gt 1 ]; then
    rows+=("k-means, two against one|ours 2 kmeans points -- $clusters $rounds|ours 1 kmeans points -- $clusters $rounds|1.8"
        "word count, two against one|ours 2 wordcount text|ours 1 wordcount text|")
fi

median() { sort -g | awk '{ v[NR] = $1 } END { if (NR) print v[int((NR + 1) / 2)] }'; }
declare -A sample
measure() { # KEY COMMAND: one more sample of its seconds, and of how long the whole took
    local start=${EPOCHREALTIME/./}
    # shellcheck disable=SC2086  # words
    sample[$1]+="$($2)"$'\n'
    sample[$1,whole]+="$(((${EPOCHREALTIME/./} - start) / 1000))e-3"$'\n'
}
median_of() { grep . <<<"${sample[$1]}" | median; }
for ((run = 0; run < runs; run++)); do
    for row in "${rows[@]}"; do
        IFS='|' read -r name mine other goal <<<"$row"
        [[ $name = *"$only"* ]] || continue
        measure "$name,mine" "$mine"
        measure "$name,other" "$other"
    done
done
printf '%-30s %9s %9s %6s %8s %8s  %s\n' "$exec, $threads threads; seconds" ours other ratio whole other goal
for row in "${rows[@]}"; do
    IFS='|' read -r name mine other goal <<<"$row"
    [[ $name = *"$only"* ]] || continue
    awk -v n="$name" -v a="$(median_of "$name,mine")" -v b="$(median_of "$name,other")" -v g="$goal" \
        -v aw="$(median_of "$name,mine,whole")" -v bw="$(median_of "$name,other,whole")" 'BEGIN {
        if (a == "" || b == "") {
            printf "%-30s %9s %9s  failed\n", n, a == "" ? "-" : sprintf("%.3f", a), b == "" ? "-" : sprintf("%.3f", b)
            exit
        }
        r = a > 0 ? b / a : 0
        printf "%-30s %9.3f %9.3f %6.2f %8.2f %8.2f  %s\n", n, a, b, r, aw, bw, g == "" ? "" : (r >= g ? "≥ " g ": reached" : "≥ " g ": missed")
    }'
done
