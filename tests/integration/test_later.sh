#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The verbs libraries come at any time, from any file. test_later.sh LOADED_LATER SOFTNIC
. "${0%/*}/lib.sh"
program=$1 softnic=$2
export GPUWIRE_NIC=addr=$net.1
libs=$(ldconfig -p | sed -n 's/.*libibverbs\.so\.1 .*=> \(.*\)\/libibverbs\.so\.1$/\1/p' | head -n 1)
[ -r "$libs/libibverbs.so.1" ] && [ -r "$libs/librdmacm.so.1" ] || { echo 'skipped: no libibverbs.so.1 and librdmacm.so.1'; exit 77; }
cp -L "$libs/libibverbs.so.1" "$work/verbs-of-another-name.so"
cp -L "$libs/librdmacm.so.1" "$work/cm-of-another-name.so"

works() { # NAME PROGRAM ARGS...
    local name=$1
    shift
    timeout "$patience" "$@" >"$work/$name.out" 2>&1 || fail "$name: exit code $?"
    grep -q '^ok$' "$work/$name.out" || fail "$name: not ok"
    grep -q '^gpuwire:' "$work/$name.out" && fail "$name: complains"
}
run=("${gpuwire[@]}" run -- "$program")
works later "${run[@]}" libibverbs.so.1 librdmacm.so.1 "$net.1"
works names "${run[@]}" "$work/verbs-of-another-name.so" "$work/cm-of-another-name.so" "$net.1"
works cm_only "${run[@]}" libibverbs.so.1 "$work/cm-of-another-name.so" "$net.1"
works installed env "LD_PRELOAD=${SANITIZER:-}" "$program" --install "$softnic" libibverbs.so.1 librdmacm.so.1 "$net.1"

# libmlx5 belongs to the first libibverbs. The second finds no device, on any NIC; here a line says why.
timeout "$patience" "${run[@]}" --first libibverbs.so.1 "$work/verbs-of-another-name.so" >"$work/two.out" 2>&1
[ $? = 2 ] || fail 'two copies: something else happened'
grep -q "^gpuwire: $work/verbs-of-another-name.so finds no device: .* the first, $libs/libibverbs.so.1" "$work/two.out" ||
    fail 'two copies: not said'

timeout "$patience" "${run[@]}" --apart "$libs/libibverbs.so.1" >"$work/apart.out" 2>&1 || fail "apart: exit code $?"
grep -q "^gpuwire: $libs/libibverbs.so.1 .*dlmopen" "$work/apart.out" || fail 'apart: not said'
timeout "$patience" "${run[@]}" --apart libm.so.6 >"$work/apart2.out" 2>&1 || fail "apart, another library: exit code $?"
[ -s "$work/apart2.out" ] && fail 'apart: said of a library that has nothing to do with it'
nothing_left
echo ok
