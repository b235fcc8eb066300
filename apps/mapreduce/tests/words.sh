#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Word count is coreutils', byte for byte: one rank and several, 1, 4 and 32 lanes, files and folders.
. "$(dirname "$0")/common.sh"

mkdir -p "$dir/in/deeper"
seq 1 60000 > "$dir/in/numbers"
for i in $(seq 2000); do echo "the quick  brown	fox $((i % 7)) jumps over the lazy dog"; done > "$dir/in/text"
: > "$dir/in/empty"
printf 'no newline at the end' > "$dir/in/deeper/end"
printf '\n\n \t\v\f\r\n' > "$dir/in/deeper/blank"
printf 'a\0b c\377d\n' > "$dir/in/deeper/binary"
head -c 4096 /dev/zero | tr '\0' 'x' | cut -c 1-1000 > "$dir/in/deeper/long"
find "$dir/in" -type f -exec cat {} \; -exec echo \; | tr -s '[:space:]' '\n' | sed '/^$/d' | sort | uniq -c |
    sed 's/^ *\([0-9]*\) /\1\t/' | awk -F '\t' '{print $2 "\t" $1}' | sort > "$dir/want"

for ranks in 1 2 4; do
    mapreduce wordcount "$dir/in" -o "$dir/out" -w $ranks -q
    same "$ranks ranks"
done
if [ "$exec_kind" = cpu ]; then
    for lanes in 4 32; do
        mapreduce wordcount "$dir/in" -o "$dir/out" -w 2 -q --lanes $lanes
        same "$lanes lanes"
    done
fi
mapreduce wordcount "$dir/in" -o "$dir/out" -w 2 -q --parts 5 --task 1000
test "$(ls "$dir/out")" = "$(printf 'part-0000%d\n' 0 1 2 3 4)" || fail "not five parts"
same "five parts, small tasks"

mkdir "$dir/many" # more files than a process may open
for i in $(seq 1500); do echo "file $((i % 10)) is number $i" > "$dir/many/$i"; done
mv "$dir/want" "$dir/kept"
count_words "$dir"/many/* > "$dir/want"
(ulimit -n 400 && mapreduce wordcount "$dir/many" -o "$dir/out" -w 2 -q)
same "many files"
mv "$dir/kept" "$dir/want"

mapreduce wordcount "$dir/in" -q -w 2 | sort | cmp - "$dir/want" || fail "to standard output: another result"
test "$(mapreduce wordcount "$dir/in/empty" -q | wc -c)" = 0 || fail "an empty file has words"
echo "word count is coreutils'"
