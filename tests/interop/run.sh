#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# run.sh [tap] [frames]: softnic against Linux' own soft-RoCE (rxe) in a QEMU guest; see suite.sh. Both by default. Makes
# the guest anew each time, of Debian packages; installs what is missing if it may. Takes three to four minutes. Exits with
# 77 where there can be no guest: no Debian, no mirror, no right to install.
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
install_missing() {
    local want=() p sudo=
    for p in "${packages[@]}"; do
        dpkg-query -W -f '${db:Status-Status}' "$p" 2>/dev/null | grep -qx installed || want+=("$p")
    done
    [ ${#want[@]} -eq 0 ] && return 0
    if [ "$(id -u)" != 0 ]; then
        sudo=sudo
        sudo -n true 2>/dev/null || { echo "interop: as root run: apt-get install ${want[*]}" >&2; return 1; }
    fi
    echo "interop: installing ${want[*]}"
    $sudo apt-get update -q >/dev/null 2>&1
    $sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "${want[@]}" >/dev/null 2>&1 || {
        echo "interop: cannot install ${want[*]}: is the Debian mirror reachable?" >&2
        return 1
    }
}

# A network namespace of the suite's own, if the system allows that: for tap with the right to make one.
in_namespace() { # MODE COMMAND...
    local mode=$1 unshare try=true
    shift
    [ "$mode" = tap ] && try="ip tuntap add gw-try mode tap"
    for unshare in "unshare -n" "unshare -rn"; do
        $unshare $try 2>/dev/null && { $unshare "$@"; return; }
    done
    [ "$mode" = tap ] || { "$@"; return; }
    echo "interop: no right to make a tap interface: the suite over a tap is left out (run as root)"
}

install_missing || exit 77
top=$(mktemp -d "${TMPDIR:-/tmp}/gpuwire-interop.XXXXXX")
trap 'rm -rf "$top"' EXIT
trap 'exit 130' INT TERM
[ -n "${KEEP:-}" ] && trap 'mkdir -p "$KEEP" && cp -r "$top"/. "$KEEP"; rm -rf "$top"' EXIT
export guest=${GUEST:-$top/guest}
[ -e "$guest/initrd" ] || make_guest "$guest" "$TRAFFIC" "$GPUWIRE" "$tests"/test_verbs_{loopback,errors,faults} || exit 77
failed=0
for suite in "${@:-frames tap}"; do
    for name in $suite; do
        export work=$top/$name XDG_RUNTIME_DIR=$top/run
        mkdir -p "$work" "$XDG_RUNTIME_DIR" && chmod 700 "$XDG_RUNTIME_DIR"
        in_namespace "$name" "$here/suite.sh" "$name" || failed=1
    done
done
exit $failed
