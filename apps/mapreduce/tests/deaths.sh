#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Ranks that die in the middle: the others do their work, and the result is the same. Without the master the job
# fails everywhere. Nothing hangs, and no process is left.
. "$(dirname "$0")/common.sh"

seq 1 400000 > "$dir/in"
count_words "$dir/in" > "$dir/want"
slow="wordcount $dir/in --rate 800k --task 64k"

none_left()
{
    for i in 0 1 2 3; do
        for _ in $(seq 100); do
            kill -0 "$(rank_pid $i)" 2> /dev/null || continue 2
            sleep 0.05
        done
        fail "$1: rank $i is still there"
    done
}

# shellcheck disable=SC2086
start $slow
sleep 0.3
kill -9 "$(rank_pid 2)"
ended
test "$code" = 0 || { cat "$dir/err"; fail "a killed mapper: exit code $code"; }
grep -q 'rank 2 has died' "$dir/err" || fail "nobody said that rank 2 died"
none_left "a killed mapper"
same "a killed mapper"

# Two, one after the other, one by SIGTERM; partitions are as many as before.
# shellcheck disable=SC2086
start $slow --parts 6
sleep 0.2
kill "$(rank_pid 1)"
sleep 0.3
kill -9 "$(rank_pid 3)"
ended
test "$code" = 0 || { cat "$dir/err"; fail "two killed ranks: exit code $code"; }
test "$(find "$dir/out" -name 'part-*' | wc -l)" = 6 || fail "not six parts"
none_left "two killed ranks"
same "two killed ranks"

# When all has been mapped, while the others reduce or write: the reducer's partitions move to others.
start wordcount "$dir/in" --rate 4M
while kill -0 "$job" 2> /dev/null && ! ls "$dir"/out/.part-* > /dev/null 2>&1; do sleep 0.005; done
kill -9 "$(rank_pid 3)" 2> /dev/null || true
ended
test "$code" = 0 || { cat "$dir/err"; fail "a killed reducer: exit code $code"; }
none_left "a killed reducer"
same "a killed reducer"

# A rank that is stopped, as one whose host hangs.
# shellcheck disable=SC2086
start $slow --patience 2
sleep 0.3
kill -STOP "$(rank_pid 1)"
ended
test "$code" = 0 || { cat "$dir/err"; fail "a stopped rank: exit code $code"; }
grep -q 'rank 1 is silent' "$dir/err" || fail "nobody said that rank 1 is silent"
none_left "a stopped rank"
same "a stopped rank"

# The master.
# shellcheck disable=SC2086
start $slow
sleep 0.3
kill -9 "$(rank_pid 0)"
ended
test "$code" = 1 || fail "a killed master: exit code $code"
test "$(grep -c 'the master, is gone' "$dir/err")" = 3 || { cat "$dir/err"; fail "not all ranks said so"; }
grep -q 'rank 0 was ended by signal 9' "$dir/err" || { cat "$dir/err"; fail "no line says how the master ended"; }
none_left "a killed master"
test -z "$(find "$dir/out" -type f)" || fail "a killed master: files are left"

# Ctrl-C.
# shellcheck disable=SC2086
start $slow
sleep 0.3
kill -INT "$(rank_pid 0)"
ended
test "$code" = 130 || fail "Ctrl-C: exit code $code"
none_left "Ctrl-C"
test -z "$(find "$dir/out" -type f)" || fail "Ctrl-C: files are left"
echo "ranks may die"
