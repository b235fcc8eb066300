# SPDX-License-Identifier: Apache-2.0
# Helpers for tests of `gpuwire serve` and its clients. Sourced; see tests/integration/lib.sh for what else there is.
here=$(cd "${BASH_SOURCE[0]%/*}" && pwd)
. "$here/../integration/lib.sh"
source_dir=$here/../..
export GPUWIRE_NIC=addr=127.0.0.1

# serve NAME ARGS...: a worker on any free port. Sets $worker (its pid) and $server; NAME.out has what it says.
serve() {
    local name=$1
    shift
    rm -f "$work/$name.out" # of a worker before
    "$GPUWIRE" serve --port 0 --exec cpu "$@" >"$work/$name.out" 2>&1 &
    worker=$!
    pids+=("$worker")
    wait_for "$work/$name.out" 'HTTP on port' "$worker" || fail "$name: the worker is not ready"
    server=127.0.0.1:$(sed -n 's/.*HTTP on port \([0-9]*\).*/\1/p' "$work/$name.out")
}

# ends PID SIGNAL: sends it; the process must end (within a second is promised; see patience). Leaves its exit code in $rc.
ends() {
    kill "-$2" "$1"
    eventually gone "$1" || fail "process $1 does not end within $patience seconds of SIG$2"
    wait "$1"
    rc=$?
}

stop_worker() {
    ends "$worker" TERM
    [ "$rc" = 0 ] || fail "the worker ended with $rc"
}

# stat MODEL NAME: a number of the worker's.
stat_of() { curl -sf "http://$server/v2/models/$1/stats" | sed -n "s/.*\"$2\":\([0-9]*\).*/\1/p"; }
# stat_is MODEL NAME NUMBER, stat_above MODEL NAME NUMBER
stat_is() { [ "$(stat_of "$1" "$2")" = "$3" ]; }
stat_above() { [ "$(stat_of "$1" "$2")" -gt "$3" ]; }

# rss PID: its resident memory in KiB.
rss() { sed -n 's/^VmRSS:[^0-9]*\([0-9]*\).*/\1/p' "/proc/$1/status"; }

# cpu_ms PID: processor time of all its threads so far.
cpu_ms() { awk -v hz="$(getconf CLK_TCK)" '{ sub(/.*\) /, ""); print ($12 + $13) * 1000 / hz }' "/proc/$1/stat"; }

# no_worker_left: nothing of ours is left in the places where things could be.
all_gone() {
    nothing_left
    local left
    left=$(find /dev/shm "${TMPDIR:-/tmp}" -maxdepth 1 -newer "$work/began" \( -name 'gpuwire-nic*' -o -name 'gw-*' \) 2>/dev/null)
    [ -z "$left" ] || fail "left: $left"
}
touch "$work/began"
