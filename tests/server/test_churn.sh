#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Clients come, go and die at every door while others stay: no wrong answer, no lost answer, and the server neither grows nor
# loses descriptors. They do so in four rounds. After each there is a quiet moment, with the same few clients, to look at what the
# server has allocated. A leak makes that more in every round; what the server allocates once does so in one of them.
#   test_churn.sh SECONDS
. "$(dirname "$0")/lib.sh" || exit 1
need curl
seconds=$1
# A client that dies with nothing in flight is noticed when its session has been idle for long enough.
serve worker --models "$source_dir/models" --sessions 24 --idle 5
http=http://$server

# What the other model must answer, whichever client dies.
ask() { "$GPUWIRE" infer superresolution --server "$1" --input "$source_dir/models/superresolution/golden_input.npy" --output "$2"; }
ask "$server" "$work/right.npy" >"$work/first.out" 2>&1 || fail 'the first question'
ask "$http" "$work/same.npy" >"$work/first.out" 2>&1 || fail 'the first question over HTTP'
"$GPUWIRE" load identity --server "$http" --requests 10 --verify-echo >"$work/first.out" 2>&1 || fail 'the first requests over HTTP'

# load SERVER REQUESTS SLOTS OUT: its exit code says whether all were answered, and rightly.
load() { exec "$GPUWIRE" load identity --server "$1" --requests "$2" --slots "$3" --verify-echo >"$4" 2>&1; }

# Those that stay.
for door in "$server" "$http"; do
    load "$door" 1000000000 2 "$work/stays-${#pids[@]}.out" &
    stay+=("$!")
    pids+=("$!")
done

# churn N: one client after another, until the file `stop` is there. Says in churn-N.out how many of each kind there were.
churn() {
    local kind door client rc out=$work/client-$1.out
    local -A did=([whole]=0 [killed]=0 [interrupted]=0 [stopped]=0 [question]=0)
    RANDOM=$((round * 100 + $1))
    while [ ! -e "$work/stop" ]; do
        door=$server
        [ $((RANDOM % 2)) = 0 ] || door=$http
        kind=$(shuf -n 1 --random-source=<(yes "$RANDOM") -e whole killed interrupted stopped question)
        if [ "$kind" = question ]; then
            ask "$door" "$work/answer-$1.npy" >"$out" 2>&1 || { echo "$door: $(cat "$out")"; return 1; }
            cmp -s "$work/answer-$1.npy" "$work/right.npy" || { echo "$door: superresolution answered wrongly"; return 1; }
        elif [ "$kind" = whole ]; then
            (load "$door" $((RANDOM % 300 + 1)) $((RANDOM % 8 + 1)) "$out") || { echo "$door: $(cat "$out")"; return 1; }
        else
            load "$door" 1000000000 $((RANDOM % 8 + 1)) "$out" &
            client=$!
            sleep "0.$((RANDOM % 9 + 1))"
            case $kind in
                killed) kill -KILL "$client" ;;
                # Again and again: the shell has it ignored until the client is ready for it.
                interrupted) while kill -INT "$client" 2>/dev/null; do sleep 0.1; done ;;
                stopped) kill -STOP "$client" && sleep 1 && kill -KILL "$client" ;;
            esac
            wait "$client"
            rc=$?
            # One that was interrupted says what it has seen so far.
            [ "$kind" != interrupted ] || ! grep -q 'not their request: [1-9]' "$out" || { echo "wrong: $(cat "$out")"; return 1; }
            [ "$kind" != interrupted ] || [ "$rc" = 130 ] || { echo "interrupted: $rc: $(cat "$out")"; return 1; }
        fi
        did[$kind]=$((did[$kind] + 1))
    done
    for kind in "${!did[@]}"; do printf '%s %s\n' "$kind" "${did[$kind]}"; done
}
descriptors() { find "/proc/$worker/fd" -mindepth 1 | wc -l; }
metric() { curl -sf "$http/metrics" | sed -n "s/^$1 //p"; }
# What malloc has given and not got back. Connections that have just ended are still being put away: the least of some looks.
heap() {
    local least now n
    least=$(metric gpuwire_heap_bytes)
    for n in {1..10}; do
        sleep 0.1
        now=$(metric gpuwire_heap_bytes)
        [ "$now" -ge "$least" ] || least=$now
    done
    echo "$least"
}
# Only those that stay have sessions.
quiet() { stat_is identity sessions_open 1 && stat_is superresolution sessions_open 0; }

# churning SECONDS: until then clients come and go. Sets $heap, $rss and $clients, how many there have been in all.
clients=0 round=0
churning() {
    local churners=() p n until=$((SECONDS + $1))
    round=$((round + 1))
    rm -f "$work/stop"
    for n in 1 2 3 4; do
        churn "$n" >"$work/churn-$n.out" 2>/dev/null &
        churners+=("$!")
        pids+=("$!")
    done
    while [ "$SECONDS" -lt "$until" ]; do
        sleep 1
        kill -0 "$worker" 2>/dev/null || fail 'the server has died'
        for p in "${stay[@]}"; do kill -0 "$p" 2>/dev/null || fail "a client that was to stay has ended after $SECONDS s"; done
        for p in "${churners[@]}"; do kill -0 "$p" 2>/dev/null || fail "after $SECONDS s: $(cat "$work"/churn-*.out)"; done
    done
    touch "$work/stop"
    for p in "${churners[@]}"; do wait "$p" || fail "$(cat "$work"/churn-*.out)"; done
    cat "$work"/churn-*.out >>"$work/churned"
    clients=$(awk '{ n += $2 } END { print n }' "$work/churned")
    eventually quiet || fail 'sessions are left open'
    heap=$(heap)
    rss=$(rss "$worker")
}
SECONDS=0
churning $((seconds / 4))
first=$clients rss_first=$rss least='' heaps=$heap
for _ in 2 3 4; do
    before=$heap
    churning $((seconds / 4))
    heaps+=" $heap"
    [ -n "$least" ] && [ "$least" -lt $((heap - before)) ] || least=$((heap - before))
done
for p in "${stay[@]}"; do
    kill -INT "$p"
    wait "$p"
done
for f in "$work"/stays-*.out; do
    grep -q 'not their request: 0' "$f" || fail 'wrong answers'
    ! grep -qi 'failed' "$f" || fail 'a client that stayed lost answers'
done
for model in identity superresolution; do
    eventually stat_is "$model" sessions_open 0 || fail "$model: sessions are left open"
done
fds=$(descriptors)
echo "${SECONDS} s; clients: $(awk '{ n[$1] += $2 } END { for (k in n) printf "%s %d  ", k, n[k] }' "$work/churned")"
echo "answered: $(stat_of identity answered) of identity; $fds descriptors"
echo "allocated in the quiet moments: $heaps bytes; resident memory: $rss_first KiB after $first clients, $rss KiB after $clients"
# Malloc's books differ by a few connections' buffers. Within the first minutes lists of what can be used again still grow:
# 10,000 clients later the server had no more than this. A session that each of a round's clients leaves is far more.
room=4096
[ "$seconds" -ge 300 ] || room=65536
[ "$least" -lt "$room" ] || fail "the server has at least $least bytes more after each round"
[ $((rss - rss_first)) -lt "${MAY_GROW:-2048}" ] || fail 'the server has grown'
[ "$fds" -lt 200 ] || fail 'the server has kept descriptors'
stop_worker
all_gone
