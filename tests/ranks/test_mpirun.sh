#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Open MPI's launcher starts four processes, which meet through PMIx; and one of them is killed. $1: the program.
. "$(dirname "$0")/../integration/lib.sh"
need mpirun
peer=$1
launch() { timeout -k 5 "$patience" mpirun --allow-run-as-root --oversubscribe "$@" >"$work/out" 2>"$work/err"; }

launch -n 4 "$peer" || fail "mpirun -n 4: exit code $?"
for rank in 0 1 2 3; do
    grep -qx "rank $rank of 4 by 3: all said" "$work/out" || fail "rank $rank did not meet the others by PMIx"
done
launch -n 1 "$peer" || fail "mpirun -n 1: exit code $?"
grep -qx "rank 0 of 1 by 3: all said" "$work/out" || fail "one process alone"

# A rank that is killed takes the others along, unless Open MPI is told to leave them.
launch --mca orte_enable_recovery 1 -n 4 "$peer" die 2
for rank in 0 1 3; do
    grep -qx "rank $rank of 4 saw 2 die" "$work/out" || fail "rank $rank did not see rank 2 die, or died too"
done
nothing_left
