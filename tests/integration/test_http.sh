#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# test_http.sh SERVE serve|ask: a kernel answers HTTP: to curl, ab and wrk, and through nginx; and asks nginx.
. "${0%/*}/lib.sh"
. "${0%/*}/serve.sh"
PATH=$PATH:/usr/sbin

# start_nginx PORT UNIX: serves the folder $work/www at both, and what is asked for under /kernel/ is asked at $work/upstream
# and under /port/ at port $upstream. Everything that it writes is in $work.
start_nginx() {
    cat >"$work/nginx.conf" <<CONF
daemon off;
master_process off;
pid $work/nginx.pid;
events {}
http {
    access_log off;
    client_body_temp_path $work/nginx.body;
    proxy_temp_path $work/nginx.proxy;
    fastcgi_temp_path $work/nginx.fastcgi;
    uwsgi_temp_path $work/nginx.uwsgi;
    scgi_temp_path $work/nginx.scgi;
    server {
        listen 127.0.0.1:$1;
        listen unix:$2;
        root $work/www;
        location /kernel/ { proxy_pass http://unix:$work/upstream:/; }
        location /port/ { proxy_pass http://127.0.0.1:${upstream:-1}/; }
    }
}
CONF
    nginx -e "$work/nginx.out" -c "$work/nginx.conf" >>"$work/nginx.out" 2>&1 &
    nginx=$!
    pids+=("$nginx")
    wait_listen "$1" "$nginx" || fail 'nginx does not listen'
}

# says FILE...: each has the kernel's words, as often as it was asked, and nothing else.
says() {
    [ "$(sort -u "$@")" = 'from a kernel' ] || fail 'curl gets something else'
}

case $2 in
serve)
    need curl ab wrk nginx
    port=$(free_port)
    server http http "$port" 2
    curl -sS -m 30 "http://127.0.0.1:$port/" "http://127.0.0.1:$port/again" >"$work/curl.out" 2>&1 || fail 'curl'
    says "$work/curl.out"
    timeout "$patience" ab -q -n 1000 -c 50 "http://127.0.0.1:$port/" >"$work/ab.out" 2>&1 || fail 'ab'
    timeout "$patience" ab -q -k -n 2000 -c 20 "http://127.0.0.1:$port/" >"$work/abk.out" 2>&1 || fail 'ab with keep-alive'
    [ "$(cat "$work/ab.out" "$work/abk.out" | grep -c 'Failed requests: *0')" = 2 ] || fail 'ab: requests have failed'
    timeout "$patience" wrk -t 2 -c 20 -d 1s --timeout "$patience" "http://127.0.0.1:$port/" >"$work/wrk.out" 2>&1 || fail 'wrk'
    ! grep -q 'Socket errors\|Non-2xx' "$work/wrk.out" || fail 'wrk: requests have failed'
    asked=$(sed -n 's/^ *\([0-9]*\) requests in.*/\1/p' "$work/wrk.out")
    [ "${asked:-0}" -ge 20 ] || fail "wrk: ${asked:-no} requests"
    end http $((3002 + asked))

    # Through nginx: at a UNIX socket, and at a port.
    server upstream http "$work/upstream"
    unix_input=$input unix_server=$server
    upstream=$(free_port)
    server upstream_port http "$upstream"
    port=$(free_port)
    start_nginx "$port" "$work/nginx.socket"
    for where in kernel port; do
        curl -sS -m 30 "http://127.0.0.1:$port/$where/"{1,2,3,4,5} >"$work/curl.out" 2>&1 || fail "curl through nginx: $where"
        says "$work/curl.out"
    done
    kill "$nginx" # it has our ends of the kernels' inputs, too
    wait "$nginx"
    end upstream_port 5
    input=$unix_input server=$unix_server
    end upstream 5
    ;;
ask)
    need nginx
    mkdir "$work/www"
    yes abcdefghijklmnopqrstuvwxyz | tr -d '\n' | head -c 300001 >"$work/www/letters"
    port=$(free_port)
    start_nginx "$port" "$work/nginx.socket"
    for at in "$port" "$work/nginx.socket"; do
        timeout "$patience" "$serve" ask-http "$at" 100 >"$work/ask.out" 2>&1 || fail "a kernel asks nginx at $at"
        grep -q '^100 requests' "$work/ask.out" || fail 'nginx was not asked 100 times'
        echo "a kernel asks nginx at $at: ok"
    done
    # What the kernel gets is looked at.
    tr b c <"$work/www/letters" >"$work/other" && mv "$work/other" "$work/www/letters"
    timeout "$patience" "$serve" ask-http "$port" 1 >"$work/other.out" 2>&1 && fail 'other letters are not noticed'
    rm "$work/www/letters"
    timeout "$patience" "$serve" ask-http "$port" 1 >"$work/missing.out" 2>&1 && fail 'a file that is not there is'
    grep -q 'No such file' "$work/missing.out" || fail 'a file that is not there is not said to be missing'
    ;;
esac
