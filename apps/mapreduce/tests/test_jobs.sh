#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The jobs have the references' results, byte for byte: with one worker and four, with blocks of 1, 4, 32 and 256 lanes.
# Then the inputs at the edges.
. "$(dirname "$0")/lib.sh"
need_numpy
: "${GPUWIRE:?the gpuwire tool}"
app() { "$GPUWIRE" app mapreduce "$@"; }
gen() { app gen "$@" || fail "gen $*"; }

# job NAME OPTION... : runs it on CPU threads and gathers its parts in the file `got`.
job() {
    rm -rf out
    app "$1" --exec cpu --quiet -o out "${@:2}" 2>error || fail "$*: $(cat error)"
    cat out/part-* >got
}
refused() { # STATUS TEXT ARGUMENT...: the job fails with one line that says TEXT
    rm -rf out
    app "$3" --exec cpu --quiet -o out "${@:4}" >output 2>error
    local status=$?
    [ "$status" = "$1" ] || fail "${*:3}: status $status, not $1: $(cat error)"
    grep -q -- "$2" error || fail "${*:3}: does not say \"$2\": $(cat error)"
    [ "$(wc -l <error)" = 1 ] || fail "${*:3}: not one line: $(cat error)"
}

# ---- results
mkdir -p texts/more
gen text 1500K texts/zipf
odd_text 300000 >texts/odd
odd_text 50000 >texts/more/short
printf x >texts/one
: >texts/empty
gen records 600K records
gen records 100K twins --ascii
cat twins >>twins.twice && cat twins >>twins.twice # each key twice
"$python" -c '
import numpy
r = numpy.random.default_rng(1)
numpy.save("points", r.normal(0, 5, (3000, 13)).astype("f4"))
numpy.save("half", r.normal(0, 5, (700, 5)).astype("f2"))
numpy.save("double", r.normal(0, 5, (700, 21)))
numpy.save("matrix", r.uniform(-1, 1, (150, 777)).astype("f4"))
numpy.save("vector", r.uniform(-1, 1, 777).astype("f4"))'

texts=(texts/empty texts/more/short texts/odd texts/one texts/zipf)
tr -s '[:space:]' '\n' < <(cat texts/zipf <(echo) texts/odd <(echo) texts/more/short <(echo) texts/one) | sed '/^$/d' |
    sort | uniq -c | sed -E 's/^ *([0-9]+) (.*)$/\2\t\1/' | sort >wordcount
reference index "${texts[@]}" | sort >index
sort twins.twice >twins.sorted # printable, one a line: as sort has it
reference sort records >sort
reference kmeans points.npy 33 3 >kmeans
reference matvec matrix.npy vector.npy >matvec
for how in "1 1" "4 4" "2 32"; do
    read -r workers lanes <<<"$how"
    options=(--workers "$workers" --lanes "$lanes")
    job wordcount texts "${options[@]}" && sort got >sorted && same "words: $how" sorted wordcount
    job index texts "${options[@]}" && sort got >sorted && same "index: $how" sorted index
    job sort records "${options[@]}" && same "sort: $how" got sort
    job sort twins.twice "${options[@]}" && same "equal keys: $how" got twins.sorted
    job kmeans points.npy "${options[@]}" -- 33 3 && same "k-means: $how" got kmeans
    job matvec matrix.npy "${options[@]}" -- vector.npy && same "product: $how" got matvec
done
job kmeans points.npy --lanes 256 --mappers 1 -- 33 3 && same "k-means by tiles" got kmeans
for kind in half double; do
    reference kmeans $kind.npy 7 3 >kmeans
    job kmeans $kind.npy --workers 2 -- 7 3 && same "k-means, $kind" got kmeans
done

# ---- edges
mkdir empty && : >empty/none
job wordcount empty && [ ! -s got ] || fail "an empty file has words"
job sort empty && [ ! -s got ] || fail "an empty file has records"
mkdir -p round/below && ln -s .. round/below/up && printf 'a b\na' >round/below/file
job wordcount round --workers 2 && sort got | cmp - <(printf 'a\t2\nb\t1\n') || fail "a circle of links"
head -c 1000000 /dev/zero | tr '\0' w >long
refused 1 "too long" wordcount long
head -c 16385 long >longer
refused 1 "too long" wordcount longer
head -c 16384 long >longest
job wordcount longest && same "the longest word" got <(cat longest; printf '\t1\n')
# Long words at every place of the pieces that are read: each line has one of 1 to 16384 bytes.
"$python" -c 'for i in range(400): print(str(i).zfill(1 + i * 7919 % 16384))' >words
for how in "--workers 2 --lanes 4" "--workers 1 --memory 64M"; do
    # shellcheck disable=SC2086  # several options
    job wordcount words words $how && same "long words: $how" <(LC_ALL=C sort got) <(LC_ALL=C sort words | sed 's/$/\t2/')
done
refused 1 "missing" wordcount missing
refused 1 "records" sort texts/one
refused 1 "not an .npy file" kmeans texts/zipf
refused 1 "3000 points for 3001 clusters" kmeans points.npy -- 3001
refused 1 "kmeans takes" kmeans points.npy -- none
refused 1 "777 values" matvec matrix.npy -- points.npy
refused 1 "vector" matvec matrix.npy
"$python" -c '
import numpy
a = numpy.ones((100, 3), "f4"); a[50, 1] = numpy.inf
numpy.save("infinite", a)
numpy.save("alike", numpy.ones((100, 3), "f4"))'
refused 1 "below 2^60" kmeans infinite.npy -- 3
reference kmeans alike.npy 3 2 >kmeans
job kmeans alike.npy -- 3 2 && same "points that are alike" got kmeans
if [ "$(id -u)" = 0 ] && command -v setpriv >/dev/null; then # another user's file
    mkdir -m 755 theirs && echo secret >theirs/file && chmod 600 theirs/file && chmod 755 "$work"
    setpriv --reuid 65534 --regid 65534 --clear-groups "$GPUWIRE" app mapreduce wordcount theirs --exec cpu --quiet >output 2>error &&
        fail "it read another user's file"
    grep -q 'theirs/file.*Permission denied' error || fail "another user's file: $(cat error)"
fi
echo "five jobs, their references' results; fifteen inputs at the edges"
