#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Collectives of four processes that Open MPI's launcher starts, and of which it loses one. $1: the program.
. "$(dirname "$0")/../integration/lib.sh"
need mpirun
peer=$1
export GPUWIRE_DEVICE=softnic GPUWIRE_NIC=addr=$net.1
launch() { timeout -k 5 "$patience" mpirun --allow-run-as-root --oversubscribe "$@" >"$work/mpirun.out" 2>&1; }

launch -n 4 "$peer" faults || fail "mpirun -n 4: exit code $?"
for rank in 0 1 2 3; do
    grep -qx "rank $rank of 4: as it must be" "$work/mpirun.out" || fail "rank $rank did not say that all is well"
done
launch --mca orte_enable_recovery 1 -n 4 "$peer" die 1
for rank in 0 2 3; do
    grep -qx "rank $rank of 4: as it must be" "$work/mpirun.out" || fail "rank $rank did not get an error, or died too"
done
