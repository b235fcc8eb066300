#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The library without the tool: loaded at run time by Python, or preloaded by hand. test_in_process.sh LIBRARY
. "${0%/*}/lib.sh"
need python3 ibv_devices ibv_rc_pingpong
export GPUWIRE_NIC=addr=$net.1
python=$(python3 -c 'import sys; print(sys.executable)') # the name may be a script's, for a shell: not to be preloaded
timeout "$patience" env LD_PRELOAD="${SANITIZER:-}" "$python" "${0%/*}/test_ctypes.py" "$1" >"$work/python.out" 2>&1 || fail 'python'
grep -q 'opened before fork' "$work/python.out" || fail 'the child was refused without a word'
nothing_left

LD_PRELOAD="${SANITIZER:-} $1" ibv_devices >"$work/devices.out" 2>&1 || fail 'ibv_devices'
grep -q mlx5_0 "$work/devices.out" || fail 'ibv_devices does not list mlx5_0'
nothing_left

# What a killed process leaves is swept by the next one; a living one's tree stays.
port=$(free_port)
LD_PRELOAD="${SANITIZER:-} $1" ibv_rc_pingpong -g 0 -p "$port" >"$work/living.out" 2>&1 &
living=$!
pids+=("$living")
wait_listen "$port" "$living" || fail 'the server does not listen'
port=$(free_port)
LD_PRELOAD="${SANITIZER:-} $1" ibv_rc_pingpong -g 0 -p "$port" >"$work/killed.out" 2>&1 &
killed=$!
pids+=("$killed")
wait_listen "$port" "$killed" || fail 'the server does not listen'
kill -KILL "$killed"
wait "$killed" 2>/dev/null
home=$XDG_RUNTIME_DIR/gpuwire-$(id -u)
[ -d "$home/nic-$killed" ] || fail 'no tree where one was expected'
mkdir "$home/new-$killed" # as of one killed between its first two steps
LD_PRELOAD="${SANITIZER:-} $1" ibv_devices >"$work/devices2.out" 2>&1 || fail 'ibv_devices again'
[ -d "$home/nic-$killed" ] && fail 'the tree of the killed process is still there'
[ -d "$home/new-$killed" ] && fail 'the tree that was never finished is still there'
[ -d "$home/nic-$living" ] || fail "a living process's tree was taken away"
kill -KILL "$living"
wait "$living" 2>/dev/null
"${gpuwire[@]}" run -- true || fail 'true'
nothing_left
echo ok
