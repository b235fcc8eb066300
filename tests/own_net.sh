#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# own_net.sh PROGRAM [ARGUMENT...]: runs it in a network namespace of its own, where loopback is up and no other process is.
# Where this user may make no namespace, the program runs in the network that is there. own_net.sh --check: succeeds where it
# can make one.
for own in 'unshare -n' 'unshare -rn'; do
    $own ip link set lo up 2>/dev/null || continue
    [ "$1" = --check ] && exit 0
    exec $own sh -c 'ip link set lo up && exec "$@"' sh "$@"
done
[ "$1" = --check ] && exit 1
exec "$@"
