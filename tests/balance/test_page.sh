#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The balancer's page, in a browser: workers with their states and why they have them, the last minutes, drains, foreign words,
# ten thousand services, the token, and a balancer that has gone. Needs no privilege.
. "$(dirname "$0")/../integration/lib.sh"
. "$(dirname "$0")/balancers.sh"
need curl jq python3 chromium
here=$(cd "$(dirname "$0")" && pwd)
source_dir=$here/../..
web=$(free_port)
python3 -m http.server "$web" --bind 127.0.0.1 --directory "$work" >"$work/web.out" 2>&1 &
pids+=($!)
wait_listen "$web" $! || fail "no web server"

# start NAME LINES: a balancer with these lines in global_defs. Sets $balancer and $api.
start() {
    cat >"$work/$1.conf" <<EOC
global_defs {
    api 127.0.0.1 0
    run_dir $work/run-$1
    ${2:-}
}
virtual_server 10.99.0.1 $web {
    name web
    lb_kind NAT
    lb_algo rr
    HTTP_GET {
        delay_loop 0.2
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
virtual_server 10.99.0.2 53 {
    name dns
    protocol udp
    real_server 10.99.0.3 53 {
        name ns1
        drain
    }
}
EOC
    "$GPUWIRE" balance --config "$work/$1.conf" >"$work/$1.out" 2>&1 &
    balancer=$!
    pids+=("$balancer")
    wait_for "$work/$1.out" 'API on' "$balancer" || fail "$1: not ready"
    api=127.0.0.1:$(sed -n 's/.*API on .* port \([0-9]*\).*/\1/p' "$work/$1.out")
}
page() { python3 "$here/page.py" "$@" 2>"$work/browser.out" || fail "the page: $(tail -n 5 "$work/browser.out")"; }

# ---- what HTTP says of it
start open
curl -s -D "$work/head" -o "$work/page.html" "http://$api/" || fail 'no page'
for line in 'HTTP/1.1 200' 'Content-Type: text/html; charset=utf-8' "Content-Security-Policy: default-src 'none'; script-src 'self'"; do
    grep -qF -- "$line" "$work/head" || fail "the page's headers lack '$line': $(cat "$work/head")"
done
# Each part that the page names is there, and comes from the balancer.
grep -oE '(src|href)="[^"]*"' "$work/page.html" | grep -v 'data:,' | sed 's/.*="\(.*\)"/\1/' >"$work/parts"
[ "$(wc -l <"$work/parts")" -ge 6 ] || fail "parts: $(cat "$work/parts")"
while read -r part; do
    [ "$(curl -s -o /dev/null -w '%{http_code}' "http://$api/$part")" = 200 ] || fail "$part is not there"
done <"$work/parts"
grep -nE 'https?://|@import|innerHTML|eval\(' "$source_dir"/src/balance/control/page/* | grep -v 'www.w3.org/2000/svg' && fail 'the page fetches from elsewhere, or makes markup of text'

# ---- in a browser
page takes "$api"
page shows "$api" "$balancer"
wait "$balancer" 2>/dev/null # the test has killed it

# ---- with a token
echo a-token-that-is-long-enough >"$work/token"
chmod 600 "$work/token"
start token "token_file $work/token"
[ "$(curl -s -o /dev/null -w '%{http_code}' "http://$api/")" = 200 ] || fail 'the page itself asks for a token'
[ "$(curl -s -o /dev/null -w '%{http_code}' "http://$api/v1/history")" = 401 ] || fail 'what it shows needs no token'
page asks "$api" a-token-that-is-long-enough
kill -TERM "$balancer"
wait "$balancer" || fail "it ended with $?"
echo "balance: the page is right"
