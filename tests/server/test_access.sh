#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The access log: a line of JSON for each request of every door, for sessions that open and close, none that a stranger's
# words break. SIGHUP opens the file again, and a full or closed file costs lines, never requests.
. "$(dirname "$0")/lib.sh" || exit 1
need curl jq python3
cd "$work" || exit 1
models=$source_dir/tests/server/models

# infer BODY [CURL OPTION...]: over HTTP; prints the status.
infer() {
    curl -s -o answer.json -w '%{http_code}' "${@:2}" "http://$server/v2/models/${model:-echo}/infer" -d "$1"
}
row=$(printf ',%d' $(seq 64)) # 64 numbers
good="{\"id\": \"one\", \"inputs\": [{\"name\": \"x\", \"shape\": [1, 64], \"datatype\": \"FP32\", \"data\": [${row:1}]}]}"
lines() { wc -l <"$1"; }
has_lines() { [ -e "$1" ] && [ "$(lines "$1")" -ge "$2" ]; }
# field FILTER: of the log's last line
last() { tail -n 1 log | jq -r "$1"; }

serve first --models "$models" --access-log log --log-level debug
[ "$(infer "$good")" = 200 ] || fail 'no answer'
eventually has_lines log 1 || fail 'no line'
[ "$(last '[.door, .model, .version, .batch, .status, .id] | @csv')" = '"http","echo","1",1,200,"one"' ] || fail "$(cat log)"
[ "$(last .client)" = "user $(id -u)" ] || fail "the client: $(cat log)"
[ "$(last .bytes_in)" = "${#good}" ] || fail "the bytes that came: $(cat log)"
[ "$(last .bytes_out)" = "$(stat -c %s answer.json)" ] || fail "the bytes that left: $(cat log)"
[ "$(last '.total_us >= .queue_us + .compute_us')" = true ] || fail "the times: $(cat log)"
[[ "$(last .time)" =~ ^20[0-9-]*T[0-9:]*\.[0-9]{6}Z$ ]] || fail "the time: $(cat log)"

# Requests that fail, whose words are a stranger's.
[ "$(infer '{"id": "\u001b[2J\"<b>\n", "inputs": []}')" = 400 ] || fail 'a request without inputs'
[ "$(model=%3Cb%3E%22%0a%ff infer "$good")" = 404 ] || fail 'a model with an odd name'
eventually has_lines log 3 || fail 'failures are not logged'
jq -e . log >/dev/null || fail "not JSON: $(cat log)"
[ "$(lines log)" = 3 ] || fail "more lines than requests: $(cat log)"
LC_ALL=C grep -q '[^ -~]' log && fail 'bytes that steer a terminal'
[ "$(sed -n 2p log | jq -r '.status, .error' | tr '\n' ' ')" = '400 expected 1 inputs but got 0 inputs for model '"'echo'"' ' ] || fail "$(sed -n 2p log)"
[ "$(sed -n 3p log | jq -r '.model[0:4]')" = '<b>"' ] || fail "$(sed -n 3p log)"
# A client that goes in the midst.
python3 - "$server" <<'EOF'
import socket, sys, time
host, port = sys.argv[1].split(":")
s = socket.create_connection((host, int(port)))
s.sendall(b"POST /v2/models/echo/infer HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n{")
time.sleep(0.5) # until it has been let in
EOF
eventually has_lines log 4 || fail 'a client that has gone is not logged'
[ "$(last .status)" = 499 ] || fail "$(cat log)"

# The gRPC door has lines of its own, where there is one.
if grep -q 'gRPC on port' first.out && [ -x ~/.cache/gpuwire/tritonclient/bin/python ]; then
    grpc=127.0.0.1:$(sed -n 's/.*gRPC on port \([0-9]*\).*/\1/p' first.out)
    ~/.cache/gpuwire/tritonclient/bin/python - "$grpc" <<'EOF' || fail 'no answer over gRPC'
import sys, numpy, tritonclient.grpc as grpc
client = grpc.InferenceServerClient(sys.argv[1])
x = grpc.InferInput("x", [1, 64], "FP32")
x.set_data_from_numpy(numpy.zeros((1, 64), "float32"))
client.infer("echo", [x], request_id="two")
try:
    client.infer("none", [x])
    sys.exit(1)
except grpc.InferenceServerException if hasattr(grpc, "InferenceServerException") else Exception:
    pass
EOF
    eventually has_lines log 6 || fail 'no lines of gRPC'
    [ "$(sed -n 5p log | jq -r '[.door, .model, .status, .id, .bytes_in > 256] | @csv')" = '"grpc","echo",0,"two",true' ] || fail "$(sed -n 5p log)"
    [ "$(sed -n 6p log | jq -r '[.model, .status] | @csv')" = '"none",5' ] || fail "$(sed -n 6p log)"
fi

# Sessions: their opening and their end, with the number of their requests.
before=$(lines log)
"$GPUWIRE" load echo --server "$server" --clients 1 --requests 50 >load.out || fail "$(cat load.out)"
eventually has_lines log $((before + 2)) || fail 'sessions are not logged'
closed() { jq -se 'map(select(.event == "close"))[0]' log >closed.json; }
eventually closed || fail 'no session is closed'
jq -se 'map(select(.event == "open"))[0] | .door == "rdma" and .model == "echo" and (.session | length) == 8' log >/dev/null || fail "$(cat log)"
jq -e '.requests >= 50 and .total_us > 0 and (.reason | length) > 5' closed.json >/dev/null || fail "$(cat closed.json)"

# Rotation.
mv log log.1
kill -HUP "$worker"
eventually test -e log || fail 'SIGHUP opens no file'
was=$(lines log.1)
[ "$(infer "$good")" = 200 ] || fail 'no answer after SIGHUP'
eventually has_lines log 1 || fail 'no line in the new file'
[ "$(lines log.1)" = "$was" ] || fail 'lines go to the old file'
# A file that cannot be opened again: the old one goes on.
rm log; mkdir log
kill -HUP "$worker"
eventually grep -q 'log: Is a directory; the old file goes on' first.out || fail 'nothing is said of a file that cannot be opened'
[ "$(infer "$good")" = 200 ] || fail 'no answer'
stop_worker
rmdir log
grep -qE '^20[0-9-]+T[0-9:.]+Z gpuwire serve: info: the access log is opened again' first.out || fail "no level and time: $(cat first.out)"
grep -q ' debug: session .* opened' first.out || fail 'no line of debug'

# Standard output: nothing but the log. Standard error says less, and who has no token is named there.
echo 0123456789abcdef >token
"$GPUWIRE" serve --port 0 --exec cpu --models "$models" --access-log - --log-level info --token-file token >out 2>err &
worker=$!
pids+=("$worker")
wait_for err 'HTTP on port' "$worker" || fail 'the worker is not ready'
server=127.0.0.1:$(sed -n 's/.*HTTP on port \([0-9]*\).*/\1/p' err)
[ "$(infer "$good")" = 401 ] || fail 'no token is asked for'
eventually grep -q 'warning: user .* asks without the token' err || fail "nothing is said of a missing token: $(cat err)"
[ "$(infer "$good" -H 'Authorization: Bearer 0123456789abcdef')" = 200 ] || fail 'no answer'
eventually has_lines out 1 || fail 'no line on standard output'
stop_worker
jq -e .door out >/dev/null || fail "not JSON: $(cat out)"
[ "$(lines out)" = 1 ] || fail "more than the log: $(cat out)"

# There is no reader: requests go on, lines are lost and counted, and the server ends in time.
mkfifo pipe
sleep 600 <pipe &
pids+=("$!")
serve full --models "$models" --access-log pipe --drain-seconds 0
"$GPUWIRE" load echo --server "http://$server" --clients 4 --requests 8000 >load.out || fail "$(cat load.out)"
lost() { [ "$(curl -s "http://$server/metrics" | sed -n 's/^gpuwire_access_log_lost_total //p')" -gt 100 ]; }
eventually lost || fail 'nothing is lost, or it is not counted'
grep -q 'warning: --access-log: lines are lost' full.out || fail 'nothing is said of lost lines'
stop_worker

# What cannot be.
expect() {
    "$GPUWIRE" serve --port 0 --exec cpu --models "$models" "${@:3}" >wrong.out 2>&1
    [ $? = "$1" ] && grep -q -- "$2" wrong.out || fail "${*:3}: $(cat wrong.out)"
}
expect 2 'access-log /nonexistent/log: No such file' --access-log /nonexistent/log
expect 2 '--log-level loud: must be error, warning, info or debug' --log-level loud
expect 2 '--drain-seconds -1: must be a number' --drain-seconds -1
# Levels leave lines out; the journal gets its own form.
serve quiet --models "$models" --log-level error --listen 0.0.0.0
stop_worker
grep -q 'listening on' quiet.out && fail 'a warning at the level error'
all_gone
echo ok
