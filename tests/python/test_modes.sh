#!/usr/bin/env bash
# The ways of serving that gpuwire's own is compared with (bench/serve_modes.py), without a GPU: each answers all requests,
# and rightly, one at a time and several at once.
#   test_modes.sh PYTHON TREE
set -euo pipefail
python=$1 tree=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$python" "$tree/bench/serve_modes.py" run "$work" --exec cpu --quick --only "alone" --tool "$GPUWIRE"
"$python" "$tree/bench/serve_modes.py" run "$work/levels" --exec cpu --quick --only "levels" --tool "$GPUWIRE"
"$python" - "$work/modes.csv" "$work/levels/modes.csv" <<'END'
import csv
import sys

rows = [row for path in sys.argv[1:] for row in csv.DictReader(open(path))]
seen = {(row["run"], row["mode"], row["model"], row["concurrency"]) for row in rows}
modes = ["ours", "copy", "direct", "queued"]
want = {("alone", mode, model, "1") for mode in [*modes, "http"] for model in ("identity4k", "identity600k")}
want |= {("levels", mode, "identity4k", n) for mode in modes for n in "14"}
assert seen == want, (seen - want, want - seen)
for row in rows:
    assert int(row["answered"]) > 0 and int(row["failed"]) == int(row["wrong"]) == 0, row
    assert float(row["own_cpu"]) > 0 and float(row["p50"]) <= float(row["p99"]) <= float(row["max"]), row
END
echo "all modes answer rightly"
