#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# `gpuwire balance demo` shows what it promises, and leaves nothing. Ctrl-C ends it in order, and even when it is killed
# no process of its hosts stays.
. "$(dirname "$0")/../integration/lib.sh"
[ "$(id -u)" = 0 ] || { echo "skipped: the demo needs root"; exit 77; }
need ip
unshare -n true 2>/dev/null || { echo "skipped: no network namespaces here"; exit 77; }
export TMPDIR=$work
"$GPUWIRE" balance demo >"$work/demo.out" 2>&1 || {
    grep -q 'built without DPDK' "$work/demo.out" && { echo "skipped: built without DPDK"; exit 77; }
    fail "the demo failed"
}
grep -q "Only the killed worker's connections broke: [1-9]" "$work/demo.out" || fail "the demo says something else"
cat "$work/demo.out"
"$GPUWIRE" balance demo >"$work/cut.out" 2>&1 &
demo=$!
pids+=($demo)
left() { pgrep -f "gpuwire balance.*--config $work/gpuwire-demo-" >/dev/null; }
none_left() { ! left; }
wait_for "$work/cut.out" 'API on' $demo || fail "the second demo does not begin"
left || fail "this test does not see the demo's balancer"
kill -TERM $demo
wait $demo
[ $? = 130 ] || fail "a demo that was cut short ended with $?"
[ -z "$(find "$work" -maxdepth 1 -name 'gpuwire-demo-*')" ] || fail "the demo leaves a folder"
left && fail "the demo leaves a balancer"
"$GPUWIRE" balance demo >"$work/killed.out" 2>&1 &
demo=$!
pids+=($demo)
wait_for "$work/killed.out" 'API on' $demo || fail "the third demo does not begin"
kill -KILL $demo
wait $demo 2>/dev/null
eventually none_left || fail "a demo that was killed leaves a balancer: $(pgrep -af "$work/gpuwire-demo-")"
