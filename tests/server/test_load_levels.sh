#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# `gpuwire load` at levels of concurrency and of rate, over both doors: tables, files, deadlines, Ctrl-C.
. "$(dirname "$0")/lib.sh" || exit 1
need python3 curl
serve worker --models "$source_dir/tests/server/models"
cd "$work" || exit 1
load() { timeout "$patience" "$GPUWIRE" load "$@" >load.out 2>load.err || { cat load.out load.err; fail "load $*: $?"; }; }

for door in rdma http; do
    load echo --server "$door://$server" --concurrency 1:4:2x --window 0.1 --warmup 0.05 --verify-echo --csv x.csv --json x.json
    cat load.out
    grep -q "^echo over $door, 1 clients, 1 sample in a request" load.out || fail "$door: no heading"
    python3 - "$door" <<'END' || fail "$door: the files"
import csv, json, sys
rows = list(csv.DictReader(open("x.csv")))
found = json.load(open("x.json"))
assert found["door"] == sys.argv[1] and found["mode"] == "concurrency" and found["model"] == "echo", found
assert [float(r["level"]) for r in rows] == [1, 2, 4] == [v["level"] for v in found["levels"]], rows
for r, v in zip(rows, found["levels"]):
    assert float(r["answered"]) == v["answered"] > 0 and v["late"] == v["failed"] == v["wrong"] == 0, v
    assert abs(v["requests_per_s"] - v["answered"] / v["seconds"]) < 1e-3 * v["requests_per_s"], v
    p = [v[k] for k in ("p50_us", "p90_us", "p95_us", "p99_us", "p99.9_us", "max_us")]
    assert 0 < p[0] and p == sorted(p), p
    assert (sys.argv[1] == "http") == (v["net_in_us"] == v["model_us"] == 0), v
    assert sys.argv[1] == "http" or sum(v["requests_by_batch_size"].values()) == v["answered"], v
END
    load echo --server "$door://$server" --rate 200 --window 0.5 --warmup 0 --windows 4 --stability 100 --json x.json
    python3 - <<'END' || fail "$door: the rate"
import json
v, = json.load(open("x.json"))["levels"]
assert 100 < v["requests_per_s"] < 300, v
END
done

# A rate that the server cannot keep is said, and latencies count from when requests were to be sent.
load echo --server "$server" --rate 3000000 --slots 2 --window 0.1 --warmup 0 --windows 3
grep -q 'behind the rate' load.out || fail 'no line says that the server cannot keep up'
awk '$1 == "total" { ok = $7 > 50 } END { exit !ok }' load.out || fail 'latencies do not count from the intended times'

# Files as input, and more clients than one.
python3 -c 'import struct, sys; sys.stdout.buffer.write(b"\x93NUMPY\x01\x00v\x00" + b"{\x27descr\x27: \x27<f4\x27, \x27fortran_order\x27: False, \x27shape\x27: (1, 64), }".ljust(117) + b"\n" + bytes(256))' >row.npy
load sum --server "$server" --input a=row.npy --input b=row.npy --requests 50 --clients 3
grep -q '^50 of 50 requests answered, 3 clients' load.out || fail 'not all were answered'
load sum --server "http://$server" --requests 50 --clients 2
grep -q '^50 of 50 requests answered, 2 clients' load.out || fail 'not all were answered over HTTP'
timeout "$patience" "$GPUWIRE" load sum --server "$server" --input a=row.npy >load.out 2>&1 && fail 'an input is missing'
grep -q 'also wants input b' load.out || fail 'no line says which input is missing'
timeout "$patience" "$GPUWIRE" load echo --server "$server" --concurrency 40 --clients 2 --slots 4 >load.out 2>&1 && fail 'too few slots'
grep -q 'give more --clients' load.out || fail 'no line says that there are too few slots'

# A plot, where there is gnuplot; else a clear word.
if command -v gnuplot >/dev/null; then
    load echo --server "$server" --concurrency 1:2 --window 0.1 --warmup 0 --plot x.svg
    grep -q '</svg>' x.svg || fail 'no plot'
else
    timeout "$patience" "$GPUWIRE" load echo --server "$server" --plot x.svg >load.out 2>&1 && fail 'a plot without gnuplot'
    grep -q 'gnuplot is not installed' load.out || fail 'no line says that gnuplot is missing'
fi

# Ctrl-C: what there is by then is said, and written.
"$GPUWIRE" load echo --server "$server" --concurrency 1:40 --window 0.1 --warmup 0 --csv part.csv >part.out 2>&1 &
loader=$!
pids+=("$loader")
eventually grep -q '^ *2 ' part.out || fail 'no second level'
ends "$loader" INT
[ "$rc" = 130 ] || fail "load ended with $rc"
[ "$(wc -l <part.csv)" -ge 3 ] || { cat part.out part.csv; fail 'the levels so far are not in the file'; }
stop_worker
all_gone
