#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# `gpuwire balance` as its users meet it, without devices: the file, the API's commands, a token, restarts, a server that
# registers itself. Needs no privilege.
. "$(dirname "$0")/../integration/lib.sh"
. "$(dirname "$0")/balancers.sh"
need curl jq
conf=$work/b.conf

# refused STATUS TEXT WORD...: the command ends so, and says that.
refused() {
    local want=$1 text=$2 rc
    shift 2
    "$GPUWIRE" balance "$@" >"$work/refused.out" 2>&1
    rc=$?
    [ "$rc" = "$want" ] && grep -qF -- "$text" "$work/refused.out" || fail "gpuwire balance $*: $rc: $(cat "$work/refused.out")"
}
refused 2 '--config FILE is missing'
refused 2 'lst: no such word' lst
refused 2 'drain: it wants a service and a worker' drain web
refused 2 '--weight 70000: must be a number from 0 to 65535' add web 10.0.0.1 --weight 70000
refused 2 '--speed: no such option' list --speed
refused 1 'No such file' check "$work/none.conf"
refused 1 'no balancer listens there; is `gpuwire balance --config FILE` running?' list --api 127.0.0.1:1
printf 'virtual_server 10.0.0.1 80 {\n    lb_alg rr\n}\n' >"$conf"
refused 1 "$conf:2: lb_alg: virtual_server has no such keyword; did you mean lb_algo?" check "$conf"
refused 1 'did you mean lb_algo?' --config "$conf"

# ---- it runs ----

web=$(free_port)
python3 -m http.server "$web" --bind 127.0.0.1 --directory "$work" >"$work/web.out" 2>&1 &
web_pid=$!
pids+=($web_pid)
wait_listen "$web" $web_pid || fail "no web server"
write_config() {
    cat >"$conf" <<EOC
global_defs {
    api 127.0.0.1 0
    run_dir $work/run-b
    ${token:+token_file $work/token}
}
virtual_server 10.99.0.1 $web {
    name web
    lb_kind NAT
    lb_algo $1
    HTTP_GET {
        delay_loop 0.1
        connect_timeout 5
        url {
            path /
        }
    }
    real_server 127.0.0.1 $web {
        name alive
    }
    real_server 127.0.0.1 1 {
        name dead
    }
}
EOC
}
# start NAME ARGS...: sets $balancer and $api.
start() {
    local name=$1
    shift
    "$GPUWIRE" balance --config "$conf" "$@" >"$work/$name.out" 2>&1 &
    balancer=$!
    pids+=("$balancer")
    wait_for "$work/$name.out" 'API on' "$balancer" || fail "$name: not ready"
    api=127.0.0.1:$(sed -n 's/.*API on .* port \([0-9]*\).*/\1/p' "$work/$name.out")
}
ask() { "$GPUWIRE" balance "$@" --api "$api" ${token:+--token-file "$work/token"}; }
# is WORKER JQ VALUE
is() { [ "$(ask list --json | jq -r ".services[] | .workers[] | select(.name == \"$1\") | $2")" = "$3" ]; }
plane() { ask_stats | jq .data.pid; }
ask_stats() { curl -sf "http://$api/v1/stats"; }

write_config rr
start first
eventually is alive .state up || fail "the worker that answers is not up"
eventually is dead .health.known true || fail "the other one was not checked"
is dead .state down || fail "a worker at a dead address is up"
ask list | grep -q 'dead .*Connection refused' || fail "list does not say why"
ask add 10.99.0.2:53/udp --scheduler mh --forward TUN --name dns >/dev/null || fail "add a service"
ask add dns 10.99.0.3 --weight 4 --name ns1 >/dev/null || fail "add a worker"
is ns1 .state up || fail "a UDP worker without a check is not up"
ask weight 10.99.0.2:53 ns1 9 >/dev/null && is ns1 .weight 9 || fail "weight"
ask drain dns ns1 >/dev/null && is ns1 .drain true || fail "drain"
ask up dns ns1 >/dev/null && is ns1 .state up || fail "up"
ask_stats | jq -e '.version == .data.version and .data.version != null and .data.uptime_ms >= 0' >/dev/null || fail "no version, or none of the data plane"
ask save >"$work/saved.conf" && "$GPUWIRE" balance check "$work/saved.conf" | grep -q '2 services, 3 workers' || fail "save"
ask top --once --interval 50 | grep -q 'alive.*up' || fail "top"
curl -sf "http://$api/metrics" | grep -q '^gpuwire_balance_worker_up{service="web",worker="alive"} 1$' || fail "metrics"
curl -sf "http://$api/" | grep -q '<title>gpuwire balance' || fail "the page"
refused 1 'no such service' remove none --api "$api"
refused 1 'there already' add 10.99.0.2:53/udp --api "$api"

# ---- a change is in force when the call returns; 202 says that it will be soon ----

weigh() { curl -s -o /dev/null -w '%{http_code}' -X PATCH --json "{\"weight\": $1}" "http://$api/v1/services/dns/workers/ns1"; }
[ "$(weigh 8)" = 200 ] || fail "a change of weight is not in force"
kill -STOP "$(plane)"
[ "$(weigh 7)" = 202 ] || fail "a data plane that stands still has a change in force"
kill -CONT "$(plane)"
in_force() { [ "$(weigh $((RANDOM % 100 + 10)))" = 200 ]; }
eventually in_force || fail "no change is in force any more"
[ "$(weigh 9)" = 200 ] || fail "the weight stays as it was"

# ---- the file is read again; a broken one changes nothing ----

write_config mh
kill -HUP "$balancer"
scheduler() { [ "$(ask list --json | jq -r '.services[] | select(.name == "web") | .scheduler')" = "$1" ]; }
eventually scheduler mh || fail "SIGHUP does not read the file again"
is ns1 .weight 9 || fail "what the API had added went with the reload"
echo nonsense >>"$conf"
kill -HUP "$balancer"
wait_for "$work/first.out" 'what ran goes on' "$balancer" || fail "a broken file is not named"
write_config mh

# ---- the control plane dies and comes back: nothing is lost. The data plane dies: it is started again. ----

first_plane=$(plane)
kill -KILL "$balancer"
wait "$balancer" 2>/dev/null
kill -0 "$first_plane" || fail "the data plane went with the control plane"
start second
is ns1 .weight 9 || fail "a service of the API's was forgotten"
is alive .state up || fail "a worker that was up has to be checked first"
eventually ask_stats >/dev/null
[ "$(plane)" = "$first_plane" ] || fail "another data plane was started"
kill -KILL "$first_plane"
wait_for "$work/second.out" 'started again' "$balancer" || fail "the data plane is not started again"
same_again() { [ "$(plane)" != "$first_plane" ] && [ "$(ask_stats | jq .attached)" = true ]; }
eventually same_again || fail "no new data plane"

# ---- a server registers itself, and deregisters ----

if "$GPUWIRE" serve --help >/dev/null 2>&1; then
    port=$(free_port)
    ask add "10.99.0.4:$port" --name infer >/dev/null || fail "a service for the server"
    GPUWIRE_NIC=addr=$net.1 "$GPUWIRE" serve --model identity --exec cpu --port "$port" --grpc off --balancer "http://$api/infer" >"$work/serve.out" 2>&1 &
    server=$!
    pids+=("$server")
    registered() { [ "$(ask list --json | jq -r '.services[] | select(.name == "infer") | .workers[0] | .origin + " " + .state')" = "$1" ]; }
    eventually registered 'itself up' || fail "the server is not up at the balancer: $(ask list)"
    kill -TERM "$server"
    wait "$server" || fail "the server ended with $?"
    eventually registered ' ' || fail "the server did not deregister"
fi

# ---- --keep: the data plane stays for the next one; without it, nothing is left ----

kept=$(plane)
kill -TERM "$balancer"
wait "$balancer" || fail "it ended with $?"
eventually gone "$kept" || fail "the data plane stays"
start third --keep
kept=$(plane)
kill -TERM "$balancer"
wait "$balancer" || fail "--keep: it ended with $?"
kill -0 "$kept" || fail "--keep: the data plane is gone"
token=1
echo a-token-that-is-long-enough >"$work/token"
chmod 600 "$work/token"
write_config mh
start fourth
[ "$(curl -s -o /dev/null -w '%{http_code}' "http://$api/v1/services")" = 401 ] || fail "no token is asked for"
refused 1 'the API wants a token from this user; --token-file' list --api "$api"
ask list | grep -q alive || fail "the token does not open"
kill -TERM "$balancer"
wait "$balancer" || fail "it ended with $?"
eventually gone "$kept" || fail "the kept data plane stays"
echo "balance: ok"
