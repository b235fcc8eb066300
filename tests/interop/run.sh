#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# run.sh [tap] [frames]: softnic against Linux' own soft-RoCE (rxe) in a QEMU guest; see suite.sh. Both by default. Makes the
# guest again each time, of Debian packages; installs what is missing if it may. Takes three to four minutes. Exits with 77
# where there can be no guest: no Debian, no mirror, no right to install.
#   GPUWIRE, TRAFFIC   the programs (default: those in build/bin)
#   KEEP=FOLDER        leaves captures and outputs there
#   STEPS=REGEX        only the steps whose names match
#   GUEST=FOLDER       where the guest was made before, or is made now, and stays
set -u
here=$(cd "${0%/*}" && pwd)
export GPUWIRE=${GPUWIRE:-$here/../../build/bin/gpuwire} TRAFFIC=${TRAFFIC:-$here/../../build/bin/traffic}
[ -x "$GPUWIRE" ] && [ -x "$TRAFFIC" ] && [ -x "${GPUWIRE%/*}/test_socket_peer" ] || { echo "interop: build first: make" >&2; exit 1; }
tests=$(dirname "$GPUWIRE") # the tests of verbs for kernels, which run on rxe itself
. "$here/guest.sh"

packages=(qemu-system-x86 busybox-static cpio kmod ibverbs-providers ibverbs-utils perftest rdmacm-utils iproute2 tshark python3)

# What gives a command a network namespace of its own, if the system allows that: for tap with the right to make one.
namespace() { # MODE
    local unshare try=true
    [ "$1" = tap ] && try="ip tuntap add gw-try mode tap"
    for unshare in "unshare -n" "unshare -rn"; do
        $unshare $try 2>/dev/null && { echo "$unshare"; return; }
    done
    [ "$1" != tap ]
}
stop() { # what still runs, each with all that it started
    local run
    for run in "${runs[@]}"; do kill -TERM -- "-$run" 2>/dev/null; done
    wait
    [ -z "${KEEP:-}" ] || { mkdir -p "$KEEP" && cp -r "$top"/. "$KEEP"; }
    rm -rf "$top"
}

install_missing "${packages[@]}" || exit 77
top=$(mktemp -d "${TMPDIR:-/tmp}/gpuwire-interop.XXXXXX")
runs=()
trap stop EXIT
trap 'exit 130' INT TERM
export guest=${GUEST:-$top/guest}
[ -e "$guest/initrd" ] || make_guest "$guest" "$TRAFFIC" "$GPUWIRE" "$tests"/test_verbs_{loopback,errors,faults} || exit 77
# Side by side: much of a suite's time is waiting for programs to start. In process groups of their own (-m), so that all
# of a suite can be stopped.
set -m
failed=0
for mode in ${*:-frames tap}; do
    unshare=$(namespace "$mode") || {
        echo "interop: no right to make a tap interface: the suite over a tap is left out (run as root)"
        continue
    }
    mkdir -p "$top/$mode/run" && chmod 700 "$top/$mode/run"
    work=$top/$mode XDG_RUNTIME_DIR=$top/$mode/run $unshare "$here/suite.sh" "$mode" &
    runs+=($!)
done
for run in "${runs[@]}"; do wait "$run" || failed=1; done
exit $failed
