#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Four clients at once: every request answered, every answer right, none lost, the worker's memory flat.
#   test_load.sh MODELS MODEL REQUESTS [GPUWIRE_NIC]
. "$(dirname "$0")/lib.sh" || exit 1
need curl
export GPUWIRE_NIC=${4:-$GPUWIRE_NIC}
serve worker --models "$source_dir/$1" --model "$2"
load() { "$GPUWIRE" load "$2" --server "$server" --clients 4 --requests "$1" --verify-echo >"$work/load.out" 2>&1; }
load 200 "$2" || fail 'warming up' # what is allocated once is allocated now
before=$(rss "$worker")
SECONDS=0
load "$3" "$2" || fail 'load'
seconds=$SECONDS
after=$(rss "$worker")
cat "$work/load.out"
grep -q "^$3 of $3 requests answered, 4 clients" "$work/load.out" || fail 'not all were answered'
grep -q '^answers that are not their request: 0$' "$work/load.out" || fail 'wrong answers'
[ "$(stat_of "$2" answered)" = $(($3 + 200)) ] || fail 'the worker counts otherwise'
[ "$(stat_of "$2" refused)" = 0 ] || fail 'the worker refused requests'
echo "$seconds s; resident memory of the worker: $before KiB before, $after KiB after"
[ $((after - before)) -lt "${MAY_GROW:-2048}" ] || fail 'the worker has grown'
stop_worker
all_gone
