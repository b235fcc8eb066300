#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Set-user-ID programs on the software NIC, started by a stranger who chooses the environment and the name they are called
# by. test_set_user_id.sh PROGRAM LIBRARY EVIL_LIBRARY
. "$(dirname "$0")/lib.sh"
in_own_net "$0" "$@"
[ -z "${SANITIZER:-}" ] || { echo "skipped: a sanitizer cannot be put into set-user-ID programs"; exit 77; }
readable_tool
program=$(readable "$1") library=$(readable "$2") evil=$(readable "$3")
mkdir -m 700 "$work/private"
echo kept >"$work/private/file"
cp "$GPUWIRE" "$work/bin/tool"
chmod 4755 "$program" "$work/bin/tool"
[ "$(as_stranger "$program" 2>&1)" ] || fail 'the program cannot be started'

# A capture over root's file.
as_stranger env GPUWIRE_NIC=pcap="$work/private/file" "$program" sigaction "$library" >"$work/capture.out" 2>&1
grep -aqx kept "$work/private/file" || fail "a capture went over root's file"
grep -q 'GPUWIRE_NIC is ignored' "$work/capture.out" || fail 'nothing is said of the settings'

# Code of the stranger's own, by name and by the folder that the program seems to lie in.
as_stranger env GPUWIRE_SOFTNIC_LIBRARY="$evil" "$work/bin/tool" info --device softnic >"$work/library.out" 2>&1
! grep -q 'loaded with the rights' "$work/library.out" || fail "a stranger's library was loaded"
mkdir "$work/evil"
cp "$evil" "$work/evil/libgpuwire-softnic.so"
: >"$work/evil/gpuwire"
chmod -R a+rX "$work/evil"
(cd "$work/evil" && as_stranger bash -c 'exec -a "$0/gpuwire" "$@"' "$work/evil" "$work/bin/tool" info --device softnic) \
    >"$work/folder.out" 2>&1
! grep -q 'loaded with the rights' "$work/folder.out" || fail "a stranger's library was loaded, from the folder of argv[0]"

# Without further rights both are what they are for.
chmod 755 "$work/bin/tool"
as_stranger env GPUWIRE_SOFTNIC_LIBRARY="$evil" "$work/bin/tool" info --device softnic >"$work/plain.out" 2>&1
grep -q "loaded with the rights of user $STRANGER" "$work/plain.out" || fail 'the attack does not work at all'
echo ok
