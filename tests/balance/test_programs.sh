#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Programs of the distribution through the balancer, in network namespaces: test_programs.sh DR|TUN|GUE|NAT
. "$(dirname "$0")/../integration/lib.sh"
. "$(dirname "$0")/net.sh"
need nginx curl jq python3 wrk redis-server redis-cli iperf3 tshark dumpcap
"$GPUWIRE" balance check /dev/null >/dev/null || fail "gpuwire has no balancer"
forward=$1
make_net 2 "$forward"
# Two queues, each with a core of its own, where there are two processors. One is the others' test.
cores=
case $forward in NAT | DR) cores=$(python3 -c 'import os; print(*sorted(os.sched_getaffinity(0))[:2])') ;; esac

# ---- the workers ----

web() {
    mkdir -p "$work/$1"
    cat >"$work/$1/nginx.conf" <<EOC
daemon off;
user root;
pid $work/$1/pid;
error_log $work/$1/error.log;
worker_processes 1;
events { worker_connections 512; }
http {
    access_log off;
    client_body_temp_path $work/$1/a; proxy_temp_path $work/$1/b; fastcgi_temp_path $work/$1/c;
    uwsgi_temp_path $work/$1/d; scgi_temp_path $work/$1/e;
    server { listen 80; listen [::]:80; location / { return 200 "$1\n"; } location /big { root $work; } }
}
EOC
    at "$1" nginx -c "$work/$1/nginx.conf" >"$work/$1.out" 2>&1 &
    pids+=($!)
}
head -c 3000000 /dev/urandom >"$work/big"
for w in w1 w2; do
    web $w
    at $w redis-server --port 6379 --bind '*' '-::*' --protected-mode no --save '' --dir "$work" >"$work/$w.redis.out" 2>&1 &
    pids+=($!)
    # A datagram's answer must come from the address that was asked.
    at $w iperf3 -s --forceflush $([ "$forward" = NAT ] || echo "-B $vip") >"$work/$w.iperf.out" 2>&1 &
    pids+=($!)
    case $forward in
    TUN | GUE)
        at $w python3 "$(dirname "$0")/untunnel.py" "$forward" >"$work/$w.tunnel.out" 2>&1 &
        pids+=($!)
        ;;
    esac
done

service() { # NAME ADDRESS PORT PROTOCOL WORKER...
    local name=$1 addr=$2 port=$3 protocol=$4
    shift 4
    printf 'virtual_server %s %s {\n name %s\n protocol %s\n lb_algo rr\n lb_kind %s\n delay_loop 0.2\n' "$addr" "$port" "$name" "$protocol" "$forward"
    for w in "$@"; do printf ' real_server %s %s { name w%s\n }\n' "$w" "$port" "${w: -1}"; done
    printf '}\n'
}
{
    service web "$vip" 80 tcp 10.77.0.21 10.77.0.22
    service web6 "$vip6" 80 tcp fd77::21 fd77::22
    service redis "$vip" 6379 tcp 10.77.0.21 10.77.0.22
    # iperf3 takes a check's connection for a client.
    service iperf "$vip" 5201 tcp 10.77.0.21 | sed 's/ delay_loop.*/ NO_CHECK/'
    service iperfu "$vip" 5201 udp 10.77.0.21
    service echo "$vip" 5300 udp 10.77.0.21 10.77.0.22
} | cores=$cores config >"$work/balance.conf"
balance "$work/balance.conf"
for s in web web6 redis; do eventually up_are $s 2 || { ask list >&2; fail "$s: its workers are not up"; }; done

# ---- curl: both workers answer, in turn, over IPv4 and IPv6 ----

watch w1 w2 client
fetch() { at client curl -sf --max-time "$patience" "$@"; }
for url in "http://$vip/" "http://[$vip6]/"; do
    eventually fetch "$url" >/dev/null || fail "$url: no answer"
    seen=$(for _ in 1 2 3 4 5 6; do fetch "$url" || echo none; done | sort | uniq -c | awk '{printf "%s=%s ", $2, $1}')
    [ "$seen" = "w1=3 w2=3 " ] || fail "$url: $seen"
    echo "curl $url: $seen"
done
fetch "http://$vip/big" -o "$work/got" || fail "a large answer does not come"
cmp -s "$work/big" "$work/got" || fail "the large answer is not what was sent"
head -c 2000000 /dev/zero | fetch -T - "http://$vip/" -o /dev/null -w '%{http_code}\n' >"$work/put.out" || true
grep -q '^[24]' "$work/put.out" || fail "a large request got no answer"

# ---- wrk: many connections, and no error ----

at client wrk -t1 -c20 -d1 --timeout 60s "http://$vip/" >"$work/wrk.out" 2>&1 || fail "wrk failed"
grep -q 'Socket errors' "$work/wrk.out" && fail "wrk has seen errors"
grep -q 'Requests/sec: *[1-9]' "$work/wrk.out" || fail "wrk had no answers"
echo "wrk: $(sed -n 's/Requests.sec: */requests\/s /p' "$work/wrk.out")"

# ---- redis, iperf3 over TCP and UDP ----

at client redis-cli -h "$vip" -r 200 INCR n >"$work/redis.out" 2>&1 || fail "redis does not answer"
[ "$(sort -n "$work/redis.out" | tail -n 1)" = 200 ] || fail "one connection's 200 increments did not all reach one server"
# Datagrams of 4000 bytes come in fragments. A tunnel has no room for them.
large=("-u -b 20M -l 4000" "-u -b 20M -l 4000 -R")
case $forward in TUN | GUE) large=() ;; esac
tests=0
listens() { [ "$(grep -c 'Server listening' "$work/w1.iperf.out")" -gt "$tests" ]; } # it takes one client at a time
for flags in "-b 200M" "-u -b 20M" "-R -b 200M" "${large[@]}"; do
    eventually listens || fail "the iperf3 server does not listen again"
    tests=$((tests + 1))
    at client timeout "$patience" iperf3 -c "$vip" -t 1 $flags >"$work/iperf.out" 2>&1 || fail "iperf3 $flags"
    grep -q 'sec  *0.00 Bytes .*receiver' "$work/iperf.out" && fail "iperf3 $flags: nothing arrives: $(cat "$work/iperf.out")"
    echo "iperf3 $flags: $(sed -n 's/.*sec  *\(.*bits\/sec\).*receiver/\1/p' "$work/iperf.out")"
done

watched 1000

# ---- a worker drains while a connection is open: that one stays, new ones go to the other ----

mkfifo "$work/pipe"
at client redis-cli -h "$vip" <"$work/pipe" >"$work/held.out" 2>&1 &
pids+=($!)
exec {pipe}>"$work/pipe"
echo 'INCR held' >&"$pipe"
eventually grep -q '^1$' "$work/held.out" || fail "the connection to be held is not there"
holder=w1
[ "$(at w1 redis-cli GET held)" = 1 ] || holder=w2
other=$([ $holder = w1 ] && echo w2 || echo w1)
ask remove redis $holder >/dev/null || fail "remove"
[ "$(worker_value redis $holder .state)" = '"draining"' ] || fail "it does not drain"
for _ in 1 2 3 4; do at client redis-cli -h "$vip" INCR fresh >/dev/null || fail "a new connection, while one worker drains"; done
[ "$(at $other redis-cli GET fresh)" = 4 ] || fail "new connections go to the worker that drains"
echo 'INCR held' >&"$pipe"
eventually grep -q '^2$' "$work/held.out" || fail "the held connection broke"
[ "$(at $holder redis-cli GET held)" = 2 ] || fail "the held connection has moved"
exec {pipe}>&-
gone_from_list() { [ -z "$(worker_value redis $holder .name)" ]; }
eventually gone_from_list || fail "the worker does not leave after its last connection"
echo "drain: the open connection stayed, the worker left"

# ---- a UDP client that never pauses: a drain ends by its limit ----

for w in w1 w2; do
    at $w python3 -c 'import socket, sys
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.bind((sys.argv[1], 5300))
while True:
    s.sendto(sys.argv[2].encode(), s.recvfrom(64)[1])' $([ "$forward" = NAT ] && echo 0.0.0.0 || echo "$vip") $w >"$work/$w.echo.out" 2>&1 &
    pids+=($!)
done
at client python3 -uc 'import socket, sys, time
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.connect((sys.argv[1], 5300))
s.settimeout(0.02)
while True:
    try:
        s.send(b"who")
        print(s.recv(64).decode())
    except OSError:
        pass
    time.sleep(0.02)' "$vip" >"$work/echo.out" 2>&1 &
pids+=($!)
eventually grep -q '^w' "$work/echo.out" || fail "no UDP echo"
holder=$(tail -n 1 "$work/echo.out")
other=$([ "$holder" = w1 ] && echo w2 || echo w1)
ask drain echo "$holder" --limit 3 >/dev/null || fail "drain --limit"
ask list | grep "$holder .*10.77.0.2.:5300.*draining.*ends in [123] s" >/dev/null || fail "list does not say when the drain ends: $(ask list)"
[ "$(tail -n 1 "$work/echo.out")" = "$holder" ] || fail "the client moved before the limit"
answers_from() { [ "$(tail -n 1 "$work/echo.out")" = "$1" ]; }
eventually answers_from "$other" || fail "the drain of a UDP worker does not end"
is_drained() { [ "$(worker_value echo "$holder" .state)" = '"drained"' ]; }
eventually is_drained || fail "it is $(worker_value echo "$holder" .state)"
echo "drain: the UDP client moved when the limit had passed"

# ---- a worker is killed: the check notices, and clients reach the other ----

kill -KILL $(cat "$work/w1/pid") 2>/dev/null
for p in $(ip netns pids "$id-w1"); do grep -qa nginx "/proc/$p/cmdline" 2>/dev/null && kill -KILL "$p" 2>/dev/null; done
eventually up_are web 1 || fail "the check has not noticed the dead worker"
for _ in 1 2 3 4; do [ "$(fetch "http://$vip/")" = w2 ] || fail "a client was sent to the dead worker"; done
echo "killed: clients go to the other worker"

kill -TERM "$balancer"
wait "$balancer" || fail "the balancer ended with $?"
[ -z "$(ip netns pids "$id-lb")" ] || fail "the data plane is still there"
