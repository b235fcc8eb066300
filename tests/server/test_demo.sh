#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The demo: under a minute (ten are granted), a better picture than bicubic by half a dB at least, the table, the file.
. "$(dirname "$0")/lib.sh" || exit 1
cd "$work" || exit 1
for picture in astronaut coffee; do
    timeout 600 "$GPUWIRE" demo --exec cpu --picture "$source_dir/models/superresolution/pictures/$picture.png" --out larger.png \
        >demo.out 2>&1 || fail "$picture: the demo ended with $?"
    cat demo.out
    sed -n 's/.*gain +\([0-9.]*\) dB$/\1/p' demo.out | awk '{ ok = $1 >= 0.5 } END { exit !ok }' || fail "$picture: no gain of 0.5 dB"
    for row in 'network in' wait model post 'network out' total; do
        grep -Eq "^  $row( +-?[0-9.]+){6}$" demo.out || fail "no row '$row' in the table"
        grep -Eq "^  $row .* -[0-9]" demo.out && fail "row '$row' has negative times"
    done
    grep -q '^CPU time of the worker: .* its own threads .* its software NIC$' demo.out || fail 'no CPU times'
    [ "$(head -c 8 larger.png | od -An -tx1 | tr -d ' ')" = 89504e470d0a1a0a ] || fail 'no picture'
done
all_gone
