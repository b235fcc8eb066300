#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Another user of the host against slots, their ports and their names: slots.c.
# test_slots.sh PROGRAM
. "${0%/*}/lib.sh"
in_own_net "$0" "$@"
# An address that is another host's: what is sent there can be seen on the loopback interface, and ends there.
ip route add 198.51.100.7/32 dev lo || fail 'no route'
"$1"
