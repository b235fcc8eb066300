# SPDX-License-Identifier: Apache-2.0
# What the tests of jobs share. Sourced; gives a folder of its own in $work, which goes at the end.
set -u
export LC_ALL=C
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
work=$(mktemp -d "${TMPDIR:-/tmp}/gpuwire-mapreduce.XXXXXX")
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM
cd "$work" || exit 1
# A software NIC of this test's own: others of this user, of another build even, may be at 127.0.0.1.
export XDG_RUNTIME_DIR=$work/run GPUWIRE_NIC=addr=127.$((RANDOM % 200 + 20)).$((RANDOM % 250 + 1)).1
mkdir -m 700 "$XDG_RUNTIME_DIR"

fail() {
    echo "FAILED: $*" >&2
    exit 1
}
same() { # WHAT FILE FILE
    cmp "$2" "$3" >&2 || fail "$1: the results differ"
}

# The references of k-means and matrices need numpy.
need_numpy() {
    python=python3
    "$python" -c 'import numpy' 2>/dev/null || python=/usr/bin/python3
    "$python" -c 'import numpy' 2>/dev/null || { echo "skipped: Python has no numpy"; exit 77; }
}
reference() { "$python" "$here/reference.py" "$@" || fail "the reference of $1 failed"; }

# Text that a terminal would rather not see, of N bytes.
odd_text() {
    "$python" -c '
import random, sys
r = random.Random(int(sys.argv[1]))
words = [bytes(r.choices(range(256), k=r.randint(1, 12))) for _ in range(2000)]
out = bytearray()
while len(out) < int(sys.argv[1]):
    out += words[int(r.random() ** 3 * 2000)] + r.choice([b" ", b" ", b" ", b"\n", b"\t", b"\r\n", b"\n\n\n"])
sys.stdout.buffer.write(out.rstrip())' "$1"
}
