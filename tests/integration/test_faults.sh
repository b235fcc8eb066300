#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Every kind of fault, either direction: unmodified programs get through, every byte right.
. "${0%/*}/lib.sh"
need ibv_rc_pingpong jq
PAIR_TRIES=3
run() { # NAME FAULTS ARGS...
    local name=$1 nic=addr=$net.1,$2
    shift 2
    pair "$name" "$nic" "addr=$net.2" ibv_rc_pingpong -g 0 -c "$@"
    grep -q 'iters in' "$work/$name.client.out" || fail "$name: no result"
    grep -qi 'invalid data' "$work/$name".*.out && fail "$name: wrong bytes"
}
run sent tx.loss=3%,tx.dup=3%,tx.reorder=3%,tx.corrupt=1%,seed=3 -n 150
run received rx.loss=3%,rx.dup=3%,rx.reorder=3%,rx.corrupt=1%,seed=4 -n 150
run late delay=300us,rx.delay=200us,jitter=200us,rx.jitter=100us,seed=5 -n 40
run slow rate=50M,rx.rate=50M -n 40 -s 16384
run down down=100ms+150ms/400ms+100ms,delay=2ms -n 150

# Cut off forever: whichever of the two has a request under way ends with an error that names it; the other may wait.
port=$(free_port)
GPUWIRE_NIC=addr=$net.3 timeout "$patience" "${gpuwire[@]}" run -- ibv_rc_pingpong -g 0 -n 100000000 -p "$port" >"$work/left.out" 2>&1 &
left=$!
pids+=("$left")
wait_listen "$port" "$left" || fail 'the server does not listen'
GPUWIRE_NIC=addr=$net.4 timeout "$patience" "${gpuwire[@]}" run --fault down=300ms -- \
    ibv_rc_pingpong -g 0 -n 100000000 -p "$port" 127.0.0.1 >"$work/cut.out" 2>&1 &
cut=$!
pids+=("$cut")
wait -n "$left" "$cut" && fail 'cut off, and yet it ends well'
grep -q "NIC $net.[34] .*send WQE at index [0-9]* (SEND of 4096 bytes): no answer from its peer" "$work/cut.out" "$work/left.out" ||
    fail 'cut off: nothing is said'
kill "$left" "$cut" 2>/dev/null
wait "$left" "$cut"
kill "${pids[@]}" 2>/dev/null

refuse() { # WORDS ARGS...
    local words=$1
    shift
    timeout "$patience" "${gpuwire[@]}" run "$@" -- true >"$work/refuse.out" 2>&1
    [ $? = 2 ] || fail "run $*: not refused"
    grep -q -e "$words" "$work/refuse.out" || fail "run $*: nothing is said of $words"
    [ "$(wc -l <"$work/refuse.out")" = 1 ] || fail "run $*: more than one line"
}
refuse "unknown fault 'los'" --fault los=1
refuse 'rx.loss takes a probability' --fault rx.loss=7
refuse 'loss is given twice' --nic loss=0.1 --fault loss=0.1
refuse 'down takes up to 4 periods' --fault down=soon
"${gpuwire[@]}" run --fault none -- true || fail '--fault none'
wait
nothing_left
echo ok
