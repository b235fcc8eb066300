#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# sq_model.sh [whole]: spin on sq.pml, every interleaving: what must hold, and variants broken on purpose, which must be
# found. `whole`: more of everything, which takes minutes and some gigabytes of memory.
set -u
model=$(realpath "${BASH_SOURCE[0]%/*}")/sq.pml
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir" || exit 1
failures=0
pack= fast=-O2

run() { # run DEFINE...: prints "errors: N", how many states
    # Generated code: warnings in it are spin's affair.
    spin -a "$@" "$model" >spin.log 2>&1 && gcc -w $fast -DSAFETY $pack -o pan pan.c || { cat spin.log; return 1; }
    ./pan -m200000 -w22 >pan.log 2>&1
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
found() { # soon, so it does not matter how fast
    local said fast=-O0
    said=$(run "$@" | tr '\n' ' ')
    echo "$*: $said(broken on purpose)"
    case $said in 'errors: 0 '* | '') failures=$((failures + 1)) && echo "this must not hold" ;; esac
}

# Posters of one queue pair are threads that post, or warps and blocks, whose first thread does.
if [ "${1:-}" = whole ]; then
    pack=-DCOLLAPSE
    holds -DPOSTERS=3 -DOPS=1 -DMOST=1 -DDEFER=0
    holds -DOPS=2 -DOTHERS=2 -DDEFER=0         # two posters, two posts each, of one or two
    holds -DOPS=2 -DOTHERS=2 -DMOST=1          # the same of one, some of them rung for later
    holds -DOPS=1 -DLIVES=2                    # a reset in between, and reservations of one or two
    holds -DOPS=2 -DLIVES=2 -DMOST=1 -DDEFER=0 # and two posts of the first one
else
    holds -DOPS=2                                # reservations of one or two, full queues, rings left for later, all counts wrap
    holds -DOPS=2 -DOTHERS=2 -DMOST=1 -DDEFER=0  # two posts each
    holds -DOPS=1 -DLIVES=2 -DMOST=1             # a reset, and everything once more
    found -DOPS=2 -DBROKEN=1                     # no fence between WQEs and record
    found -DOPS=2 -DBROKEN=2                     # none between record and ring
    found -DOPS=2 -DBROKEN=3                     # a reservation taken back while one above it stays
    found -DOPS=2 -DBROKEN=4                     # the ringer leaves without having looked who has asked meanwhile
    found -DOPS=2 -DBROKEN=5                     # a ringer does not care whether the last one's record has arrived
    found -DOPS=1 -DLIVES=2 -DMOST=1 -DBROKEN=6  # a reset leaves what the slots say
fi
[ $failures = 0 ]
