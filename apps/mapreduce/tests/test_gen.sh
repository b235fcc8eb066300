#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The generators: the same seed makes the same file, another one another; the files are what they say.
. "$(dirname "$0")/lib.sh"
need_numpy
: "${GPUWIRE:?the gpuwire tool}"
gen() { "$GPUWIRE" app mapreduce gen "$@" || fail "gen $*"; }

for kind in text records points matrix vector; do
    gen $kind 200K a
    gen $kind 200K b --seed 1
    gen $kind 200K c --seed 2
    same "$kind, one seed" a b
    ! cmp -s a c || fail "$kind: two seeds make one file"
done
gen text 100000 a && [ "$(stat -c %s a)" = 100000 ] && [ "$(tail -c 1 a | od -An -c | tr -d ' ')" = '\n' ] || fail "text has another size"
words=$(wc -w <a)
[ "$(tr -s '[:space:]' '\n' <a | sort | uniq -c | sort -rn | awk 'NR == 1 { print $1 }')" -gt $((words / 20)) ] || fail "no word is frequent"
gen text 3M a --odd && [ "$(stat -c %s a)" = 3145728 ] || fail "odd text has another size"
! iconv -f UTF-8 -t UTF-8 a >/dev/null 2>&1 || fail "odd text is UTF-8"
grep -qaP '\x00' a && grep -qaE '[a-z]{500}' a && grep -qac '^$' a || fail "odd text lacks NULs, long words or empty lines"
gen records 10000 a --ascii && [ "$(wc -l <a)" = 100 ] && [ "$(awk '{ print length($0) }' a | sort -u)" = 99 ] || fail "records are not of 100 bytes"
gen points 1M a --columns 7 --clusters 3
gen matrix 1M b --columns 9
gen vector 999 c
"$python" -c '
import numpy
for name, shape in (("a", (37449, 7)), ("b", (29127, 9)), ("c", (249, 1))):
    x = numpy.load(name)
    assert x.shape == shape and x.dtype == "f4" and numpy.isfinite(x).all(), (name, x.shape)' || fail ".npy"
for wrong in "text" "text 1X a" "text -1 a" "nonsense 1 a" "text 1 a --columns 0" "points 1M a --columns x" "text 1 a b"; do
    # shellcheck disable=SC2086  # words
    "$GPUWIRE" app mapreduce gen $wrong 2>error
    [ $? = 2 ] && [ "$(wc -l <error)" = 1 ] || fail "gen $wrong: $(cat error)"
done
"$GPUWIRE" app mapreduce gen text 1 /nowhere/a 2>error
[ $? = 1 ] && grep -q nowhere error || fail "a folder that is not there: $(cat error)"
if [ -c /dev/full ]; then
    "$GPUWIRE" app mapreduce gen text 1M /dev/full 2>error
    [ $? = 1 ] && grep -q 'No space' error || fail "a full disk: $(cat error)"
fi
echo "five kinds of files"
