#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# sq_model.sh [whole]: spin on sq.pml and rq.pml, every interleaving: what must hold, and variants broken on purpose, which
# must be found. `whole`: more of everything, which takes minutes and some gigabytes of memory.
set -u
models=$(realpath "${BASH_SOURCE[0]%/*}")
model=$models/sq.pml
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir" || exit 1
failures=0
pack=
fast=(gcc -w -O1) table=24 # where there are many states to try; the size of their table, as a power of two
soon=(gcc -w -O0)          # where few are tried, or soon one is found: what takes time there is the compiler, and the table
! command -v tcc >/dev/null || soon=(tcc -w)
compiler=("${fast[@]}")

make_pan() { # make_pan DEFINE...
    # Generated code: warnings in it are spin's affair. SFH: a cheaper hash; states are still compared whole.
    spin -a "$@" "$model" >spin.log 2>&1 && "${compiler[@]}" -DSAFETY -DSFH $pack -o pan pan.c || { cat spin.log; return 1; }
}
search() { # search [OPTION...]: prints "errors: N", how many states
    ./pan "$@" -m200000 -w$table >pan.log 2>&1
    grep -oE 'errors: [0-9]+' pan.log | tail -n 1
    grep -qE 'max search depth too small|Search not completed' pan.log && ! grep -q 'assertion violated\|invalid end state' pan.log &&
        echo "not complete"
    grep -oE '[0-9]+ states, stored' pan.log
}
well() { # well NAME SAID
    echo "$1: $2"
    case $2 in 'errors: 0 '[1-9]*) ;; *) failures=$((failures + 1)) && cat pan.log ;; esac
}
# With deaths what is left may wait forever.
ends() { case "$*" in *-DDIES*) printf %s -E ;; esac; }
holds() {
    make_pan "$@" || { failures=$((failures + 1)); return; }
    well "$*" "$(search $(ends "$@") | tr '\n' ' ')"
}
holds_small() {
    local compiler=("${soon[@]}") table=20
    holds "$@"
}
# Two posters, two posts each; a program says of each post how long it is, and whether it is rung for later.
programs() { # programs PROGRAM...
    make_pan -DPROGRAM -DOPS=2 -DOTHERS=2 || { failures=$((failures + 1)); return; }
    for program; do
        export PROGRAM=$program
        well "program $program" "$(search | tr '\n' ' ')"
    done
}
found() {
    local said compiler=("${soon[@]}") table=20
    make_pan "$@" || { failures=$((failures + 1)); return; }
    said=$(search $(ends "$@") | tr '\n' ' ')
    echo "$*: $said(broken on purpose)"
    case $said in 'errors: 0 '* | '') failures=$((failures + 1)) && echo "this must not hold" ;; esac
}
# All of them, but of two that differ by who is the first poster only one.
all_programs() {
    for ((a = 0; a < 16; a++)); do for ((b = a; b < 16; b++)); do echo $((a + 16 * b)); done; done
}

# Posters of one queue pair are threads that post, or warps and blocks, whose first thread does.
if [ "${1:-}" = whole ]; then
    programs $(all_programs)
    holds -DOPS=2 -DDIES=1                     # two posts of one or two; the first poster dies
    pack=-DCOLLAPSE
    holds -DPOSTERS=3 -DOPS=1 -DMOST=1 -DDEFER=0
    holds -DOPS=1 -DLIVES=2                    # a reset in between, and reservations of one or two
    holds -DOPS=2 -DLIVES=2 -DMOST=1 -DDEFER=0 # and two posts of the first one
    holds -DOPS=2 -DEXACT=1                    # reserved as CPU threads do
    holds -DLOCKED=1 -DPOSTERS=3 -DOPS=2 -DMOST=1
    model=$models/rq.pml
    holds -DPOSTERS=3 -DOPS=2
else
    holds -DOPS=2                                     # reservations of one or two, full queues, rings left for later, all counts wrap
    compiler=("${soon[@]}") table=22                  # the others are smaller
    programs 85 153 201                               # two posts each, of all these kinds
    holds_small -DOPS=1 -DLIVES=2 -DMOST=1            # a reset, and everything once more
    holds_small -DOPS=1 -DMOST=1 -DDIES=1             # the first poster dies
    found -DOPS=2 -DBROKEN=1                          # no fence between WQEs and record
    found -DOPS=2 -DBROKEN=2                          # none between record and ring
    found -DOPS=2 -DBROKEN=3                          # a reservation taken back while one above it stays
    found -DOPS=2 -DBROKEN=4                          # the ringer leaves without having looked who has asked in between
    found -DOPS=2 -DBROKEN=5                          # the role is laid down before the ring has arrived
    found -DOPS=1 -DLIVES=2 -DMOST=1 -DBROKEN=6       # a reset leaves what the slots say
    found -DOPS=2 -DBROKEN=7                          # the role is laid down before the ring is stored
    found -DOPS=2 -DBROKEN=9                          # who rings for what was deferred leaves it to a ringer who has looked before
    found -DOPS=2 -DBROKEN=11                         # a ringer looks with the bit set, and does not see it set again
    found -DOPS=2 -DMOST=1 -DQ=4 -DBROKEN=10          # what others have reserved in between is taken for our own
    holds -DOPS=2 -DEXACT=1 -DDEFER=0                 # reserved as CPU threads do
    found -DOPS=2 -DEXACT=1 -DDEFER=0 -DBROKEN=8      # what is done is looked at before what is reserved
    holds_small -DLOCKED=1 -DOPS=2                    # in turn
    holds_small -DLOCKED=1 -DOPS=1 -DLIVES=2          # and a reset
    found -DLOCKED=1 -DOPS=2 -DBROKEN=1               # no fence between WQEs and record
    found -DLOCKED=1 -DOPS=2 -DBROKEN=12              # the lock is given back before what was stored
    found -DLOCKED=1 -DOPS=2 -DBROKEN=13              # who rings for what was deferred does not take the lock
    found -DLOCKED=1 -DOPS=2 -DBROKEN=14              # the lock is given back before the ring
    model=$models/rq.pml                              # receives
    holds_small -DPOSTERS=2 -DOPS=3
    found -DPOSTERS=2 -DBROKEN=1                      # no fence between receives and record
    found -DPOSTERS=2 -DBROKEN=2                      # the role is laid down before the record has arrived
    found -DPOSTERS=2 -DBROKEN=3                      # the writer leaves without having looked who has asked in between
    found -DPOSTERS=3 -DOPS=1 -DMOST=1 -DQ=4 -DBROKEN=4 # who leaves says nothing of a hole
    found -DPOSTERS=2 -DBROKEN=5                      # what was heard is heard again a round later
fi
[ $failures = 0 ]
