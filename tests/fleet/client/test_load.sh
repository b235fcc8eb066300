#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# `gpuwire load` and `gpuwire infer` over a fleet of fakes: what is within its deadline, refused and lost is counted.
#   test_load.sh FAKE_FLEET
. "$(dirname "$0")/../../integration/lib.sh" || exit 1
coproc fleet { "$1"; }
pids+=("$fleet_PID")
read -r -u "${fleet[0]}" address
tell() { # WORD: the fleet does it
    echo "$1" >&"${fleet[1]}"
    read -r -u "${fleet[0]}" _
}
load() { "$GPUWIRE" load mirror --fleet "$address" "$@" >"$work/out" 2>&1; }
says() { grep -q -- "$1" "$work/out" || { cat "$work/out"; fail "it does not say: $1"; }; }

load --requests 2000 --deadline 30s --slots 32 --verify-echo --json "$work/out.json" || { cat "$work/out"; fail 'load'; }
says '^2000 of 2000 requests answered'
says '^deadlines kept: 100.000 %: 2000 within, 0 late, 0 refused, 0 lost'
says '^answers that are not their request: 0$'
grep -q '"within": 2000' "$work/out.json" || fail 'the file has no deadlines'
load --rate 500 --deadline 5000ms --windows 3 --window 0.2 --stability 100 --warmup 0.1 || { cat "$work/out"; fail 'a rate'; }
says 'kept$'
says '100.000%'

# Fewer than it takes to be steady are refused: no failure, and a count.
tell refuse
load --requests 100 --deadline 30s || { cat "$work/out"; fail 'refusals are no failure'; }
says '^deadlines kept: 0.000 %: 0 within, 0 late, 100 refused, 0 lost'
tell answer

# A worker dies: the other one has the rest.
"$GPUWIRE" load mirror --fleet "$address,127.0.0.1:1" --requests 200000 --deadline 30s --slots 32 >"$work/out" 2>&1 &
one=$!
nap 0.2
tell die
wait "$one" || { cat "$work/out"; fail 'a worker that dies'; }
says '^deadlines kept: 100.000 %: 200000 within, 0 late, 0 refused, 0 lost'

for wrong in 20x 0 -1 x 1e99 nan; do
    load --requests 1 --deadline "$wrong"
    [ $? = 2 ] || fail "--deadline $wrong"
    says "deadline $wrong"
done
load --requests 1 --server 127.0.0.1:1 && fail '--server and --fleet'
says 'do not go together'
"$GPUWIRE" load mirror --fleet 127.0.0.1 --requests 1 2>"$work/out" && fail 'no port'
says 'expected fleet://HOST:PORT'
exit 0
