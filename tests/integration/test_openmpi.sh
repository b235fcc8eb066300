#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Open MPI, unmodified: four processes of an MPI program that checks every byte, over each of its ways to verbs.
#     test_openmpi.sh MPI_CHECK.c
. "$(dirname "$0")/lib.sh"
need mpirun mpicc ompi_info
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_plm_rsh_agent=false
export UCX_LOG_LEVEL=error UCX_WARN_UNUSED_ENV_VARS=n TMPDIR=$work GPUWIRE_NIC=addr=$net.1
mpicc -std=gnu11 -O1 -Wall -Werror -o "$work/mpi_check" "$1" >"$work/mpicc.out" 2>&1 || fail 'mpicc'

# What the components say of themselves, with the words that show who carries the messages.
mpi() { # NAME WHAT ARGS...
    local name=$1 what=$2
    shift 2
    timeout -k 5 $((2 * patience)) "${gpuwire[@]}" run -- mpirun --oversubscribe -n 4 --mca btl_base_warn_component_unused 0 "$@" \
        "$work/mpi_check" "$what" >"$work/$name-$what.out" 2>&1 || fail "$name $what: exit code $?"
    grep -q "^$what: right on 4 ranks$" "$work/$name-$what.out" || fail "$name $what: no result"
}
has() { ompi_info --parsable 2>/dev/null | grep -q "^mca:$1:"; }

ran=
if has pml:ucx; then
    # Only these: nothing else can have carried anything.
    export UCX_TLS=rc_verbs,ud_verbs,self
    for what in pingpong alltoall onesided random; do
        mpi ucx-rc_verbs $what --mca pml ucx --mca osc ucx
    done
    for what in alltoall onesided; do
        UCX_TLS=ud_verbs,self mpi ucx-ud_verbs $what --mca pml ucx --mca osc ucx
    done
    UCX_TLS=rc_mlx5,ud_mlx5,self mpi ucx-rc_mlx5 alltoall --mca pml ucx --mca osc ucx
    unset UCX_TLS # by itself it takes UCX, and UCX what it likes best
    mpi default alltoall
    ran="$ran ucx"
fi
if has mtl:ofi; then
    # libfabric's datagrams over verbs.
    mpi libfabric alltoall --mca pml cm --mca mtl ofi --mca mtl_ofi_provider_include 'verbs;ofi_rxd' --mca btl self --mca osc pt2pt
    ran="$ran libfabric"
    # Its connections leave out loopback interfaces: they want an address of another one.
    address=$(ip -4 -o addr show scope global 2>/dev/null | sed -n 's/.*inet \([0-9.]*\).*/\1/p' | head -n 1)
    if [ -n "$address" ]; then
        for what in pingpong onesided; do
            GPUWIRE_NIC=addr=$address mpi libfabric-rxm $what --mca pml cm --mca mtl ofi \
                --mca mtl_ofi_provider_include 'verbs;ofi_rxm' --mca btl self --mca osc pt2pt
        done
        ran="$ran libfabric-rxm"
    fi
fi
[ -n "$ran" ] || { echo 'skipped: this Open MPI has neither UCX nor libfabric'; exit 77; }
nothing_left
echo "ok:$ran"
