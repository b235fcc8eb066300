#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Ranks that a launcher starts: Open MPI by PMIx, with and without a killed rank; and a plain rendezvous.
. "$(dirname "$0")/common.sh"

seq 1 400000 > "$dir/in"
count_words "$dir/in" > "$dir/want"

# A plain rendezvous: each rank by itself, as several hosts would start them.
export GPUWIRE_SIZE=3 GPUWIRE_RENDEZVOUS=127.0.0.1:$((20000 + $$ % 10000)) GPUWIRE_SECRET=$$
for rank in 2 1 0; do
    GPUWIRE_RANK=$rank mapreduce wordcount "$dir/in" -q -o "$dir/out" > "$dir/log.$rank" 2>&1 &
    pids[rank]=$!
done
for rank in 0 1 2; do wait "${pids[rank]}" || { cat "$dir"/log.*; fail "rank $rank of a rendezvous failed"; }; done
same "a plain rendezvous"
unset GPUWIRE_SIZE GPUWIRE_RENDEZVOUS GPUWIRE_SECRET

command -v mpirun > /dev/null || { echo "no mpirun here: it was left out"; exit 0; }
run="mpirun --allow-run-as-root --oversubscribe -n 4"
# shellcheck disable=SC2086
timeout 60 $run "$GPUWIRE" app mapreduce --exec "$exec_kind" wordcount "$dir/in" -q -o "$dir/out" > "$dir/log" 2>&1 ||
    { cat "$dir/log"; fail "mpirun failed"; }
same "mpirun"

# A rank is killed while it maps.
# shellcheck disable=SC2086
timeout 60 $run --mca orte_enable_recovery 1 "$GPUWIRE" app mapreduce --exec "$exec_kind" wordcount "$dir/in" \
    --rate 400k --task 64k -v -o "$dir/out" > "$dir/err" 2>&1 &
job=$!
for _ in $(seq 200); do
    test "$(grep -c ' maps on ' "$dir/err")" -ge 4 && break
    sleep 0.05
done
sleep 0.5
kill -9 "$(rank_pid 2)"
ended
grep -q 'rank 2 has died' "$dir/err" || { cat "$dir/err"; fail "nobody said that rank 2 died"; }
grep -q '1 of 4 ranks died' "$dir/err" || { cat "$dir/err"; fail "the job did not end well"; }
same "mpirun with a killed rank"
echo "launchers start ranks"
