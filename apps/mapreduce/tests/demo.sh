#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# gpuwire app mapreduce without arguments: it ends with the ten words and coreutils' opinion.
. "$(dirname "$0")/common.sh"

export TMPDIR="$dir"
mapreduce > "$dir/log" 2>&1 || { cat "$dir/log"; fail "exit code"; }
grep -q 'the same result' "$dir/log" || { cat "$dir/log"; fail "it is not coreutils' result"; }
test "$(sed -n '/most frequent/,$p' "$dir/log" | wc -l)" = 11 || fail "not ten words"
test "$(find "$dir" -mindepth 1)" = "$dir/log" || fail "files are left"
echo "the demonstration ends well"
