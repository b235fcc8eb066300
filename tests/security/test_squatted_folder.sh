#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A stranger takes the names of the folder that a user's NIC keeps in /dev/shm, /tmp and /var/tmp: by a folder, a link and a file.
. "$(dirname "$0")/lib.sh"
in_own_net "$0" "$@"
need ibv_devices
readable_tool
NEIGHBOUR=$((70000 + $$ % 900000)) # a user without a folder
names=({/dev/shm,/tmp,/var/tmp}/gpuwire-$NEIGHBOUR)
trap 'rm -rf "${names[@]}"; clean_up' EXIT

for how in 'mkdir -m 777' "ln -s $work/target" touch; do
    mkdir -p -m 777 "$work/target"
    for name in "${names[@]}"; do as_stranger $how "$name" || fail "the attacker cannot take $name"; done
    as_neighbour env -u XDG_RUNTIME_DIR "${gpuwire[@]}" run -- ibv_devices >"$work/devices.out" 2>&1
    grep -q mlx5_0 "$work/devices.out" || fail "$how: the user has no NIC"
    grep -q "is not this user's own folder" "$work/devices.out" || fail "$how: nothing is said"
    [ -z "$(ls -A "$work/target")" ] || fail "$how: something was written through the stranger's link"
    [ -z "$(ls -d /tmp/gpuwire-$NEIGHBOUR.* 2>/dev/null)" ] || fail "$how: the folder is left"
    rm -rf "${names[@]}"
done
echo ok
