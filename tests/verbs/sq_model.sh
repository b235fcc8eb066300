#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# sq_model.sh [whole]: spin on sq.pml, every interleaving: what must hold, and variants broken on purpose, which must be
# found. `whole`: three posters, which takes longer.
set -u
model=$(realpath "${BASH_SOURCE[0]%/*}")/sq.pml
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir" || exit 1
failures=0

run() { # run DEFINE...: prints "errors: N", how many states
    # Generated code: warnings in it are spin's affair.
    spin -a "$@" "$model" >spin.log 2>&1 && gcc -w -O1 -DSAFETY -DCOLLAPSE -o pan pan.c || { cat spin.log; return 1; }
    ./pan -m1000000 >pan.log 2>&1
    grep -oE 'errors: [0-9]+' pan.log | tail -n 1
    grep -qE 'max search depth too small|Search not completed' pan.log && ! grep -q 'assertion violated\|invalid end state' pan.log &&
        echo "not complete"
    grep -oE '[0-9]+ states, stored' pan.log
}
holds() {
    local said
    said=$(run "$@" | tr '\n' ' ')
    echo "$*: $said"
    case $said in 'errors: 0 '[1-9]*) ;; *) failures=$((failures + 1)) && cat pan.log ;; esac
}
found() {
    local said
    said=$(run "$@" | tr '\n' ' ')
    echo "$*: $said(broken on purpose)"
    case $said in 'errors: 0 '* | '') failures=$((failures + 1)) && echo "this must not hold" ;; esac
}

if [ "${1:-}" = whole ]; then
    holds -DPOSTERS=3 -DOPS=1 -DMOST=1 -DDEFER=0
else
    holds -DOPS=2            # reservations of one or two, full queues, rings left for later, all counts wrap
    found -DOPS=2 -DBROKEN=1 # no fence between WQEs and record
    found -DOPS=2 -DBROKEN=2 # none between record and ring
    found -DOPS=2 -DBROKEN=3 # a reservation taken back while one above it stays
    found -DOPS=2 -DBROKEN=4 # the ringer leaves without having looked who has asked meanwhile
fi
[ $failures = 0 ]
