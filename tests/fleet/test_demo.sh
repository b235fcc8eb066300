#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# `gpuwire fleet demo` shows what it promises, and leaves nothing. Ctrl-C ends it in order, and even when it is killed none of
# its processes stays. Deadlines are long here: how busy this machine is must not matter.
. "$(dirname "$0")/../integration/lib.sh" || exit 1
"$GPUWIRE" fleet demo --help >"$work/out" 2>&1 || exit 77 # built without fleets
"$GPUWIRE" fleet demo now 2>"$work/out"
[ $? = 2 ] || fail 'a word that it does not know'
PATH=/none "$GPUWIRE" fleet demo 2>"$work/out" && fail 'without etcd'
grep -q 'etcd-server' "$work/out" || fail 'it does not say which package has etcd'
command -v etcd >/dev/null || { echo 'skipped: there is no etcd here'; exit 77; }
export TMPDIR=$work
"$GPUWIRE" fleet demo --quick --deadline 10000 >"$work/demo.out" 2>&1 || {
    cat "$work/demo.out"
    grep -q 'built without gRPC' "$work/demo.out" && exit 77
    fail 'the demo failed'
}
cat "$work/demo.out"
# requests, in time, late, refused, lost of each phase
for phase in 'all is well' 'worker killed' 'leader killed' 'etcd killed' 'etcd is back'; do
    read -r requests kept _ <<<"$(sed -n "s/^$phase//p" "$work/demo.out")"
    [ "${requests:-0}" -gt 20 ] || fail "$phase: $requests requests"
    [ "${kept%.*}" -ge 90 ] || fail "$phase: $kept in time"
done
grep -q 'controller-[12] leads, after' "$work/demo.out" || fail 'no other controller leads'

folder() { compgen -G "$work/gpuwire-fleet-*" >/dev/null; }
left() { pgrep -f "etcd --data-dir $work/gpuwire-fleet-" >/dev/null; }
none_left() { ! left; }
folder && fail 'the demo leaves a folder'
for sign in INT KILL; do
    # A shell has what it starts in the background ignore SIGINT.
    env --default-signal=INT "$GPUWIRE" fleet demo >"$work/$sign.out" 2>&1 &
    demo=$!
    pids+=("$demo")
    wait_for "$work/$sign.out" leads "$demo" || fail "the demo before $sign does not begin"
    left || fail "this test does not see the demo's etcd"
    kill "-$sign" "$demo"
    wait "$demo" 2>/dev/null
    code=$?
    [ $sign = KILL ] || [ $code = 130 ] || fail "after SIG$sign it ended with $code"
    [ $sign = KILL ] || ! folder || fail "after SIG$sign there is a folder"
    eventually none_left || fail "after SIG$sign there is an etcd"
done
