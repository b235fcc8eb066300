#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# What people use in keepalived's files, in network namespaces: the sorry server, quorum,
# inhibit_on_failure, weights, persistence, and its checks.
. "$(dirname "$0")/../integration/lib.sh"
. "$(dirname "$0")/net.sh"
need curl jq python3 socat openssl
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
    for port in 81 82 83 84 85; do serve $w $port; done
done
# ---- checks of several kinds: what w1 must answer ----

openssl req -x509 -newkey rsa:2048 -nodes -keyout "$work/key" -out "$work/cert" -days 2 -subj /CN=w1 >/dev/null 2>&1 || fail "no certificate"
serve w1 443 "$work/cert" "$work/key"
at w1 sysctl -qw net.ipv4.icmp_ratelimit=0 # else a host sends one error a second
ip netns exec "$id-w1" python3 -c '
import socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.bind(("10.77.0.21", 9053))
while True:
    data, to = s.recvfrom(2048)
    if data[:1] == b"\xab":
        s.sendto(b"\xcd" + data[1:], to)
' &
pid_of[w1.udp]=$!
pids+=($!)
# Scripts lie where only root may write, all the way up: in a file system of the balancer's own.
mkdir -p "$work/scripts/open" "$work/out"
chmod 711 "$work"
chmod 777 "$work/out" "$work/scripts/open"
cat >"$work/scripts/look" <<'EOS'
#!/bin/sh
[ "$1 $2" = "one two" ] || exit 1
id -un >"$3/ran"
exit "$(cat "$3/status")"
EOS
cp "$work/scripts/look" "$work/scripts/writable"
chmod 755 "$work/scripts/look"
chmod 775 "$work/scripts/writable"
ln -s ../look "$work/scripts/open/linked"
echo 0 >"$work/out/status"
cat >"$work/gpuwire" <<EOS
#!/bin/sh
mount -t tmpfs none /mnt && cp -a $work/scripts /mnt && chmod 755 /mnt && exec $GPUWIRE "\$@"
EOS
chmod 755 "$work/gpuwire"

# check NAME BLOCK...: a service of w1 alone on port 85, which that block checks.
checked=()
check() {
    local port=${vip_port:-$((8500 + ${#checked[@]}))}
    checked+=("$1")
    printf 'virtual_server %s %s {\n name %s\n lb_kind %s\n delay_loop 0.2\n retry 0\n real_server 10.77.0.21 85 {\n name w1\n' "$vip" "$port" "$1" "${kind:-NAT}"
    printf '%s\n' "${@:2}"
    printf ' }\n}\n'
}
sum=$(printf 'w1\n' | md5sum | cut -d' ' -f1)
checks() {
    check two_urls ' HTTP_GET {' ' rise 1' ' url {' ' path /a' ' }' ' url {' ' path /b' ' status_code 200-299 404' ' }' ' }'
    check two_checkers ' TCP_CHECK {' ' rise 1' ' connect_port 9999' ' }' ' HTTP_GET {' ' rise 1' ' }'
    check digest ' HTTP_GET {' ' rise 1' ' url {' ' path /' " digest $sum" ' }' ' }'
    check bad_digest ' HTTP_GET {' ' rise 1' ' url {' ' path /host' " digest $sum" ' }' ' }'
    check host ' HTTP_GET {' ' rise 1' ' url {' ' path /host' ' virtualhost shop.example' " digest $(printf 'w1 shop.example\n' | md5sum | cut -d' ' -f1)" ' }' ' }'
    check https ' SSL_GET {' ' rise 1' ' connect_port 443' ' url {' ' path /tls' ' }' ' url {' ' path /' " digest $sum" ' }' ' }'
    check no_tls ' SSL_GET {' ' rise 1' ' connect_timeout 0.5' ' }'
    check elsewhere ' TCP_CHECK {' ' rise 1' ' connect_ip 10.77.0.22' ' connect_port 85' ' bindto 10.77.0.10' ' }'
    check bad_bind ' TCP_CHECK {' ' rise 1' ' bindto 10.99.0.1' ' }'
    check udp ' UDP_CHECK {' ' rise 1' ' connect_port 9053' ' payload ab 01' ' require_reply cd 0x' ' connect_timeout 0.5' ' }'
    check udp_other ' UDP_CHECK {' ' rise 1' ' connect_port 9053' ' payload ab 01' ' require_reply ce' ' connect_timeout 0.5' ' }'
    check udp_silent ' UDP_CHECK {' ' rise 1' ' connect_port 9053' ' payload 01' ' connect_timeout 0.3' ' }'
    check udp_nobody ' UDP_CHECK {' ' rise 1' ' connect_port 9054' ' connect_timeout 0.5' ' }'
    check udp_no_reply ' UDP_CHECK {' ' rise 1' ' connect_port 9053' ' payload 01' ' require_reply' ' connect_timeout 0.3' ' }'
    vip_port=85 kind=DR check script ' MISC_CHECK {' ' rise 1' " misc_path \"/mnt/scripts/look one two $work/out\"" ' misc_dynamic' ' misc_timeout 20' ' user nobody' ' }'
    check script_slow ' MISC_CHECK {' ' rise 1' ' misc_path "/bin/sleep 4321.5"' ' misc_timeout 0.4' ' }'
    check script_writable ' MISC_CHECK {' ' rise 1' " misc_path /mnt/scripts/writable" ' }'
    check script_linked ' MISC_CHECK {' ' rise 1' " misc_path /mnt/scripts/open/linked" ' }'
}
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
    checks
} | config >"$work/b.conf"
GPUWIRE=$work/gpuwire balance "$work/b.conf"

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
GPUWIRE=$work/gpuwire balance "$work/b.conf"
[ "$(from 10.77.1.1)" = "$other" ] || fail "stick: the control plane started again, and the client went elsewhere"
eventually stick_to 0 || fail "stick: $(sticking) clients are counted when their time is over"

# ---- checks ----

why() { worker_value "$1" w1 .health.why; }
because() { # NAME WHY: it is down, and that is why
    ask list --json >"$work/list"
    jq -e --arg name "$1" --arg why "$2" '.services[] | select(.name == $name) | .workers[0] | .state == "down" and (.health.why | contains($why))' "$work/list" >/dev/null
}
up() { for n in "$@"; do eventually is "$n" w1 up || fail "$n: w1 is not up: $(why "$n")"; done; }
down() { eventually because "$1" "$2" || fail "$1: w1 is $(state "$1" w1), because of $(why "$1"), not $2"; }
up two_urls digest host https elsewhere udp udp_silent script
say w1 85 '/b 500'
down two_urls 'http /b: HTTP status 500'
say w1 85 '/b 404'
up two_urls
down two_checkers 'tcp: connect: Connection refused'
down bad_digest "digest is $(printf 'w1 10.77.0.21\n' | md5sum | cut -d' ' -f1)"
down no_tls TLS
down bad_bind bindto
down udp_other 'the answer is another one'
down udp_nobody 'refused'
down udp_no_reply 'no answer in time'
say w1 443 '/tls 503'
down https 'https /tls: HTTP status 503'
kill "${pid_of[w1.udp]}"
down udp_silent refused
down udp refused
# Scripts: whose, with which words, how much weight, for how long, and never what others may write.
[ "$(cat "$work/out/ran")" = nobody ] || fail "the script ran as $(cat "$work/out/ran")"
echo 77 >"$work/out/status"
weighs() { [ "$(worker_value script w1 .health.weight)" = "$1" ]; }
eventually weighs 75 || fail "script: status 77, and the worker's weight is $(worker_value script w1 .health.weight)"
gets 85 w1 || fail "script: weight 75, and no connection"
echo 2 >"$work/out/status"
eventually weighs 0 || fail "script: status 2, and the worker's weight is $(worker_value script w1 .health.weight)"
gets 85 '' || fail "script: weight 0, and a connection"
echo 1 >"$work/out/status"
down script 'status 1'
down script_slow 'no answer in time'
[ "$(pgrep -cxf '/bin/sleep 4321.5')" -le 1 ] || fail "scripts that took too long live on"
down script_writable 'others than root may write it'
down script_linked 'others than root may write it'
at lb curl -s -X POST -H 'Content-Type: application/json' -d '{"address": "10.77.0.101", "port": 80, "check": {"kind": "script", "path": "/bin/true"}}' \
    "http://$api/v1/services" >"$work/refused"
grep -q 'only the file may name a script' "$work/refused" || fail "the API takes a script: $(cat "$work/refused")"

# What save prints says the same.
ask save >"$work/saved"
"$GPUWIRE" balance check "$work/saved" >/dev/null || fail "save prints what check refuses"
for words in 'sorry_server 10.77.0.23 81' 'quorum 4' inhibit_on_failure 'weight 65535' 'persistence_timeout 4'; do
    grep -q "$words" "$work/saved" || fail "save does not print $words"
done
echo "sorry server, quorum, inhibit_on_failure, weights, persistence and checks do what keepalived says"
