#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# gpuwire info: what works, each way tried; and each thing that can be made to fail here says why and what mends it.
. "$(dirname "$0")/../integration/lib.sh"
export GPUWIRE_NIC=addr=$net.1 GPUWIRE_DEVICE=softnic
unset GPUWIRE_POST

# says CODE WORDS… -- ARGS…: the exit code, and each of the words in what it prints.
says() {
    local code=$1 rc words=() w
    shift
    while [ "$1" != -- ]; do words+=("$1") && shift; done
    shift
    timeout -k 5 60 "$GPUWIRE" info "$@" >"$work/info.out" 2>&1
    rc=$?
    [ $rc = "$code" ] || fail "info $*: exit code $rc, not $code"
    for w in "${words[@]}"; do grep -q -- "$w" "$work/info.out" || fail "info $*: nothing of '$w'"; done
}
says 0 '^executor .*cpu' '^NIC .*software NIC' "address $net.1" 'direct, .*: works, chosen' 'proxy-doorbell, .*: works$' \
    'proxy-post, .*: works$' '^memory .*: works' '^connections .*rdma_cm: works' -- --exec cpu
for mode in direct proxy-doorbell proxy-post; do
    GPUWIRE_POST=$mode says 0 "$mode, .*: works, chosen" "chosen because: GPUWIRE_POST=$mode" -- --exec cpu
done
GPUWIRE_POST=dircet says 1 'it must be auto, direct' -- --exec cpu
GPUWIRE_NIC=addr=192.0.2.77 says 1 '192.0.2.77 is no address of this host; give one' '^NIC .*none' -- --exec cpu
GPUWIRE_NIC=adr=1 says 1 'adr' '^NIC .*none' -- --exec cpu
GPUWIRE_DEVICE=mlx5_77 says 1 'no RDMA device called mlx5_77' '^hardware' -- --exec cpu
says 1 'no RDMA device called mlx5_77' -- --exec cpu --device mlx5_77
GPUWIRE_SOFTNIC_LIBRARY=$work/none.so says 1 "$work/none.so" -- --exec cpu
says 2 'tpu: not understood' -- --exec tpu
says 2 'unrecognized' -- --devise softnic
if ! nvidia-smi -L >/dev/null 2>&1; then
    says 1 'gpuwire info: no GPU: \|gpuwire info: this build has no GPU executor: build it where' -- --exec gpu
    says 0 'no GPU: ' -- --exec auto
fi
nothing_left
