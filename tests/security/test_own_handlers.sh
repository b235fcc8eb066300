#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Programs that set handlers of SIGSEGV themselves, on a NIC that needs its own. test_own_handlers.sh PROGRAM LIBRARY
. "$(dirname "$0")/../integration/lib.sh"
program=$1 library=$2
export GPUWIRE_NIC=addr=$net.1

for how in sigaction signal sysv_signal sigset chain ignore; do
    timeout "$patience" "${gpuwire[@]}" run -- "$program" $how >"$work/$how.out" 2>&1 ||
        fail "$how, the NIC preloaded: the program ended with $?"
    LD_PRELOAD="${SANITIZER:-}" timeout "$patience" "$program" $how "$library" >"$work/$how-late.out" 2>&1 ||
        fail "$how, the NIC loaded at run time: the program ended with $?"
done
echo ok
