#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# README.md's job, built as it says, counts words by their first byte.
. "$(dirname "$0")/common.sh"

app=$(cd "$(dirname "$0")/.." && pwd)
command -v cc > /dev/null && test -d "$app/../../include/gpuwire" || exit 77
mkdir "$dir/gpuwire"
ln -s "$app" "$dir/gpuwire/mapreduce"
sed -n '/^```c$/,/^```$/{/^```/d;p}' "$app/README.md" > "$dir/initials.c"
cc -O2 -std=gnu11 -Wall -Werror -shared -fPIC "$dir/initials.c" -o "$dir/initials.so" -I "$app/../../include" -I "$dir"
seq 1 1000 > "$dir/in"
cut -c 1 "$dir/in" | sort | uniq -c | sed 's/^ *\([0-9]*\) \(.*\)$/\2\t\1/' > "$dir/want"
mapreduce "$dir/initials.so" "$dir/in" -q -w 2 --parts 1 | cmp - "$dir/want" || fail "another result"

cp "$dir/initials.so" "$dir/others.so"
code=0
mapreduce "$dir/others.so" "$dir/in" 2> "$dir/err" || code=$?
test $code = 2 || fail "a plug-in without its job: exit code $code"
grep -q 'it has no mr_job_others' "$dir/err" || fail "a plug-in without its job: $(cat "$dir/err")"
echo "a job of one's own works"
