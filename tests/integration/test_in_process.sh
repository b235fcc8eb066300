#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The library loaded at run time by Python. test_in_process.sh LIBRARY
. "${0%/*}/lib.sh"
need python3
env -u LD_PRELOAD GPUWIRE_NIC=addr=127.0.0.1 timeout 30 python3 "${0%/*}/test_ctypes.py" "$1" >"$work/python.out" 2>&1 ||
    fail 'python'
grep -q 'opened before fork' "$work/python.out" || fail 'the child was refused without a word'
nothing_left
echo ok
