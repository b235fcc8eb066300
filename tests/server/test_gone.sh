#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The server is killed in the midst of requests: every client says in one line that it has gone, and names no queue pair.
. "$(dirname "$0")/lib.sh" || exit 1
need curl python3
cd "$work" || exit 1
python=python3
python3 -c 'import numpy' 2>/dev/null || python=/usr/bin/python3
"$python" -c 'import numpy; numpy.save("x.npy", numpy.zeros((1, 1, 224, 224), "float32"))' || { echo 'skipped: numpy is not installed'; exit 77; }

for door in '' http://; do
    serve "killed" --models "$source_dir/models" --model superresolution --sessions 8
    # A picture of many tiles, so that some are in flight; and a load.
    "$python" - <<'EOF'
import struct, zlib
w = h = 2000
chunk = lambda t, d: struct.pack(">I", len(d)) + t + d + struct.pack(">I", zlib.crc32(t + d))
open("in.png", "wb").write(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", w, h, 8, 0, 0, 0, 0))
                           + chunk(b"IDAT", zlib.compress(bytes((w + 1) * h), 1)) + chunk(b"IEND", b""))
EOF
    "$GPUWIRE" infer superresolution --server "$door$server" --image in.png --out out.png >infer.out 2>&1 &
    infer=$!
    "$GPUWIRE" load superresolution --server "$door$server" --clients 2 --requests 1000000 >load.out 2>&1 &
    load=$!
    pids+=("$infer" "$load")
    eventually stat_above superresolution answered 5 || fail 'no client is answered'
    kill -KILL "$worker"
    wait "$worker" 2>/dev/null
    for client in infer load; do
        eventually gone "${!client}" || fail "$client does not end"
        wait "${!client}"
        [ $? = 1 ] || fail "$client ended with $?: $(cat $client.out)"
        grep -q "^gpuwire $client: .*server .*\(has gone\|running there\)" $client.out || fail "$client ($door) does not say that the server has gone: $(cat $client.out)"
        grep -iE 'syndrome|queue pair|qp |RETRY_EXC|WR_FLUSH|status [0-9]' $client.out && fail "$client speaks of a queue pair"
    done
    [ "$(wc -l <infer.out)" = 1 ] || fail "infer says more than one line: $(cat infer.out)"
    # Afterwards there is none.
    "$GPUWIRE" infer superresolution --server "$door$server" --input x.npy >infer.out 2>&1 && fail 'an answer without a server'
    grep -q 'is `gpuwire serve` running there' infer.out || fail "$(cat infer.out)"
done
serve sweeper --models "$source_dir/tests/server/models"
stop_worker
all_gone
echo ok
