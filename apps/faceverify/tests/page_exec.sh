#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The page on an executor: it shows what the kernel has written of its requests. $1: cpu or gpu.
set -eu
gpuwire=${GPUWIRE:-gpuwire}
PATH=$(dirname "$gpuwire"):$PATH
for need in memcached python3; do command -v $need >/dev/null || { echo "skipped: $need is not installed"; exit 77; }; done
port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
said=$(mktemp)
[ "$(id -u)" -ne 0 ] || user="-u nobody"
# shellcheck disable=SC2086  # two words, or none
memcached -l 127.0.0.1 -p "$port" -U 0 ${user:-} &
memcached=$!
"$gpuwire" app faceverify serve --exec "${1:?cpu or gpu}" -m "127.0.0.1:$port" -l 127.0.0.1:0 --page 0 >"$said" &
serve=$!
trap 'kill $memcached $serve 2>/dev/null || true; rm -f "$said"' EXIT

for _ in $(seq 600); do
    grep -q '^page:' "$said" && break
    kill -0 $serve
    sleep 0.1
done
cat "$said"
grep -q "blocks on $1" "$said"
server=$(sed -n 's/^listening on .* port \([0-9]*\),.*/\1/p' "$said")
page=$(sed -n 's|^page: \(http://[^ ]*\)/$|\1|p' "$said")
"$gpuwire" app faceverify enrol -m "127.0.0.1:$port" --drawn --persons 8
"$gpuwire" app faceverify load "127.0.0.1:$server" --persons 8 --seconds 1 --unknown 50
python3 - "$page" <<'END'
import json
import sys
import time
import urllib.request

for _ in range(50):
    state = json.load(urllib.request.urlopen(sys.argv[1] + "/state"))
    if state["requests"] and sum(state["verdicts"]) == state["requests"] and state["last"]:
        break
    time.sleep(0.1)
print("spans:", [s and s["median"] for s in state["spans"]], "µs; last:", state["last"][0])
assert all(s["median"] >= 0 and s["samples"] > 10 for s in state["spans"]), state["spans"]
assert sum(state["verdicts"]) == state["requests"] > 100 and min(state["verdicts"][:3]) > 0, state["verdicts"]
assert all(r["name"].startswith(("person-", "stranger-")) and r["verdict"] < 3 for r in state["last"]), state["last"]
END
kill -INT $serve
code=0
wait $serve || code=$?
[ $code = 130 ]
