#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The page for browsers, in a real one: it shows models, counts and latencies under load, now and over time, takes no name for
# markup, asks for the token where one is needed, and says when the server has gone.
. "$(dirname "$0")/lib.sh" || exit 1
need curl python3 chromium
cd "$work" || exit 1
odd='<img src=x onerror=document.title="broken">'
mkdir -p "models/$odd/3"
cp -r "$source_dir/tests/server/models/echo" "$source_dir/tests/server/models/sum" models
cp "$source_dir/tests/server/models/echo/1/model.onnx" "models/$odd/3"

# ---- what HTTP says of it
serve open --resident auto --models models
curl -s -D head -o page.html "http://$server/" || fail 'no page'
for line in 'HTTP/1.1 200' 'Content-Type: text/html; charset=utf-8' "Content-Security-Policy: default-src 'none'; script-src 'self'" \
    'X-Content-Type-Options: nosniff'; do
    grep -qF -- "$line" head || fail "the page's headers lack '$line': $(cat head)"
done
# All that it is made of comes from here: nothing is fetched from elsewhere.
grep -oE '(src|href)="[^"]*"' page.html | sort >parts
printf '%s\n' 'href="data:,"' 'href="metrics"' 'href="common.css"' 'href="page.css"' 'src="common.js"' 'src="chart.js"' 'src="page.js"' | sort | diff - parts || fail 'other parts than expected'
grep -nE 'https?://|@import|innerHTML|eval\(' "$source_dir"/src/server/http/page/* "$source_dir"/src/door/page/* | grep -v 'www.w3.org/2000/svg' && fail 'the page fetches from elsewhere, or makes markup of text'
[ "$(curl -s -o /dev/null -w '%{http_code} %{content_type}' "http://$server/page.js")" = '200 text/javascript; charset=utf-8' ] || fail 'page.js'
[ "$(curl -s -o /dev/null -w '%{http_code} %{content_type}' "http://$server/chart.js")" = '200 text/javascript; charset=utf-8' ] || fail 'chart.js'
[ "$(curl -s -I -o /dev/null -w '%{http_code}' "http://$server/page.css")" = 200 ] || fail 'HEAD page.css'
[ "$(curl -s -o /dev/null -w '%{http_code}' -X POST "http://$server/")" = 404 ] || fail 'POST /'
[ "$(curl -s -o /dev/null -w '%{http_code}' "http://$server/page.html")" = 404 ] || fail 'a path that is none'

# ---- with load, in a browser
python3 "$here/http_load.py" "$server" stop "$odd" >load.out 2>&1 &
pids+=("$!")
"$GPUWIRE" load echo --server "$server" --clients 2 --requests 100000000 >load2.out 2>&1 &
load=$!
pids+=("$load")
answered() { curl -s "http://$server/metrics" | grep -qE '^nv_inference_request_success\{model="<img.*\} [1-9]'; }
eventually answered || fail "no client is answered: $(cat load.out)"
python3 "$here/page.py" shows "$server" "$odd" "$worker" 2>browser.out || fail "the page: $(tail -n 5 browser.out)"
wait "$worker" 2>/dev/null # the test has killed it
wait "$load" && fail 'the client of a killed server has not failed'
grep -q 'has gone' load2.out || fail "the client does not say that its server has gone: $(cat load2.out)"

# ---- with a token
echo 0123456789abcdef >token
serve token --models models --token-file token
[ "$(curl -s -o /dev/null -w '%{http_code}' "http://$server/")" = 200 ] || fail 'the page itself wants a token'
[ "$(curl -s -o /dev/null -w '%{http_code}' "http://$server/metrics")" = 401 ] || fail 'what it shows wants none'
python3 "$here/page.py" asks "$server" 0123456789abcdef 2>browser.out || fail "the page with a token: $(tail -n 5 browser.out)"
stop_worker
# The port of the metrics has no page.
metrics=$(free_port)
serve metrics --models models --metrics-port "$metrics"
[ "$(curl -s -o /dev/null -w '%{http_code}' "http://127.0.0.1:$metrics/")" = 404 ] || fail "the metrics' port has a page"
stop_worker
all_gone
echo ok
