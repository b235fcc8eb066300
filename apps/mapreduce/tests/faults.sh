#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A full disk, input that changes, pairs that do not fit, and calls that are wrong: one clear line each.
. "$(dirname "$0")/common.sh"

# fails CODE TEXT ARGUMENT...
fails()
{
    local want=$1 text=$2 got=0
    shift 2
    mapreduce "$@" > /dev/null 2> "$dir/err" || got=$?
    test $got = "$want" || { cat "$dir/err"; fail "$*: exit code $got, not $want"; }
    grep -q -- "$text" "$dir/err" || { cat "$dir/err"; fail "$*: it did not say: $text"; }
    test "$(grep -vc 'is process' "$dir/err")" = 1 || { cat "$dir/err"; fail "$*: more than one line"; }
}

seq 1 300000 > "$dir/in"
printf 'short\n' > "$dir/small"

fails 2 'there is no such job' nothing "$dir/in"
fails 2 'needs input' wordcount
fails 2 'must be a number' wordcount "$dir/in" --workers 0
fails 2 'no such option' wordcount "$dir/in" --what
fails 2 'it wants a value' wordcount "$dir/in" -o
fails 2 'must be one of these: cpu gpu auto' wordcount "$dir/in" --exec pear
fails 2 'cannot open shared object' "$dir/none.so" "$dir/in"
fails 1 'cannot read it' wordcount "$dir/none" -w 2
fails 1 'takes no arguments' wordcount "$dir/small" -- 3
fails 1 'cannot make this folder' wordcount "$dir/small" -o "$dir/none/out"
mkdir "$dir/used"
touch "$dir/used/part-00000"
fails 1 'has an output already' wordcount "$dir/small" -o "$dir/used" -w 2
head -c 100000 /dev/zero | tr '\0' x > "$dir/long"
fails 1 'a word that is too long' wordcount "$dir/long" -w 2

# Pairs of 3,000,000 different words take 70 MB.
seq 1 3000000 > "$dir/many"
fails 1 'do not fit' wordcount "$dir/many" -w 2 --memory 16M -o "$dir/out"
test -z "$(find "$dir/out" -type f)" || fail "files are left"
rm -rf "$dir/out" "$dir/many"

# The input changes while it is read.
start wordcount "$dir/in" --rate 400k --task 64k
sleep 0.3
echo more >> "$dir/in"
ended
test "$code" = 1 || fail "changed input: exit code $code"
grep -q 'the file changed' "$dir/err" || { cat "$dir/err"; fail "nobody said that the file changed"; }
test -z "$(find "$dir/out" -type f)" || fail "changed input: files are left"
start wordcount "$dir/in" --rate 400k --task 64k
sleep 0.3
: > "$dir/in"
ended
test "$code" = 1 || fail "shorter input: exit code $code"
grep -q 'the file \(changed\|became shorter\)' "$dir/err" || { cat "$dir/err"; fail "nobody said that the file changed"; }

# A full disk: 64 KiB are less than the output. It needs a mount of its own.
seq 1 50000 > "$dir/in"
mkdir "$dir/disk"
cat > "$dir/full.sh" <<END
mount -t tmpfs -o size=64k none $dir/disk || exit 77
timeout 60 $GPUWIRE app mapreduce wordcount $dir/in --exec $exec_kind -w 4 -q -o $dir/disk/out 2> $dir/err
code=\$?
find $dir/disk/out -type f > $dir/left
exit \$code
END
code=0
unshare -rm sh "$dir/full.sh" 2> /dev/null || code=$?
if ! grep -q 'No space left' "$dir/err"; then
    test $code = 77 || test $code = 1 && ! test -s "$dir/left" && ! grep -q mapreduce "$dir/err" && echo "no mount here: the full disk was left out" && exit 0
    cat "$dir/err"
    fail "a full disk: exit code $code"
fi
test $code = 1 || fail "a full disk: exit code $code"
test ! -s "$dir/left" || fail "a full disk: files are left"
echo "faults are reported"
