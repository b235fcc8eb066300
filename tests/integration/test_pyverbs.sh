#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# rdma-core's own tests in Python, as Debian's python3-pyverbs brings them: none fails, and as many pass as are promised.
. "$(dirname "$0")/lib.sh"
need ip ls
[ -n "${SANITIZER:-}" ] && { echo "skipped: the tests' processes fork and end in ways that leak memory"; exit 77; }

# The tests ask `ls` for the NIC's network interface, and those of rdma_cm use the interface's address.
export GPUWIRE_NIC=addr=127.0.0.1
"$GPUWIRE" run -- ls /sys/class/infiniband/mlx5_0/device/net >"$work/ls.out" 2>&1 ||
    { echo 'skipped: ls does not see the NIC here'; exit 77; }
timeout -k 5 $((5 * patience)) "$(dirname "$0")/../../scripts/run_pyverbs.py" \
    --gpuwire "$GPUWIRE" --at-least 150 >"$work/pyverbs.out" 2>&1
code=$?
[ $code = 77 ] && { tail -n 1 "$work/pyverbs.out"; exit 77; }
[ $code = 0 ] || { sed -n '/^passed/,$p' "$work/pyverbs.out"; fail "the tests ended with code $code"; }
grep '^passed' "$work/pyverbs.out"
echo ok
