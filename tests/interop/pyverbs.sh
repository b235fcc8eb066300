#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# pyverbs.sh [TEST...]: rdma-core's own Python tests (Debian's python3-pyverbs) on Linux' soft-RoCE (rxe), in a QEMU guest
# that is made for it: what `make test T=pyverbs` is compared with. Prints what passed, what was skipped and why. Takes
# some minutes without KVM. Exits with 77 where there can be no guest.
#   GUEST=FOLDER   where that guest was made before, or is made now, and stays
set -u
here=$(cd "${0%/*}" && pwd)
. "$here/guest.sh"
guest_ip=10.77.0.2 guest_ip6=fd77::2 guest_port=2001 guest_memory=1024 mode=pyverbs
work=$(mktemp -d "${TMPDIR:-/tmp}/gpuwire-pyverbs.XXXXXX")
. "$here/lib.sh"
trap 'stop_all; rm -rf "$work"' EXIT
trap 'exit 130' INT TERM

with_tests() { # ROOT
    with_python "$1" && cp "$here/../../scripts/run_pyverbs.py" "$1/"
}
install_missing qemu-system-x86 busybox-static cpio kmod ibverbs-providers ibverbs-utils perftest rdmacm-utils iproute2 \
    python3 python3-pyverbs || exit 77
guest=${GUEST:-$work/guest}
[ -e "$guest/initrd" ] || guest_more=with_tests make_guest "$guest" || exit 77
# Nothing leaves the guest: the tests' queue pairs are connected to each other.
start_guest user,id=link,restrict=on || exit 1
say "the guest is up"
guest 1500 "/usr/bin/python3 /run_pyverbs.py --gpuwire none --device rxe0 --gid 1 /usr/share/doc/rdma-core${*:+ $*}" | tee "$work/pyverbs.out"
guest 5 'poweroff -f' >/dev/null
grep -q '^passed' "$work/pyverbs.out" || { say "the tests did not come to an end" >&2; show "$work/console"; exit 1; }
