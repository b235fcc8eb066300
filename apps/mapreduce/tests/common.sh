# SPDX-License-Identifier: Apache-2.0
# What the tests of mapreduce share: a folder of their own, and what must hold. The argument is the executor.
set -eu
export LC_ALL=C
exec_kind=${1:-cpu}
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
trap 'exit 130' INT TERM

fail() { echo "FAILED: $*" >&2; exit 1; }
mapreduce() { timeout "${limit:-60}" "$GPUWIRE" app mapreduce --exec "$exec_kind" "$@"; }

# count_words FILE...: what word count must say, sorted.
count_words() { cat "$@" | tr -s '[:space:]' '\n' | sed '/^$/d' | sort | uniq -c | sed 's/^ *\([0-9]*\) \(.*\)$/\2\t\1/' | sort; }

# same WHAT: the parts in $dir/out hold what $dir/want does, each sorted, and nothing else is there.
same()
{
    for part in "$dir"/out/part-*; do sort -c "$part" || fail "$1: $part is not sorted"; done
    sort -m "$dir"/out/part-* | cmp - "$dir/want" || fail "$1: another result"
    test -z "$(find "$dir/out" -name '.*' -type f)" || fail "$1: temporary files are left"
    rm -rf "$dir/out"
}

# start ARGUMENT...: a slow job of four ranks in the background, $job; rank N's process is $(rank_pid N).
start()
{
    rm -rf "$dir/out"
    timeout 60 "$GPUWIRE" app mapreduce "$@" -w 4 -v --exec "$exec_kind" -o "$dir/out" 2> "$dir/err" &
    job=$!
    for _ in $(seq 200); do
        test "$(grep -c ' maps on ' "$dir/err")" -ge 4 && return 0
        sleep 0.05
    done
    cat "$dir/err" >&2
    fail "the ranks did not start"
}
rank_pid() { sed -n "s/^rank $1 of 4 is process //p" "$dir/err"; }
ended() { code=0; wait "$job" || code=$?; }
