#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# On a GPU, the jobs have the results of the CPU baseline, byte for byte; with a second GPU, on two as well. It needs nothing
# installed. Without a GPU it runs on CPU threads.
#     test_same.sh cpu|gpu
. "$(dirname "$0")/lib.sh"
: "${GPUWIRE:?the gpuwire tool}"
exec=$1
baseline=$(dirname "$GPUWIRE")/../libexec/gpuwire/gpuwire-mapreduce-baseline
app() { "$GPUWIRE" app mapreduce "$@"; }
workers=(1)
[ "$exec" = cpu ] || [ "$(nvidia-smi -L | grep -c '^GPU')" -lt 2 ] || workers+=(2)

app gen text 3M text.0 && app gen text 2M text.1 --seed 2 --odd && app gen records 5M records &&
    app gen points 2M points --columns 24 && app gen points 1M wide --columns 300 --clusters 20 &&
    app gen matrix 4M matrix --columns 1001 && app gen vector 4004 vector || fail "gen"

compare() { # ORDERED JOB FILES -- ARGUMENTS -- THE BASELINE'S
    local ordered=$1 job=$2 files=() arguments=() n
    shift 2
    while [ "$1" != -- ]; do files+=("$1"); shift; done
    shift
    while [ "$1" != -- ]; do arguments+=("$1"); shift; done
    shift
    "$baseline" "$job" "${files[@]}" "$@" --out wanted || fail "the baseline's $job"
    [ "$ordered" = yes ] || sort -o wanted wanted
    for n in "${workers[@]}"; do
        rm -rf out
        timeout 60 "$GPUWIRE" app mapreduce "$job" "${files[@]}" --exec "$exec" --workers "$n" -o out -- "${arguments[@]}" >output 2>&1 ||
            fail "$job, $n workers: $(cat output)"
        cat out/part-* >got
        [ "$ordered" = yes ] || sort -o got got
        same "$job ${files[*]}, $n workers" got wanted
    done
}
compare no wordcount text.0 text.1 -- --
compare no index text.0 text.1 -- --
compare yes sort records -- --
compare yes kmeans points -- 200 4 -- --clusters 200 --rounds 4
compare yes kmeans wide -- 33 3 -- --clusters 33 --rounds 3
compare yes matvec matrix -- vector -- --vector vector
echo "on $exec, workers ${workers[*]}: five jobs, the baseline's results"
