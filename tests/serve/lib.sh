# SPDX-License-Identifier: Apache-2.0
# Helpers for tests of `gpuwire serve` and its clients. Sourced; see tests/integration/lib.sh for what else there is.
here=$(cd "${BASH_SOURCE[0]%/*}" && pwd)
. "$here/../integration/lib.sh"
source_dir=$here/../..
export GPUWIRE_NIC=addr=127.0.0.1

# wait_for FILE TEXT PID: until the file has the text; fails when PID ends first or after 20 s.
wait_for() {
    local i
    for ((i = 0; i < 2000; i++)); do
        grep -q "$2" "$1" 2>/dev/null && return 0
        kill -0 "$3" 2>/dev/null || { grep -q "$2" "$1"; return; }
        sleep 0.01
    done
    return 1
}

# serve NAME ARGS...: a worker on any free port. Sets $worker (its pid) and $server; NAME.out has what it says.
serve() {
    local name=$1
    shift
    rm -f "$work/$name.out" # of a worker before
    "$GPUWIRE" serve --host 127.0.0.1 --port 0 --exec cpu "$@" >"$work/$name.out" 2>&1 &
    worker=$!
    pids+=("$worker")
    wait_for "$work/$name.out" 'HTTP on port' "$worker" || fail "$name: the worker is not ready"
    server=127.0.0.1:$(sed -n 's/.*HTTP on port \([0-9]*\).*/\1/p' "$work/$name.out")
}

# ends PID SIGNAL: sends it; the process must end (within a second is promised, ten are granted). Leaves its exit code
# in $rc.
ends() {
    local i
    kill "-$2" "$1"
    for ((i = 0; i < 1000; i++)); do
        kill -0 "$1" 2>/dev/null || break
        sleep 0.01
    done
    kill -0 "$1" 2>/dev/null && fail "process $1 does not end within ten seconds of SIG$2"
    wait "$1"
    rc=$?
}

stop_worker() {
    ends "$worker" TERM
    [ "$rc" = 0 ] || fail "the worker ended with $rc"
}

# stat MODEL NAME: a number of the worker's.
stat_of() { curl -sf "http://$server/v2/models/$1/stats" | sed -n "s/.*\"$2\":\([0-9]*\).*/\1/p"; }

# rss PID: its resident memory in KiB.
rss() { sed -n 's/^VmRSS:[^0-9]*\([0-9]*\).*/\1/p' "/proc/$1/status"; }

# cpu_ms PID: processor time of all its threads so far.
cpu_ms() { awk -v hz="$(getconf CLK_TCK)" '{ sub(/.*\) /, ""); print ($12 + $13) * 1000 / hz }' "/proc/$1/stat"; }

# no_worker_left: nothing of ours is left in the places where things could be.
all_gone() {
    nothing_left
    local left
    left=$(find /dev/shm "${TMPDIR:-/tmp}" -maxdepth 1 -newer "$work/began" \( -name 'gpuwire-nic*' -o -name 'gw-*' \) 2>/dev/null)
    [ -z "$left" ] || fail "left behind: $left"
}
touch "$work/began"
