#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# SIGINT and SIGTERM end every program at once, whatever it is doing, and nothing is left.
. "$(dirname "$0")/lib.sh" || exit 1
need curl
cd "$work" || exit 1

for signal in INT TERM; do
    # A worker that is idle, and one that is busy.
    serve idle --models "$source_dir/models" --model superresolution
    ends "$worker" $signal
    [ "$rc" = 0 ] || fail "the idle worker ended with $rc"
    grep -q 'stopped; the slowest loop took' "$work/idle.out" || fail 'the idle worker does not say that it has stopped'
    serve busy --models "$source_dir/models"
    "$GPUWIRE" load superresolution --server "$server" --clients 2 --requests 100000 >load.out 2>&1 &
    load=$!
    pids+=("$load")
    "$GPUWIRE" load identity --server "$server" --clients 2 --requests 100000000 --verify-echo >load2.out 2>&1 &
    load2=$!
    pids+=("$load2")
    eventually stat_above superresolution answered 3 || fail 'no client is answered'
    # Clients first, in the midst of their requests.
    ends "$load" $signal
    [ "$rc" = 130 ] || fail "load ended with $rc"
    grep -q interrupted load.out || fail 'load does not say that it was interrupted'
    ends "$worker" $signal
    [ "$rc" = 0 ] || fail "the busy worker ended with $rc"
    # The other client has lost its worker: it notices, or is told to end like any other.
    ends "$load2" $signal
    [ "$rc" = 1 ] || [ "$rc" = 130 ] || fail "the client without a worker ended with $rc"
done

# A worker under nohup stays when its terminal goes.
trap '' HUP
serve nohup --models "$source_dir/tests/server/models"
trap - HUP
[ $((0x$(sed -n 's/^SigIgn:[[:space:]]*//p' "/proc/$worker/status") & 1)) = 1 ] || fail 'a worker does not ignore SIGHUP as it was told'
stop_worker

# A client whose server says nothing.
port=$(free_port)
python3 -c "import socket, time; s = socket.create_server(('127.0.0.1', $port)); time.sleep(600)" &
silent=$!
pids+=("$silent")
wait_listen "$port" "$silent" || fail 'the silent server does not listen'
for command in "infer superresolution --input $source_dir/models/superresolution/golden_input.npy --output y" "load identity --clients 2"; do
    # shellcheck disable=SC2086
    "$GPUWIRE" $command --server "127.0.0.1:$port" >waiting.out 2>&1 &
    waiting=$!
    pids+=("$waiting")
    sleep 0.5
    ends "$waiting" INT
    [ "$rc" = 130 ] || fail "$command ended with $rc"
    grep -q interrupted waiting.out || fail "$command does not say that it was interrupted"
done

# The process that inherits a worker may take its time to reap it: a zombie has ended.
buried() { ! grep -qsE '^State:[[:space:]]+[^Z[:space:]]' "/proc/$1/status"; }
# The demo, before its worker is ready and in the midst; its worker ends with it, also when it is killed.
for moment in 0.1 2; do
    "$GPUWIRE" demo --exec cpu --out demo.png >demo.out 2>&1 &
    demo=$!
    pids+=("$demo")
    sleep $moment
    children=$(cat "/proc/$demo/task/$demo/children")
    ends "$demo" INT
    for p in $children; do eventually buried "$p" || fail 'the worker outlives the demo'; done
done
rm -f demo.out
"$GPUWIRE" demo --exec cpu --out demo.png >demo.out 2>&1 &
demo=$!
pids+=("$demo")
wait_for demo.out 'HTTP on port' "$demo" || fail 'the demo has no worker'
children=$(cat "/proc/$demo/task/$demo/children")
[ -n "$children" ] || fail 'the demo has no worker process'
kill -KILL "$demo"
wait "$demo" 2>/dev/null
for p in $children; do eventually buried "$p" || fail 'the worker outlives the killed demo'; done
# What a killed process cannot take away itself goes with the next one.
serve sweeper --models "$source_dir/tests/server/models"
stop_worker
all_gone
echo ok
