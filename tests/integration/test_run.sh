#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# gpuwire run: exit codes, signals, errors, nothing left.
. "${0%/*}/lib.sh"
export GPUWIRE_NIC=addr=$net.1

expect() { # CODE WHAT COMMAND...
    local want=$1 what=$2 rc
    shift 2
    timeout "$patience" "$@" >"$work/expect.out" 2>&1
    rc=$?
    [ $rc = "$want" ] || fail "$what: exit code $rc, not $want"
}
expect 0 'true' "${gpuwire[@]}" run -- true
expect 7 'own code' "${gpuwire[@]}" run -- sh -c 'exit 7'
expect 143 'killed by SIGTERM' "${gpuwire[@]}" run -- sh -c 'kill -TERM $$'
expect 2 'no program' "${gpuwire[@]}" run
grep -q 'which program' "$work/expect.out" || fail 'no program: not said'
expect 2 'unknown flag' "${gpuwire[@]}" run --frobnicate -- true
expect 127 'not found' "${gpuwire[@]}" run -- /nonexistent/program
grep -q '/nonexistent/program: no such program' "$work/expect.out" || fail 'not found: not said'
expect 127 'not installed' env PATH=/nonexistent "${gpuwire[@]}" run -- ibv_rc_pingpong -g 0
grep -q 'ibv_rc_pingpong: no such program (on Debian: apt-get install ibverbs-utils)' "$work/expect.out" || fail 'not found: not where from'
expect 126 'not executable' "${gpuwire[@]}" run -- /etc/passwd
expect 2 'bad GPUWIRE_NIC' env GPUWIRE_NIC=colour=red "${gpuwire[@]}" run -- true
grep -q 'colour' "$work/expect.out" || fail 'bad GPUWIRE_NIC: not said'
[ "$(wc -l <"$work/expect.out")" = 1 ] || fail 'bad GPUWIRE_NIC: more than one line'
expect 0 'arguments untouched' "${gpuwire[@]}" run -- sh -c '[ "$1" = -- ] && [ "$2" = "a b" ]' sh -- 'a b'
expect 0 'help' "${gpuwire[@]}" run --help
expect 2 'no command' "${gpuwire[@]}"
expect 2 'unknown command' "${gpuwire[@]}" frobnicate
expect 0 'help of a command' "${gpuwire[@]}" help run
grep -q '^usage: gpuwire run' "$work/expect.out" || fail 'gpuwire help run: not the usage of run'
expect 2 'help of no command' "${gpuwire[@]}" help frobnicate
expect 0 'version' "${gpuwire[@]}" --version
grep -qE '^gpuwire [0-9.]+$' "$work/expect.out" || fail 'gpuwire --version: no version'
"${gpuwire[@]}" help >/dev/full 2>"$work/expect.out"
[ $? = 1 ] && grep -q 'standard output: No space left on device' "$work/expect.out" || fail 'a full disk: not said'

# Programs that cannot have the NIC: one line each, and they run.
printf 'int main(void) { return 5; }\n' >"$work/five.c"
says() { # WHAT TEXT
    grep -q "^gpuwire run: .*$2" "$work/expect.out" || fail "$1: not said"
    [ "$(wc -l <"$work/expect.out")" = 1 ] || fail "$1: more than one line"
}
if command -v cc >/dev/null; then
    cc -o "$work/five" "$work/five.c" || fail 'cc'
    expect 5 'linked dynamically' "${gpuwire[@]}" run -- "$work/five"
    [ -s "$work/expect.out" ] && fail 'linked dynamically: a word about it'
    for how in -static -static-pie; do
        cc $how -o "$work/five$how" "$work/five.c" 2>/dev/null || continue
        expect 5 "$how" "${gpuwire[@]}" run -- "$work/five$how"
        says "$how" 'five-static.* is statically linked'
        PATH=$work:$PATH expect 5 "$how, along PATH" "${gpuwire[@]}" run -- "five$how"
        says "$how, along PATH" 'five-static.* is statically linked'
    done
    if [ -x "$work/five-static" ]; then
        printf '#!%s\n' "$work/five-static" >"$work/script" && chmod +x "$work/script"
        expect 5 'a script' "${gpuwire[@]}" run -- "$work/script"
        says 'a script' 'five-static is statically linked'
    fi
    # Another user's program that is set-user-ID: as root there is none in a folder of one's own, so make one.
    chmod 4755 "$work/five"
    if [ "$(id -u)" = 0 ] && chown 65534 "$work/five" && chmod 4755 "$work/five" && ! findmnt -no OPTIONS -T "$work" | grep -qw nosuid; then
        expect 5 'set-user-ID' "${gpuwire[@]}" run -- "$work/five"
        says 'set-user-ID' 'five runs with more rights than its caller'
    fi
fi

# Several NICs come in their order. On a disk, file systems list folders in an order of their own.
if [[ $run_folder == /dev/shm/* ]]; then
    listed=$("${gpuwire[@]}" run --nic "addr=$net.1;addr=$net.2;addr=$net.3" -- ibv_devices | grep -o 'mlx5_[0-9]' | xargs)
    [ "$listed" = 'mlx5_0 mlx5_1 mlx5_2' ] || fail "several NICs: listed as $listed"
fi

# A tool without the program that serves: one line says which is missing.
if "${gpuwire[@]}" serve --help >"$work/expect.out" 2>&1; then
    mkdir "$work/alone" && cp "$GPUWIRE" "$work/alone/"
    "$work/alone/gpuwire" serve --help >"$work/expect.out" 2>&1
    [ $? = 1 ] || fail 'a tool alone serves'
    grep -q '^gpuwire serve: cannot start .*/gpuwire-serving, which belongs to gpuwire: No such file' "$work/expect.out" || fail 'not what is missing'
fi

# On a machine with a GPU, NCCL is told that the NIC is near, unless the environment says otherwise. Elsewhere nothing changes.
level() { "${gpuwire[@]}" run -- printenv NCCL_NET_GDR_LEVEL; }
[ -e /dev/nvidiactl ] || [ -e /proc/driver/nvidia/version ] || [ -z "$(level)" ] || fail 'no GPU: NCCL is told of one'
if unshare -rm true 2>/dev/null; then
    mkdir -m 700 "$work/gpu"
    with_gpu() {
        unshare -rm sh -c 'mount -t tmpfs gpu /dev && : >/dev/nvidiactl && : >/dev/null && exec "$@"' sh \
            env XDG_RUNTIME_DIR="$work/gpu" "$@" "${gpuwire[@]}" run -- printenv NCCL_NET_GDR_LEVEL
    }
    [ "$(with_gpu)" = SYS ] || fail 'a GPU: NCCL is not told that the NIC is near'
    [ "$(with_gpu NCCL_NET_GDR_LEVEL=PHB)" = PHB ] || fail "a GPU: the user's own level is lost"
fi

# No room for what libibverbs reads of the NIC.
if unshare -rm true 2>/dev/null; then
    mkdir "$work/full"
    unshare -rm sh -c 'mount -t tmpfs -o size=4k,mode=700 full "$1" && shift && exec "$@"' sh "$work/full" \
        env XDG_RUNTIME_DIR="$work/full" timeout "$patience" "${gpuwire[@]}" run -- ibv_devinfo >"$work/expect.out" 2>&1
    grep -q '^gpuwire: cannot write .*: No space left on device; set XDG_RUNTIME_DIR' "$work/expect.out" || fail 'no room: not said'
fi

sleeps() { # its pid in $child
    child=$(cat "/proc/$tool/task/$tool/children" 2>/dev/null)
    [ -n "$child" ] && [ "$(cat "/proc/${child% }/comm" 2>/dev/null)" = sleep ]
}
# A signal to the tool reaches the program, and the tool ends as the program does.
for sig in INT TERM HUP; do
    "${gpuwire[@]}" run -- sleep 600 >"$work/signal.out" 2>&1 &
    tool=$!
    pids+=("$tool")
    while_lives "$tool" sleeps || fail "SIG$sig: the program does not start"
    kill -s $sig "$tool"
    wait "$tool"
    rc=$?
    [ $rc = $((128 + $(kill -l $sig))) ] || fail "SIG$sig: exit code $rc"
    kill -0 "${child% }" 2>/dev/null && fail "SIG$sig: the program still runs"
done
# A tool that is killed takes its program along.
"${gpuwire[@]}" run -- sleep 600 >"$work/killed.out" 2>&1 &
tool=$!
pids+=("$tool")
while_lives "$tool" sleeps || fail 'SIGKILL: the program does not start'
kill -KILL "$tool"
wait "$tool" 2>/dev/null
ended() { [ ! -e "/proc/$1/stat" ] || grep -q '^State:.*zombie' "/proc/$1/status" 2>/dev/null; }
eventually ended "${child% }" || fail 'SIGKILL: the program still runs'
expect 0 'sweeping' "${gpuwire[@]}" run -- true # what the two could not remove
nothing_left
echo ok
