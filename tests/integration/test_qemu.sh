#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# QEMU, unmodified, moves a guest to another QEMU over RDMA, and both have the same memory in the end. Once the guest is
# stopped, and QEMU registers its memory piece by piece. Once it runs and changes its memory all the time, so QEMU sends pages
# again and again; then all memory is registered at once.
. "${0%/*}/lib.sh"
need qemu-system-x86_64 python3
here=$(cd "${0%/*}" && pwd)

guest() { # NAME OPTIONS...: memory, a processor and a few instructions
    local name=$1
    shift
    exec timeout -k 5 "$patience" "${gpuwire[@]}" run -- qemu-system-x86_64 -accel tcg -M pc -m 128 -nodefaults -no-user-config \
        -display none -bios "$work/bios" -qmp "unix:$work/$name,server=on,wait=off" "$@"
}

python3 "$here/qemu_migrate.py" image "$work" || fail 'no image'
for state in stopped running; do
    port=$((20000 + RANDOM % 10000))
    GPUWIRE_NIC=addr=$net.1 guest to -S -incoming defer >"$work/to-$state.out" 2>&1 &
    to=$!
    GPUWIRE_NIC=addr=$net.2 guest from -device "loader,file=$work/filling,addr=0x1000000,force-raw=on" >"$work/from-$state.out" 2>&1 &
    from=$!
    pids+=("$to" "$from")
    timeout -k 5 "$patience" python3 "$here/qemu_migrate.py" migrate "$work" "rdma:$net.1:$port" "$state" >"$work/migrate-$state.out" 2>&1 ||
        fail "$state: no migration"
    wait "$to" || fail "$state: the target ended with $?"
    wait "$from" || fail "$state: the source ended with $?"
    tail -n 1 "$work/migrate-$state.out"
done
nothing_left
echo ok
