#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# test_proxy.sh SERVE: a kernel's TCP and UNIX sockets, and programs that know nothing of it: each that is installed.
# HTTP is test_http.sh's.
. "${0%/*}/lib.sh"
. "${0%/*}/serve.sh"

have() { command -v "$1" >/dev/null || { echo "skipped: $1 is not installed"; return 1; }; }

head -c 300000 /dev/urandom >"$work/data"

port=$(free_port)
server python echo "$port" 2
timeout "$patience" python3 - "$port" <<'PY' >"$work/client.out" 2>&1 || fail 'python3'
import os, socket, struct, sys, threading
port = int(sys.argv[1])
def echo(n):
    data, got = os.urandom(n), b''
    s = socket.create_connection(('127.0.0.1', port), 30)
    t = threading.Thread(target=lambda: (s.sendall(data), s.shutdown(socket.SHUT_WR)))
    t.start()
    while len(got) < n:
        part = s.recv(65536)
        assert part, 'it ended early'
        got += part
    assert got == data and not s.recv(1)
    t.join()
many = [threading.Thread(target=echo, args=(n,)) for n in (1, 100, 100000, 1000000) * 5]
for t in many: t.start()
for t in many: t.join()
# One that resets, and one that never says anything, do not disturb the next.
s = socket.create_connection(('127.0.0.1', port)); s.sendall(b'x')
s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack('ii', 1, 0)); s.close()
silent = socket.create_connection(('127.0.0.1', port))
echo(1000)
PY
! grep -q . "$work/client.out" || fail 'python3 says something'
end python 20

if have nc; then
    port=$(free_port)
    server nc echo "$port"
    timeout "$patience" nc -N 127.0.0.1 "$port" <"$work/data" | cmp - "$work/data" || fail 'nc does not get back what it sent'
    end nc
    port=$(free_port)
    timeout "$patience" nc -l 127.0.0.1 "$port" <"$work/data" >"$work/nc.got" & # takes one connection and tells it everything
    pids+=($!)
    wait_listen "$port" $! || fail 'nc does not listen'
    timeout "$patience" python3 -c "import socket; socket.create_server(('127.0.0.1', $port))" 2>/dev/null && fail 'two listen at one port'
    timeout "$patience" "$serve" echo "$port" </dev/null >"$work/taken.out" 2>&1 && fail 'a kernel takes a port that nc has'
    grep -q 'Address already in use' "$work/taken.out" || fail 'a port that nc has is not said to be in use'
fi

if have socat; then
    server socat_unix echo "$work/socket"
    timeout "$patience" socat -t 10 - "UNIX-CONNECT:$work/socket" <"$work/data" | cmp - "$work/data" || fail 'socat: not what it sent'
    end socat_unix
    for at in "UNIX-LISTEN:$work/cat" "TCP-LISTEN:$(free_port),bind=127.0.0.1"; do
        socat "$at" EXEC:cat 2>"$work/socat.out" &
        pids+=($!)
        there=${at#*:}
        there=${there%%,*}
        if [ -n "${there//[0-9]/}" ]; then
            eventually test -S "$there"
        else
            wait_listen "$there" $! || fail 'socat does not listen'
        fi
        timeout "$patience" "$serve" ask-echo "$there" 200 >"$work/ask.out" 2>&1 || fail "a kernel asks socat at $at"
        echo "a kernel asks socat (${at%%:*}): ok"
    done
fi

if have redis-benchmark; then
    port=$(free_port)
    server redis redis "$port"
    timeout "$patience" redis-benchmark -h 127.0.0.1 -p "$port" -t ping_mbulk,set,get -n 2000 -c 20 --csv >"$work/redis.csv" 2>"$work/rb.out" || fail 'redis-benchmark'
    [ "$(grep -cE '^"(PING_MBULK|SET|GET)"' "$work/redis.csv")" = 3 ] || fail 'redis-benchmark measures nothing'
    timeout "$patience" redis-benchmark -h 127.0.0.1 -p "$port" -t set -P 16 -n 2000 -q >"$work/rp.out" 2>&1 || fail 'redis-benchmark with a pipeline'
    if have redis-cli; then
        [ "$(redis-cli -p "$port" set name 'value of its own')" = OK ] || fail 'redis-cli set'
        [ "$(redis-cli -p "$port" get name)" = 'value of its own' ] || fail 'redis-cli get'
    fi
    end redis 8000
fi

if have redis-server; then
    port=$(free_port)
    redis-server --bind 127.0.0.1 --port "$port" --save '' --appendonly no --dir "$work" >"$work/redis-server.out" 2>&1 &
    pids+=($!)
    wait_listen "$port" $! || fail 'redis-server does not listen'
    timeout "$patience" "$serve" ask-redis "$port" 500 >"$work/ask.out" 2>&1 || fail 'a kernel asks redis'
    grep -q '^500 requests' "$work/ask.out" || fail 'redis was not asked 500 times'
    if have redis-cli; then [ "$(redis-cli -p "$port" get key-0499)" = 1000499 ] || fail 'redis has not kept what the kernel said'; fi
    echo 'a kernel asks redis: ok'
fi

if have memcaslap; then
    port=$(free_port)
    server memcaslap memcached "$port"
    printf '%s\n' key '16 64 1' value '1 500 1' cmd '0 0.3' '1 0.7' >"$work/load"
    timeout "$patience" memcaslap -s "127.0.0.1:$port" -T 2 -c 8 -x 3000 -F "$work/load" -v 1 >"$work/memcaslap.out" 2>&1 || fail 'memcaslap'
    for line in 'cmd_get: 2[01][0-9][0-9]' 'cmd_set: [89][0-9][0-9]' 'get_misses: 0' 'verify_misses: 0' 'verify_failed: 0'; do
        grep -qx "$line" "$work/memcaslap.out" || fail "memcaslap: not '$line'"
    done
    end memcaslap 3000
fi

if have memcached; then
    port=$(free_port)
    memcached -u "$(id -un)" -l 127.0.0.1 -p "$port" -U 0 >"$work/memcached.out" 2>&1 &
    pids+=($!)
    wait_listen "$port" $! || fail 'memcached does not listen'
    timeout "$patience" "$serve" ask-memcached "$port" 500 >"$work/ask.out" 2>&1 || fail 'a kernel asks memcached'
    grep -q '^500 requests' "$work/ask.out" || fail 'memcached was not asked 500 times'
    echo 'a kernel asks memcached: ok'
fi
