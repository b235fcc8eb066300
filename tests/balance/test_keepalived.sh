#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# What people use in keepalived's files, in network namespaces: the sorry server, quorum,
# inhibit_on_failure, weights, persistence.
. "$(dirname "$0")/../integration/lib.sh"
. "$(dirname "$0")/net.sh"
need curl jq python3 socat
here=$(dirname "$0")
make_net 3 DR
# Two queues where there are two processors: a client's connections come to either.
cores=$(python3 -c 'import os; print(*sorted(os.sched_getaffinity(0))[:2])')
mkdir -p "$work/says"

# serve WORKER PORT [CERT KEY]: a web server there; its process is in pid_of[WORKER.PORT].
declare -A pid_of
serve() {
    ip netns exec "$id-$1" python3 "$here/answer.py" "$1" "$2" "$work/says" "${@:3}" >"$work/$1.$2.out" 2>&1 &
    pid_of[$1.$2]=$!
    pids+=($!)
}
# say WORKER PORT LINE...: "PATH STATUS" for each path that is not 200.
say() {
    printf '%s\n' "${@:3}" >"$work/says/new"
    mv "$work/says/new" "$work/says/$1.$2"
}
get() { at client curl -s --max-time 5 "http://$vip:$1/${2:-}"; }
gets() { [ "$(get "$1")" = "$2" ]; }
# talk FILE PORT: a connection that stays; say WORDS >&$line, and FILE has the answers.
talk() {
    exec {line}<> <(:)
    ip netns exec "$id-client" socat "TCP:$vip:$2" - <"/dev/fd/$line" >"$work/$1" &
    talker=$!
    pids+=("$talker")
}
state() { worker_value "$1" "$2" .state; }
is() { [ "$(state "$1" "$2")" = "\"$3\"" ]; }
reload() {
    kill -HUP "$balancer"
    sleep 0.3
}

for w in w1 w2; do
    for port in 81 82 83 84; do serve $w $port; done
done
serve w3 81
serve w3 82
{
    printf 'virtual_server %s 81 {\n name sorry\n lb_algo rr\n lb_kind DR\n delay_loop 0.2\n retry 0\n sorry_server 10.77.0.23 81\n' "$vip"
    for w in 1 2; do
        printf ' real_server 10.77.0.2%s 81 {\n name w%s\n HTTP_GET {\n rise 1\n url {\n path /alive\n }\n }\n }\n' $w $w
    done
    printf '}\nvirtual_server %s 82 {\n name quorum\n lb_algo rr\n lb_kind DR\n delay_loop 0.2\n retry 0\n quorum 4\n sorry_server 10.77.0.23\n' "$vip"
    printf ' real_server 10.77.0.21 82 {\n name w1\n weight 1\n HTTP_GET {\n rise 1\n }\n }\n'
    printf ' real_server 10.77.0.22 82 {\n name w2\n weight 3\n HTTP_GET {\n rise 1\n }\n }\n'
    printf '}\nvirtual_server %s 83 {\n name inhibit\n lb_algo wrr\n lb_kind DR\n delay_loop 0.2\n retry 0\n' "$vip"
    printf ' real_server 10.77.0.21 83 {\n name w1\n weight 65535\n inhibit_on_failure\n HTTP_GET {\n rise 1\n url {\n path /alive\n }\n }\n }\n'
    printf ' real_server 10.77.0.22 83 {\n name w2\n weight 0\n HTTP_GET {\n rise 1\n url {\n path /alive\n }\n }\n }\n}\n'
    printf 'virtual_server %s 84 {\n name stick\n lb_algo rr\n lb_kind DR\n delay_loop 0.2\n retry 0\n persistence_timeout 4\n' "$vip"
    for w in 1 2; do printf ' real_server 10.77.0.2%s 84 {\n name w%s\n HTTP_GET {\n rise 1\n url {\n path /alive\n }\n }\n }\n' $w $w; done
    printf '}\n'
} | config >"$work/b.conf"
balance "$work/b.conf"

# ---- the sorry server ----

eventually up_are sorry 3 || fail "sorry: not all are up: $(ask list)"
for _ in {1..12}; do get 81; done | sort -u >"$work/spread"
[ "$(cat "$work/spread")" = $'w1\nw2' ] || fail "sorry: $(cat "$work/spread")"
say w1 81 "/alive 503"
say w2 81 "/alive 503"
eventually gets 81 w3 || fail "sorry: no worker is up, and the sorry server is not asked: $(ask list)"
ask list | grep -q 'sorry server' || fail "the list does not name the sorry server"
talk kept 81
echo before >&$line
wait_for "$work/kept" w3:before $talker || fail "sorry: the sorry server does not answer"
say w2 81
eventually gets 81 w2 || fail "sorry: w2 is back, and the sorry server answers"
for _ in 1 2 3 4; do get 81; done | sort -u >"$work/spread"
echo after >&$line
wait_for "$work/kept" w3:after $talker || fail "sorry: the sorry server's connection is gone when a worker is back"
[ "$(cat "$work/spread")" = w2 ] || fail "sorry: w2 alone is up: $(cat "$work/spread")"
ask drain sorry w2 >/dev/null
eventually gets 81 w3 || fail "sorry: the last one drains, and the sorry server is not asked"
ask up sorry w2 >/dev/null

# ---- quorum ----

eventually up_are quorum 3 || fail "quorum: not all are up"
eventually gets 82 w2 || fail "quorum: there is one, and w2 is not asked"
say w1 82 "/ 500"
eventually gets 82 w3 || fail "quorum: weight 3 of 4 is up, and the sorry server is not asked: $(ask list)"
say w1 82
eventually up_are quorum 3 || fail "quorum: w1 is not up again"
for _ in {1..12}; do get 82; done | sort -u >"$work/spread"
[ "$(cat "$work/spread")" = $'w1\nw2' ] || fail "quorum: it is back: $(cat "$work/spread")"

# ---- inhibit_on_failure, and weights ----

eventually up_are inhibit 2 || fail "inhibit: not all are up"
for _ in 1 2 3 4; do get 83; done | sort -u >"$work/spread"
[ "$(cat "$work/spread")" = w1 ] || fail "weight 0: $(cat "$work/spread")"
talk inhibited 83
echo before >&$line
wait_for "$work/inhibited" w1:before $talker || fail "inhibit: the first line does not come back"
say w1 83 "/alive 503"
eventually is inhibit w1 down || fail "inhibit: w1 is not down"
ask weight inhibit w2 65535 >/dev/null
gets 83 w2 || fail "inhibit: a new connection comes to the failed worker"
echo after >&$line
wait_for "$work/inhibited" w1:after $talker || fail "inhibit: the connection of the failed worker is gone"

# ---- persistence ----

eventually up_are stick 2 || fail "stick: not all are up"
ip -n "$id-client" addr add 10.77.1.2/16 dev eth0
from() { at client curl -s --max-time 5 --interface "$1" "http://$vip:84/"; }
sticking() { ask list --json | jq '[.services[] | select(.name == "stick") | .workers[].flows.clients] | add'; }
stick_to() { [ "$(sticking)" = "$1" ]; }
first=$(from 10.77.1.1)
for _ in 1 2 3 4 5 6; do from 10.77.1.1; done | sort -u >"$work/spread"
[ "$(cat "$work/spread")" = "$first" ] || fail "stick: one client comes to $(cat "$work/spread")"
second=$(from 10.77.1.2)
for _ in 1 2 3; do from 10.77.1.2; done | sort -u >"$work/spread"
[ "$(cat "$work/spread")" = "$second" ] || fail "stick: the other client comes to $(cat "$work/spread")"
eventually stick_to 2 || fail "stick: $(sticking) clients are counted"
ask list | grep -q 'clients stick' || fail "the list does not count clients that stick"
# Its worker fails: the client goes to the other one, and stays there.
say "$first" 84 "/alive 503"
eventually is stick "$first" down || fail "stick: $first is not down"
other=$(from 10.77.1.1)
[ "$other" ] && [ "$other" != "$first" ] || fail "stick: $first is down, and the client comes to $other"
say "$first" 84
eventually up_are stick 2 || fail "stick: $first is not up again"
for _ in 1 2 3; do from 10.77.1.1; done | sort -u >"$work/spread"
[ "$(cat "$work/spread")" = "$other" ] || fail "stick: $first is back, and the client comes to $(cat "$work/spread")"
# The control plane starts again; the clients stay.
kill -KILL "$balancer"
wait "$balancer" 2>/dev/null
balance "$work/b.conf"
[ "$(from 10.77.1.1)" = "$other" ] || fail "stick: the control plane started again, and the client went elsewhere"
eventually stick_to 0 || fail "stick: $(sticking) clients are counted when their time is over"

# What save prints says the same.
ask save >"$work/saved"
"$GPUWIRE" balance check "$work/saved" >/dev/null || fail "save prints what check refuses"
for words in 'sorry_server 10.77.0.23 81' 'quorum 4' inhibit_on_failure 'weight 65535' 'persistence_timeout 4'; do
    grep -q "$words" "$work/saved" || fail "save does not print $words"
done
echo "sorry server, quorum, inhibit_on_failure, weights and persistence do what keepalived says"
