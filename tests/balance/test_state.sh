#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The balancer's state under bad luck: workers that answer nonsense, files that cannot run, files that are half written, and
# restarts of either process. Needs no privilege.
. "$(dirname "$0")/../integration/lib.sh"
. "$(dirname "$0")/balancers.sh"
need curl jq python3
conf=$work/b.conf

good=$(free_port) evil=$(free_port)
python3 -m http.server "$good" --bind 127.0.0.1 --directory "$work" >"$work/web.out" 2>&1 &
good_pid=$!
# Each answer is another nonsense status line.
python3 - "$evil" >"$work/evil.out" 2>&1 <<'EOP' &
import itertools
import socket
import sys

s = socket.create_server(("127.0.0.1", int(sys.argv[1])))
lines = [b'5"3', b"5\\3", b"\xff\xfe\xfd", b"\x01\x02\x1b", b"{}}", b"\xc3(\x00"]
for line in itertools.cycle(lines):
    c, _ = s.accept()
    try:
        c.recv(4096)
        c.sendall(b"HTTP/1.1 " + line + b" x\r\n\r\n")
    except OSError:
        pass
    c.close()
EOP
evil_pid=$!
pids+=($good_pid $evil_pid)
wait_listen "$good" $good_pid && wait_listen "$evil" $evil_pid || fail "no web servers"

write_config() { # NAME-OF-THE-THIRD
    cat >"$conf" <<EOC
global_defs {
    api 127.0.0.1 0
    run_dir $work/run-s
}
virtual_server 10.99.0.1 $good {
    name web
    lb_kind NAT
    HTTP_GET {
        delay_loop 0.1
        fall 1
    }
    real_server 127.0.0.1 $good {
        name alive
    }
}
virtual_server 10.99.0.1 $evil {
    name other
    lb_kind NAT
    HTTP_GET {
        delay_loop 0.1
    }
    real_server 127.0.0.1 $evil {
        name evil
    }
}
virtual_server 10.99.0.3 80 {
    name third
    lb_kind NAT
    NO_CHECK
    real_server 10.99.0.30 80 {
        name ${1:-one}
    }
}
EOC
}
start() {
    "$GPUWIRE" balance --config "$conf" "${@:2}" >"$work/$1.out" 2>&1 &
    balancer=$!
    pids+=("$balancer")
    wait_for "$work/$1.out" 'API on' "$balancer" || fail "$1: not ready: $(cat "$work/$1.out")"
    api=127.0.0.1:$(sed -n 's/.*API on .* port \([0-9]*\).*/\1/p' "$work/$1.out")
}
ask() { "$GPUWIRE" balance "$@" --api "$api"; }
is() { [ "$(ask list --json | jq -r ".services[] | select(.name == \"$1\") | .workers[] | select(.name == \"$2\") | $3")" = "$4" ]; }
stats() { curl -sf "http://$api/v1/stats" | jq -r "$1"; }
checked() { [ "$(ask list --json | jq '.services[].workers[] | select(.name == "evil").health.checks')" -gt "$1" ]; }

# ---- a worker's nonsense is shown, and stops nothing ----

write_config
start first
eventually is web alive .state up || fail "the good worker is not up"
eventually checked 8 || fail "the evil worker is not checked"
is other evil .state down || fail "a worker that answers nonsense is up"
ask list | grep -q 'evil.*status' || fail "list does not show the evil worker: $(ask list)"
[ -z "$(stats .refused)" ] || fail "the data plane refuses a state: $(stats .refused)"
ask drain web alive >/dev/null || fail "drain fails because of another worker"
eventually is web alive .state drained || fail "a drained worker that is well is $(ask list | grep alive)"
curl -sf "http://$api/metrics" | grep -q 'worker_up{service="web",worker="alive"} 0.5' || fail "a drained worker alarms"
ask save >"$work/saved.conf" && grep -q '^ *drain$' "$work/saved.conf" && "$GPUWIRE" balance check "$work/saved.conf" >/dev/null || fail "save loses the drain"
ask up web alive >/dev/null
kill $good_pid
eventually is web alive .state down || fail "a dead worker stays up because of another one"
python3 -m http.server "$good" --bind 127.0.0.1 --directory "$work" >>"$work/web.out" 2>&1 &
pids+=($!)
eventually is web alive .state up || fail "the worker does not come back"

# ---- a file that cannot run is refused, and nothing changes; a valid one is taken ----

ask add third 10.99.0.31:8080 --name extra >/dev/null || fail "add by the API"
before=$(ask save)
sed -i -e '/name third/,$ s/lb_kind NAT/lb_kind DR/' -e 's/fall 1/fall 9/' "$conf"
"$GPUWIRE" balance check "$conf" >/dev/null || fail "the file is valid by itself"
ask reload >"$work/reload.out" 2>&1 && fail "a reload that cannot run says yes"
grep -q 'service third: worker extra: port 8080: DR changes no ports' "$work/reload.out" || fail "the reload says: $(cat "$work/reload.out")"
[ "$(ask save)" = "$before" ] || fail "a reload that failed has changed something"
write_config two
sed -i 's/10.99.0.30 80/10.99.0.33 80/' "$conf"
ask reload >/dev/null || fail "a valid file is refused"
is third two .state up && is third extra .state up || fail "the reload is not in force: $(ask list)"
write_config
ask reload >/dev/null || fail "the first file is refused"

# ---- the data plane dies while the file is half written: it is started with what runs ----

echo 'interface eth0 { address 999.0.0.1/24' >>"$conf"
first_plane=$(stats .data.pid)
kill -KILL "$first_plane"
other_plane() { [ "$(stats '.attached and .data.pid')" = true ] && [ "$(stats .data.pid)" != "$first_plane" ]; }
eventually other_plane || fail "no new data plane: $(cat "$work/first.out")"
is web alive .state up && is third extra .state up || fail "the new data plane has another state"
ask drain web alive >/dev/null && ask up web alive >/dev/null || fail "the new data plane takes no changes"

# ---- the control plane dies: those that registered themselves stay where they are ----

write_config
put() { curl -sf -X PUT --json '{"address": "10.99.0.35", "queue": 7, "beat_ms": 1000}' "http://$api/v1/services/third/workers/self" >/dev/null; }
put || fail "a worker cannot register itself"
ask drain third extra >/dev/null || fail "drain"
kill -KILL "$balancer"
wait "$balancer" 2>/dev/null
sleep 2
start second
for _ in 1 2 3 4; do
    is third self .state up || fail "the worker that registered itself is $(ask list | grep self)"
    sleep 0.5
done
is third self .telemetry.queue 7 || fail "what the worker said is forgotten"
is third extra .drain true && is other evil .state down || fail "the state is forgotten: $(ask list)"
is web alive .state up || fail "the good worker is down after a start"
put && is third self .leave false || fail "the worker is leaving"
kill -TERM "$balancer"
wait "$balancer" || fail "it ended with $?"
echo "balance: the state is as it should be"
