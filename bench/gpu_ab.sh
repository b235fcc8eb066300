#!/usr/bin/env bash
# Posting from a GPU with the headers of two commits, on one machine and in turn: medians of each row, and their ratio.
#   bench/gpu_ab.sh OLD [NEW [RUNS]]    commits; NEW: what lies here (or "here"). RUNS: 5
# Builds into build/ab, with nvcc; a folder that was built elsewhere will do, where neither nvcc nor git is needed.
set -euo pipefail
cd "$(dirname "$0")/.."
old=${1:?which commit is the old one?} new=${2:-here} runs=${3:-5} ab=build/ab
mkdir -p "$ab"

build() { # build COMMIT PROGRAM
    [ ! -x "$2" ] || return 0
    local tree=.
    if [ "$1" != here ]; then
        tree=$ab/tree
        rm -rf "$tree" && mkdir "$tree"
        git archive "$1" include | tar -x -C "$tree"
    fi
    # The benchmark itself is the one that lies here, for both.
    nvcc -std=c++17 -O3 -arch=sm_90 -I"$tree/include" -o "$2" bench/gpu_post_bench.cu -libverbs -lpthread
}
one=$ab/post.$old two=$ab/post.$new
if [ "$new" = here ] && command -v nvcc >/dev/null; then rm -f "$two"; fi
build "$old" "$one"
build "$new" "$two"
[ "${RUN:-1}" = 1 ] || exit 0 # RUN=0: for another machine

for _ in $(seq "$runs"); do
    "$one" | sed 's/^/A/'
    "$two" | sed 's/^/B/'
done | awk -v runs="$runs" '
    # Rows: a name of 44 characters, then a number.
    substr($0, 46, 10) + 0 > 0 && substr($0, 2, 3) != "   " {
        which = substr($0, 1, 1); name = substr($0, 2, 44)
        if (!(name in seen)) { seen[name] = 1; order[++rows] = name }
        v[which, name, ++n[which, name]] = substr($0, 46, 10) + 0
    }
    /WRONG|lost/ { print; bad = 1 }
    function median(which, name,   i, j, t, k) {
        k = n[which, name]
        for (i = 1; i <= k; i++)
            for (j = i + 1; j <= k; j++)
                if (v[which, name, j] < v[which, name, i]) { t = v[which, name, i]; v[which, name, i] = v[which, name, j]; v[which, name, j] = t }
        return v[which, name, int((k + 1) / 2)]
    }
    END {
        printf "%-44s %9s %9s %7s   medians of %d runs\n", "", "old", "new", "ratio", runs
        for (i = 1; i <= rows; i++) {
            a = median("A", order[i]); b = median("B", order[i])
            if (a) printf "%-44s %9.1f %9.1f %7.3f\n", order[i], a, b, b / a
        }
        exit bad
    }'
