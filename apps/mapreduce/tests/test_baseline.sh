#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The CPU baseline has the references' results, byte for byte, with one thread and with several.
#     test_baseline.sh PROGRAM
program=$1
. "$(dirname "$0")/lib.sh"
need_numpy

mkdir -p texts/more
odd_text 3000000 >texts/long
odd_text 70000 >texts/more/short
: >texts/empty
printf x >texts/one
head -c 1200000 /dev/zero | tr '\0' a >texts/word
head -c 3000000 texts/long >records # divisible by 100
"$python" -c '
import numpy
r = numpy.random.default_rng(1)
numpy.save("points", r.normal(0, 5, (9000, 13)).astype("f4"))
numpy.save("matrix", r.uniform(-1, 1, (300, 777)).astype("f4"))
numpy.save("vector", r.uniform(-1, 1, 777).astype("f4"))'

run() { "$program" "$@" || fail "$program $*"; }
texts=(texts/empty texts/long texts/more/short texts/one texts/word)
reference wordcount "${texts[@]}" >wordcount
reference index "${texts[@]}" >index
reference sort records >sort
reference kmeans points.npy 33 4 >kmeans
reference matvec matrix.npy vector.npy >matvec
for threads in 1 3; do
    run wordcount texts --threads "$threads" --out got && same "words, $threads threads" got wordcount
    run index texts --threads "$threads" --out got && same "index, $threads threads" got index
    run sort records --threads "$threads" --out got && same "sort, $threads threads" got sort
    run kmeans points.npy --clusters 33 --rounds 4 --threads "$threads" --out got && same "k-means, $threads threads" got kmeans
    run matvec matrix.npy --vector vector.npy --threads "$threads" --out got && same "product, $threads threads" got matvec
done
tr -s '[:space:]' '\n' <texts/more/short | sed '/^$/d' | sort | uniq -c | sed -E 's/^ *([0-9]+) (.*)$/\2\t\1/' | sort >counted
run wordcount texts/more/short | sort >got
same "words and uniq" got counted

mkdir nothing
run wordcount nothing >got && [ ! -s got ] || fail "an empty folder has words"
! "$program" sort texts/one 2>error || fail "a byte was taken for a record"
grep -q 'records of 100 bytes' error || fail "it does not say why: $(cat error)"
! "$program" wordcount missing 2>error || fail "a file that is not there was counted"
"$program" nonsense texts 2>error
[ $? = 2 ] || fail "an unknown job must end with 2"
echo "all five jobs: the references' results"
