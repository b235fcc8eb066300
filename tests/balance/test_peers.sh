#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The balancer's control plane among peers that are silent or hostile: workers that do not answer, strangers at the standby's
# door, other users and web pages at the API's. Needs no privilege; root tries another user, too.
. "$(dirname "$0")/../integration/lib.sh"
need curl jq python3 openssl
conf=$work/b.conf

# start NAME: `gpuwire balance --config $conf`; sets $balancer and $api.
start() {
    "$GPUWIRE" balance --config "$conf" >"$work/$1.out" 2>&1 &
    balancer=$!
    pids+=("$balancer")
    wait_for "$work/$1.out" 'API on' "$balancer" || fail "$1: not ready"
    api=127.0.0.1:$(sed -n 's/.*API on .* port \([0-9]*\).*/\1/p' "$work/$1.out")
}
end() {
    kill -TERM "$balancer"
    wait "$balancer" || fail "it ended with $?"
}

# ---- workers that do not answer keep healthy ones from theirs ----

# A port whose queue is full drops every other SYN: so dark workers need no network of their own. Two ports through it answer.
python3 - "$work/ports" <<'EOP' &
import os
import socket
import sys

dark = socket.socket()
dark.bind(("0.0.0.0", 0))
dark.listen(0)
fill = [socket.socket() for _ in range(8)]
for s in fill:
    s.setblocking(False)
    s.connect_ex(("127.0.0.1", dark.getsockname()[1]))
well = socket.socket()
well.bind(("127.0.0.1", 0))
well.listen(64)
with open(sys.argv[1] + ".new", "w", encoding="ascii") as f:
    print(dark.getsockname()[1], well.getsockname()[1], file=f)
os.rename(sys.argv[1] + ".new", sys.argv[1])
while True:
    well.accept()[0].close()
EOP
pids+=($!)
ports_there() { [ -s "$work/ports" ]; }
eventually ports_there || fail "no ports"
read -r dark well <"$work/ports"
{
    printf 'global_defs {\n api 127.0.0.1 0\n run_dir %s/run\n}\nvirtual_server 10.99.0.1 80 {\n name dark\n lb_kind NAT\n TCP_CHECK {\n delay_loop 0.3\n connect_timeout 0.3\n }\n' "$work"
    for ((i = 0; i < 250; i++)); do printf ' real_server 127.1.%d.%d %d {\n }\n' $((i / 100 + 1)) $((i % 100 + 1)) "$dark"; done
    printf '}\nvirtual_server 10.99.0.2 80 {\n name well\n lb_kind NAT\n TCP_CHECK {\n delay_loop 0.3\n connect_timeout 0.3\n }\n real_server 127.0.0.1 %d {\n name well\n }\n}\n' "$well"
} >"$conf"
start storm
# "DARK WELL": how often each dark worker has been checked at least, and the healthy one, at one moment.
checks() { curl -sf "http://$api/v1/services" | jq -r '[.services[] | [.workers[].health.checks] | min] | join(" ")'; }
checked() { read -r dark well < <(checks) && [ "$dark" -ge "$1" ]; }
eventually checked 2 || fail "dark workers are not checked"
first=$dark before=$well
eventually checked $((first + 4)) || fail "dark workers are not checked again"
[ $((well - before)) -ge 3 ] || fail "while each of 250 dark workers was checked four times, a healthy one was checked $((well - before)) times"
end

# ---- the API: other users, and web pages of other sites ----

printf 'global_defs {\n api 127.0.0.1 0\n run_dir %s/run\n}\n' "$work" >"$conf"
start api
# status WORD...: what a call is answered with.
status() { curl -s -o "$work/answer" -w '%{http_code}' "$@"; }
# answers STATUS WORD...
answers() {
    local got
    got=$(status "${@:2}")
    [ "$got" = "$1" ] || fail "curl ${*:2}: $got, not $1: $(cat "$work/answer")"
}
new='{"address": "10.99.0.9", "port": 80, "name": "new"}'
json='Content-Type: application/json'
services=http://$api/v1/services
answers 200 "$services"
answers 403 -d "$new" -H 'Content-Type: text/plain' -H 'Host: evil.example' -H 'Origin: http://evil.example' "$services"
answers 415 -d "$new" -H 'Content-Type: text/plain' "$services"
answers 415 -d "$new" -H 'Content-Type:' "$services"
answers 415 -d "$new" "$services"
answers 403 -d "$new" -H "$json" -H 'Origin: http://evil.example' "$services"
answers 403 -d "$new" -H "$json" -H 'Origin: null' "$services"
answers 403 -H "Host: evil.example:${api##*:}" "$services"
answers 403 -X DELETE -H 'Origin: http://evil.example' "$services/new"
[ "$(curl -s "$services" | jq '.services | length')" = 0 ] || fail "a web page of another site has added a service"
answers 201 -d "$new" -H "$json" -H "Origin: http://$api" "$services"
answers 200 -H "Host: localhost:${api##*:}" "$services/new"
answers 200 -X DELETE "$services/new"
# The page shows itself to everyone, and nothing but itself may run in it.
answers 200 -D "$work/headers" -H 'Host: evil.example' "http://$api/"
grep -q '<title>gpuwire balance' "$work/answer" && grep -qi "^Content-Security-Policy: default-src 'none'" "$work/headers" || fail "the page: $(cat "$work/headers")"
answers 200 "http://$api/balance.js"
answers 200 "http://$api/balance.css"
[ "$(stat -c %a "$work/run/api.token")" = 600 ] || fail "others may read the token"
token=$(cat "$work/run/api.token")
bearer="Authorization: Bearer $token"
if [ "$(id -u)" = 0 ]; then
    other=(setpriv --reuid=64321 --regid=64321 --clear-groups)
    chmod 711 "$work"
    stranger() { "${other[@]}" curl -s -o /dev/null -w '%{http_code}' "$@"; }
    [ "$(stranger "$services")" = 401 ] || fail "another user reads the services"
    [ "$(stranger -d "$new" -H "$json" "$services")" = 401 ] || fail "another user adds a service"
    [ "$(stranger -H "Authorization: Bearer ${token%?}0" "$services")" = 401 ] || fail "a wrong token opens"
    [ "$(stranger -H "$bearer" "$services")" = 200 ] || fail "the token does not open"
    "${other[@]}" "$GPUWIRE" balance list --api "$api" 2>&1 | grep -q -- 'api.token' || fail "the tool does not say which token: $("${other[@]}" "$GPUWIRE" balance list --api "$api" 2>&1)"
    # One that sends and closes at once leaves a socket that the kernel calls root's. And one that takes all the places it can get.
    python=/usr/bin/python3 # the first of the path may be one that only root can run
    "${other[@]}" $python - "${api##*:}" "$new" >"$work/crowd.out" 2>&1 <<'EOP' &
import resource
import socket
import sys
import time

for _ in range(50):
    s = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
    s.sendall(f"POST /v1/services HTTP/1.0\r\nContent-Type: application/json\r\nContent-Length: {len(sys.argv[2])}\r\n\r\n{sys.argv[2]}".encode())
    s.close()
resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
kept = []
try:
    for i in range(10000):
        kept.append(socket.create_connection(("127.0.0.1", int(sys.argv[1])), timeout=1))
except OSError:
    pass
print(f"{len(kept)} connections", flush=True)
time.sleep(600)
EOP
    crowd=$!
    pids+=($crowd)
    wait_for "$work/crowd.out" connections $crowd || fail "no crowd"
    answers 200 "$services"
    kill $crowd
    [ "$(jq '.services | length' "$work/answer")" = 0 ] || fail "another user who closes at once is taken for root"
fi
end
start again
[ "$(cat "$work/run/api.token")" = "$token" ] || fail "a start makes another token"
end
# refused TEXT: it does not start, and says that.
refused() {
    "$GPUWIRE" balance --config "$conf" >"$work/refused.out" 2>&1 && fail "it starts, though $1"
    grep -q "$1" "$work/refused.out" || fail "it does not say: $1"
}
chmod 644 "$work/run/api.token"
refused 'no one else may read'
chmod 600 "$work/run/api.token"
chmod 777 "$work/run"
refused 'no one else may write'
chmod 700 "$work/run"

# ---- a standby among strangers ----

sync_port=$(free_port)
relay_port=$(free_port)
echo 'a-key-that-both-have' >"$work/key"
echo 'another-key-of-a-stranger' >"$work/wrong"
psk=$(tr -d '\n' <"$work/key" | sha256sum | cut -d' ' -f1)
printf 'global_defs {\n api 127.0.0.1 0\n run_dir %s/run2\n sync_listen 127.0.0.1 %s\n sync_key_file %s/key\n}\n' "$work" "$sync_port" "$work" >"$work/standby.conf"
# active_file KEY PORT
active_file() { printf 'global_defs {\n api 127.0.0.1 0\n run_dir %s/run\n standby 127.0.0.1 %s\n sync_key_file %s\n}\n' "$work" "$2" "$1" >"$conf"; }
synced() { [ "$(curl -sf "http://$1/v1/stats" | jq .data.sync.connected)" = "$2" ]; }
cp "$work/standby.conf" "$conf"
start standby
standby=$balancer standby_api=$api
# Silent ones, one with half a frame, one that talks, one with the identity but another key: they stay as long as they may.
python3 - "$sync_port" >"$work/strangers.out" 2>&1 <<'EOP' &
import socket
import sys

port = int(sys.argv[1])
kept = []
for i in range(400):
    s = socket.create_connection(("127.0.0.1", port))
    if i % 3 == 1:
        s.sendall(b"\x16\x03\x01\x02\x00\x01")
    if i % 3 == 2:
        s.sendall(b"GET / HTTP/1.0\r\n\r\n")
    kept.append(s)
print("knocked", flush=True)
sys.stdin.read()
for s in kept:
    s.settimeout(60)
    try:
        while s.recv(4096):
            pass
    except ConnectionResetError:
        pass
print("all were turned away", flush=True)
EOP
strangers=$!
pids+=($strangers)
wait_for "$work/strangers.out" knocked $strangers || fail "no strangers"
# A relay writes down what both say.
python3 - "$relay_port" "$sync_port" "$work" <<'EOP' &
import socket
import sys
import threading

listener = socket.socket()
listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
listener.bind(("127.0.0.1", int(sys.argv[1])))
listener.listen(8)


def pump(a, b, name):
    with open(f"{sys.argv[3]}/{name}.said", "wb", buffering=0) as f:
        try:
            while data := a.recv(65536):
                f.write(data)
                b.sendall(data)
            b.shutdown(socket.SHUT_WR)
        except OSError:
            a.close()
            b.close()


while True:
    a = listener.accept()[0]
    b = socket.create_connection(("127.0.0.1", int(sys.argv[2])))
    threading.Thread(target=pump, args=(a, b, "active"), daemon=True).start()
    threading.Thread(target=pump, args=(b, a, "standby"), daemon=True).start()
EOP
pids+=($!)
active_file "$work/key" "$relay_port"
start active
eventually synced "$api" true || fail "strangers keep the active balancer from its standby"
eventually synced "$standby_api" true || fail "the standby does not know its active balancer"
wait_for "$work/strangers.out" 'turned away' $strangers || fail "strangers may stay"
# A second active balancer is served beside the first.
first=$balancer first_api=$api first_conf=$conf
conf=$work/second.conf
sed "s|$work/run\$|$work/run3|" "$first_conf" >"$conf"
start second
eventually synced "$api" true && synced "$first_api" true || fail "the standby serves one active balancer alone"
end
balancer=$first api=$first_api conf=$first_conf
plane=$(curl -sf "http://$api/v1/stats" | jq .data.pid)
plane2=$(curl -sf "http://$standby_api/v1/stats" | jq .data.pid)

# Each side notices that the other one is silent, and that it is back.
kill -STOP "$plane2"
eventually synced "$api" false || fail "a standby that stands still counts as connected"
"$GPUWIRE" balance top --once --interval 50 --api "$api" | grep -q 'NO STANDBY' || fail "top does not say that there is no standby"
# A data plane that stands still takes connections, and forwards nothing.
health() { [ "$(curl -s -o /dev/null -w '%{http_code}' "http://$standby_api/v1/health")" = "$1" ]; }
eventually health 503 || fail "a data plane that stands still is in good health"
for _ in {1..30}; do
    health 503 || fail "a data plane that stands still is in good health again"
    nap 0.1
done
"$GPUWIRE" balance list --api "$standby_api" | grep -q 'NO DATA PLANE' || fail "list does not say that the data plane is silent"
curl -sf "http://$standby_api/metrics" | grep -q '^gpuwire_balance_data_plane_up 0' || fail "the metrics say that the data plane is up"
kill -CONT "$plane2"
eventually synced "$api" true || fail "the standby does not come back"
eventually health 200 || fail "a data plane that goes on stays ill"
[ "$(curl -sf "http://$standby_api/v1/stats" | jq .restarts)" = 0 ] || fail "a data plane that stood still counts as started again"
kill -STOP "$plane"
eventually synced "$standby_api" false || fail "an active balancer that stands still counts as connected"
kill -CONT "$plane"
eventually synced "$standby_api" true || fail "the active balancer does not come back"
grep -q 'standby 127.0.0.1 port .*: it does not answer' "$work/active.out" || fail "the active balancer says nothing of its standby"
end

# What was said holds no key, and said once more it opens nothing.
grep -qaF "$(cat "$work/key")" "$work"/*.said && fail "the key went over the wire"
[ -s "$work/active.said" ] && [ -s "$work/standby.said" ] || fail "the relay heard nothing"
python3 - "$sync_port" "$work/active.said" <<'EOP' || fail "what was said before is taken once more"
import socket
import sys

s = socket.create_connection(("127.0.0.1", int(sys.argv[1])), timeout=60)
answer = b""
try:
    with open(sys.argv[2], "rb") as f:
        s.sendall(f.read())
    while data := s.recv(65536):
        answer += data
except (ConnectionResetError, BrokenPipeError):
    pass
assert len(answer) < 1024, len(answer)  # the handshake of a key's owner, and no frame
EOP
eventually synced "$standby_api" false || fail "the standby takes an echo for the active balancer"

# Another key is refused, and both say so.
active_file "$work/wrong" "$sync_port"
start wrong
wait_for "$work/wrong.out" 'sync_key_file must be the same' "$balancer" || fail "the active balancer does not say that its key is wrong"
wait_for "$work/standby.out" 'does not prove the key' "$standby" || fail "the standby does not say that the key is wrong"
synced "$api" false && synced "$standby_api" false || fail "another key is taken"
end

# One that has the key, and then is silent: as a standby, and as an active balancer.
silences() { grep -c 'connected, but silent' "$work/standby.out"; }
silences_before=$(silences) # of the active balancer that stood still: its connection may have ended otherwise
silent_port=$(free_port)
mkfifo "$work/quiet"
exec {quiet}<>"$work/quiet" # open for writing, and never written
openssl s_server -quiet -nocert -tls1_3 -psk "$psk" -psk_identity gpuwire-balance -accept "127.0.0.1:$silent_port" <"$work/quiet" >"$work/server.said" 2>&1 &
pids+=($!)
active_file "$work/key" "$silent_port"
start silent
openssl s_client -quiet -tls1_3 -psk "$psk" -psk_identity gpuwire-balance -connect "127.0.0.1:$sync_port" <"$work/quiet" >"$work/client.said" 2>&1 &
pids+=($!)
turned_away() { [ "$(silences)" -gt "$silences_before" ]; }
eventually turned_away || fail "an active balancer that says nothing may stay"
wait_for "$work/silent.out" 'does not answer' "$balancer" || fail "a standby that never answers counts as connected"
synced "$api" false && synced "$standby_api" false || fail "a silent peer counts as connected"
end
balancer=$standby
end
echo "peers: ok"
