#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# `gpuwire infer`: tensors against golden ones; pictures of all kinds and sizes; no seams where tiles join.
. "$(dirname "$0")/lib.sh" || exit 1
need python3 curl
picture() { python3 "$here/picture.py" "$@" || fail "picture.py $*"; }
infer() { timeout "$patience" "$GPUWIRE" infer "$@" --server "$server" >"$work/infer.out" 2>&1 || fail "infer $*: $?"; }
golden=$source_dir/models/superresolution
serve worker --models "$source_dir/models"
cd "$work" || exit 1

infer superresolution --input "$golden/golden_input.npy" --output y.npy
picture golden y.npy "$golden/golden_output.npy"
infer identity --input "$golden/golden_input.npy" --output same.npy
tail -c 200704 same.npy | cmp - <(tail -c 200704 "$golden/golden_input.npy") || fail 'identity changes its input'

# Sizes: larger than a tile by one pixel, a tile, thin ones, a single pixel.
while read -r kind width height channels; do
    picture make "$kind" "$width" "$height" in.png
    infer superresolution --image in.png --out out.png
    [ "$(picture size out.png)" = "$((3 * width)) $((3 * height)) $channels" ] ||
        fail "$kind ${width}x$height became $(picture size out.png)"
done <<END
grey 225 100 1
greya 40 40 2
rgb 1 1 3
rgb 3 200 3
rgba 224 224 4
rgba 30 300 4
END

# 300x250 takes several tiles; a part of it that fits into one tile, seams of the whole in its midst, is the same picture.
picture make rgb 300 250 whole.png
infer superresolution --image whole.png --out joined.png --stats
cat infer.out
grep -Eq ' [4-9] tiles' infer.out || fail 'the picture was not split'
picture crop whole.png 60 30 208 208 part.png
infer superresolution --image part.png --out alone.png
grep -q ' 1 tiles' infer.out || fail 'the part was split'
picture same joined.png 180 90 alone.png 24
stop_worker
all_gone
