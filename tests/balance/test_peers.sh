#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The balancer's control plane among peers that are silent or hostile: workers that do not answer. Needs no privilege.
. "$(dirname "$0")/../integration/lib.sh"
need curl jq python3
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

# A port whose queue is full drops every other SYN: so dark workers need no network of their own. Two ports behind it answer.
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
checks() { curl -sf "http://$api/v1/services/$1" | jq '[.workers[].health.checks] | min'; }
checked() { [ "$(checks "$1")" -ge "$2" ]; }
eventually checked dark 2 || fail "dark workers are not checked"
before=$(checks well)
eventually checked dark 6 || fail "dark workers are not checked again"
made=$(($(checks well) - before))
[ "$made" -ge 3 ] || fail "while each of 250 dark workers was checked four times, a healthy one was checked $made times"
end
echo "peers: ok"
