#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A worker is killed in the middle of each job: the others do its work, and the result has the same bytes.
. "$(dirname "$0")/lib.sh"
: "${GPUWIRE:?the gpuwire tool}"
app() { "$GPUWIRE" app mapreduce "$@"; }
pid=
trap '[ -z "$pid" ] || kill -KILL "$pid" 2>/dev/null; rm -rf "$work"' EXIT

app gen text 600K text.0 && app gen text 300K text.1 --seed 2 && app gen records 600K records && app gen points 400K points --columns 10 &&
    app gen matrix 500K matrix --columns 100 && app gen vector 400 vector || fail "gen"

# without RATE JOB FILE... [-- ARGUMENT...]: rank 2 of four is killed in the middle of its maps.
without() {
    local rate=$1 job=$2 i victim=
    shift 2
    app "$job" --quiet "$@" >wanted || fail "$job"
    rm -rf out error
    : >error
    app "$job" --workers 4 --rate "$rate" --verbose -o out "$@" 2>error &
    pid=$!
    for ((i = 0; i < 1200; i++)); do
        grep -q '^rank 2 maps' error && break
        sleep 0.05
    done
    victim=$(sed -n 's/^rank 2 of 4 is process //p' error)
    [ "$i" -lt 1200 ] && [ -n "$victim" ] || fail "$job: rank 2 does not begin: $(cat error)"
    sleep 0.02 # its first piece needs half a second at that rate
    kill -KILL "$victim" || fail "$job: rank 2 ended before it was killed"
    wait "$pid" || fail "$job: $(cat error)"
    pid=
    grep -q 'rank 2' <(grep -v -e 'is process' -e 'maps on' error) || fail "$job: does not say that rank 2 died: $(cat error)"
    cat out/part-* >got
    [ "$job" = sort ] || [ "$job" = kmeans ] || [ "$job" = matvec ] || { sort -o got got && sort -o wanted wanted; }
    same "$job without rank 2" got wanted
}
without 450k index text.0 text.1
without 300k sort records
without 200k kmeans points -- 20 2
without 250k matvec matrix -- vector
echo "four jobs lost a worker, and have the same results"
