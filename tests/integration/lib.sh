# SPDX-License-Identifier: Apache-2.0
# Helpers for tests that run unmodified programs on the software NIC. $GPUWIRE is the tool. If it was built with a sanitizer,
# $SANITIZER is that one's runtime, which has to come first in programs that know nothing of it.
# Sourced; the sourcing script gets `set -u`, a scratch folder in $work and a trap that leaves nothing.
set -u
: "${GPUWIRE:?the gpuwire tool}"
gpuwire=("$GPUWIRE")
[ -n "${SANITIZER:-}" ] && gpuwire=(env "LD_PRELOAD=$SANITIZER" "$GPUWIRE")
export LC_ALL=C
arguments=("$@") # the script's
work=$(mktemp -d "${TMPDIR:-/tmp}/gpuwire-test.XXXXXX")
# In memory where there is some: many small files that come and go are slow on some disks.
XDG_RUNTIME_DIR=$(mktemp -d /dev/shm/gpuwire-test.XXXXXX 2>/dev/null || mktemp -d "$work/run.XXXXXX")
export XDG_RUNTIME_DIR
readonly run_folder=$XDG_RUNTIME_DIR # clean_up takes it away, whatever a test makes of the variable
# A folder in here is a port that one of these scripts has, or is about to have.
readonly reserved=${TMPDIR:-/tmp}/gpuwire-test-ports.$UID
# Addresses of this test's own: of the processes at an address any may be given another's packets to pass on, and a test must
# not depend on what else runs here. All of 127.0.0.0/8 is this host's.
net=127.$((RANDOM % 200 + 20)).$((RANDOM % 250 + 1))
# How many seconds anything may take that must happen: many times what is promised, for machines that have much else to do.
patience=${PATIENCE:-120}
# What an unkind network does to packets, on their way out and in, of both sides.
unkind=loss=2%,dup=1%,reorder=2%
pids=()
# nap SECONDS: as sleep does, but starts no program. Tests wait some ten thousand times.
exec {silence}<> <(:) # nothing is ever written there
nap() { read -rt "$1" -u "$silence" || true; }
# doze: a nap that is longer each time. The caller has set `local ms=10`.
doze() {
    local seconds
    printf -v seconds 0.%03d "$ms"
    nap "$seconds"
    ((ms >= 80)) || ((ms += ms / 2))
}
# with_children PID: it, and all that it started, which may ignore a gentle end.
with_children() {
    local child
    echo "$1"
    for child in $(pgrep -P "$1"); do with_children "$child"; done
}
clean_up() {
    local p i
    # Gently first: `timeout` passes that on to the program under it, which a killed one would leave.
    for p in "${pids[@]}"; do kill -TERM "$p" 2>/dev/null; done
    for ((i = 0; i < 40; i++)); do kill -0 "${pids[@]}" 2>/dev/null && nap 0.05 || break; done
    # shellcheck disable=SC2046  # numbers
    for p in "${pids[@]}"; do gone "$p" || kill -KILL $(with_children "$p") 2>/dev/null; done
    wait 2>/dev/null
    if [ -e "$work/reserved" ]; then
        xargs rmdir <"$work/reserved"
        rmdir "$reserved" 2>/dev/null # unless another script has ports
    fi
    rm -rf "$work" "$run_folder"
}
trap clean_up EXIT
trap 'exit 130' INT TERM

fail() {
    echo "FAILED: $*" >&2
    local f
    for f in "$work"/*.out; do
        [ -s "$f" ] && { echo "--- ${f##*/}"; tail -n 15 "$f"; } >&2
    done
    exit 1
}

# gojq starts sooner than jq and runs the same programs. It sorts an object's keys, so no test may ask for their order.
command -v gojq >/dev/null && jq() { gojq "$@"; }

# skip PROGRAM...: a test that needs a program which is not installed is skipped (ctest knows 77).
need() {
    local p
    for p in "$@"; do command -v "$p" >/dev/null || { echo "skipped: $p is not installed"; exit 77; }; done
}

# own_files PATH...: the script runs programs that open files of these fixed names. Where another user has left one, the
# script starts over in a mount namespace, with a file of its own in that place. Where it may make none, it is skipped.
own_files() {
    local f space=(unshare -m)
    [ "$(id -u)" = 0 ] || space=(unshare -rm)
    for f in "$@"; do
        [ -e "$f" ] && [ ! -O "$f" ] || continue
        if [ -n "${IN_OWN_MOUNTS:-}" ]; then
            : >"$work/${f##*/}" && mount --bind "$work/${f##*/}" "$f" || fail "cannot put another file in place of $f"
        elif "${space[@]}" true 2>/dev/null; then
            rm -rf "$work" "$run_folder"
            IN_OWN_MOUNTS=1 exec "${space[@]}" "$BASH" "$0" "${arguments[@]}"
        else
            echo "skipped: another user has left $f; remove it"
            exit 77
        fi
    done
}

# reserve PORT: until this script ends; fails when another has it.
reserve() {
    mkdir "$reserved/$1" 2>/dev/null || { mkdir -p "$reserved" 2>/dev/null && mkdir "$reserved/$1" 2>/dev/null; } || return 1
    echo "$reserved/$1" >>"$work/reserved"
}

# A TCP port that no program listens on, or is about to. It is below the ephemeral range, so that no program is given it by
# chance.
free_port() {
    local p hex i
    for ((i = 0; i < 100; i++)); do
        p=$((20000 + (RANDOM << 4 ^ RANDOM ^ $$) % 12000))
        hex=$(printf ':%04X 0' "$p")
        grep -qi "$hex" /proc/net/tcp /proc/net/tcp6 2>/dev/null && continue
        reserve "$p" && { echo "$p"; return; }
    done
    echo "FAILED: no TCP port could be reserved in $reserved" >&2
    return 1
}

# eventually COMMAND...: until it succeeds; fails when patience ends.
eventually() {
    local end=$((SECONDS + patience)) ms=10
    until "$@"; do
        [ "$SECONDS" -lt "$end" ] || return 1
        doze
    done
}

# while_lives PID COMMAND...: the same; fails when PID ends first, too.
while_lives() {
    local pid=$1 end=$((SECONDS + patience)) ms=10
    shift
    until "$@"; do
        kill -0 "$pid" 2>/dev/null || { "$@"; return; }
        [ "$SECONDS" -lt "$end" ] || return 1
        doze
    done
}

# gone PID: has it ended?
gone() { ! kill -0 "$1" 2>/dev/null; }

# wait_for FILE TEXT PID: until the file has the text; fails when PID ends first.
wait_for() { while_lives "$3" grep -qs -e "$2" "$1"; }

# has_sent PID BYTES: has that process's NIC, by packets and by copies? Wants jq.
has_sent() {
    [ "$("${gpuwire[@]}" nic --json --pid "${1:-1}" 2>/dev/null |
        jq ".[0].counters | .direct_bytes + .tx_bytes >= $2" 2>/dev/null)" = true ]
}

# wait_listen PORT PID: until a program listens there; fails when PID ends first.
wait_listen() {
    while_lives "$2" grep -qi "$(printf ':%04X [0-9A-F]*:0000 0A' "$1")" /proc/net/tcp /proc/net/tcp6 2>/dev/null
}

# wait_service ADDRESS PORT PID [SPACE]: until a program has that port of rdma_cm's, and a moment longer: programs bind,
# then listen, then get ready.
wait_service() {
    local gid name
    gid=$(printf '00000000000000000000ffff%02x%02x%02x%02x' ${1//./ })
    name=$(printf '@gpuwire/%s/service/%s%04x' "$gid" "${4:-106}" "$2")
    while_lives "$3" grep -q "$name" /proc/net/unix && sleep 0.3
}

# fast_perftest: from now on perftest gets a clock with which it measures the processor in less time (fast_clock.c). Its figures
# are wrong then, so a script that reads them must not call this.
fast_perftest() { export LD_PRELOAD=${FAST_CLOCK:-}; }

# pair NAME SERVER_NIC CLIENT_NIC PROGRAM ARGS...: a server and a client of PROGRAM that find each other over TCP.
# PROGRAM takes -p PORT, and the client the server's host last. Leaves NAME.server.out and NAME.client.out.
pair() {
    local name=$1 tries=${PAIR_TRIES:-1}
    while ! try_pair "$@"; do
        unanswered_last_word "$name" && [ $((--tries)) -gt 0 ] || fail "$pair_error"
        echo "$name: the last acknowledgement got lost and its sender is gone: once more"
        set -- "${@/seed=/seed=1}" # the same seed might lose the same packet
    done
}

# Where packets get lost, so may the acknowledgement of the very last message, whose sender ends right after it, as
# these programs do. Then no process is left to repeat it: true of any network, and no fault of the NIC's.
unanswered_last_word() {
    local done_side failed_side
    for done_side in server client; do
        failed_side=client
        [ $done_side = client ] && failed_side=server
        grep -qE 'iters in|^success$' "$work/$1.$done_side.out" && grep -q 'retry counter exceeded' "$work/$1.$failed_side.out" &&
            return 0
    done
    return 1
}

try_pair() {
    local name=$1 snic=$2 cnic=$3 port server rc
    shift 3
    port=$(free_port)
    GPUWIRE_NIC=$snic timeout -k 5 "${PAIR_TIMEOUT:-$patience}" "${gpuwire[@]}" run -- "$@" -p "$port" >"$work/$name.server.out" 2>&1 &
    server=$!
    pids+=("$server")
    wait_listen "$port" "$server" || fail "$name: the server does not listen"
    GPUWIRE_NIC=$cnic timeout -k 5 "${PAIR_TIMEOUT:-$patience}" "${gpuwire[@]}" run -- "$@" -p "$port" 127.0.0.1 >"$work/$name.client.out" 2>&1
    rc=$?
    pair_error="$name: the client ended with $rc"
    [ $rc = 0 ] || { sleep 0.2; kill -TERM "$server" 2>/dev/null; wait "$server"; return 1; }
    wait "$server"
    rc=$?
    pair_error="$name: the server ended with $rc"
    [ $rc = 0 ]
}

# nothing_left: no tree of a software NIC remains.
nothing_left() {
    local left
    left=$(find "$XDG_RUNTIME_DIR" -mindepth 1 2>/dev/null | head -5)
    [ -z "$left" ] || fail "left: $left"
}
