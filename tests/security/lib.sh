# SPDX-License-Identifier: Apache-2.0
# Helpers for tests that carry out an attack: a network namespace of their own, and a stranger, a second user of the host.
# Both need root. A test that cannot have what it needs says so and is skipped (ctest knows 77).
# Sourced. Sourced first of all: in_own_net runs the script again inside the namespace.
. "$(dirname "${BASH_SOURCE[0]}")/../integration/lib.sh"

STRANGER=${STRANGER:-65534}  # the attacker's uid
NEIGHBOUR=${NEIGHBOUR:-65533} # a victim who is not root

need_root() { [ "$(id -u)" = 0 ] || { echo "skipped: a second user of the host needs root"; exit 77; }; }

# in_own_net "$0" "$@": goes on in a network namespace of its own, with its loopback up. Nothing done there is seen outside.
in_own_net() {
    need_root
    need unshare ip
    [ "${GW_OWN_NET:-}" = 1 ] && { ip link set lo up; return; }
    rm -rf "$work" "$run_folder"
    unshare --net true 2>/dev/null || { echo "skipped: this system makes no network namespace"; exit 77; }
    GW_OWN_NET=1 exec unshare --net "$@"
}

# as UID COMMAND...: as that user, without capabilities, with a private XDG_RUNTIME_DIR and home.
as() {
    local uid=$1
    shift
    mkdir -p -m 755 "$work"
    mkdir -p "$work/u$uid"
    chown "$uid:$uid" "$work/u$uid"
    chmod 700 "$work/u$uid"
    chmod 755 "$work"
    set -- env XDG_RUNTIME_DIR="$work/u$uid" HOME="$work/u$uid" TMPDIR="$work/u$uid" \
        setpriv --reuid="$uid" --regid="$uid" --clear-groups --inh-caps=-all "$@"
    # In the background its number is the command's, which a signal to it reaches.
    [ "$BASHPID" = $$ ] || exec "$@"
    "$@"
}
as_stranger() { as "$STRANGER" "$@"; }
as_neighbour() { as "$NEIGHBOUR" "$@"; }

# readable FILE...: copies where every user may read and run it, as a build tree may lie where only its owner looks.
# Prints the last copy's name. The tool is copied together with the libraries beside it by readable_tool.
readable() {
    local f
    mkdir -p "$work/bin"
    chmod 755 "$work" "$work/bin"
    for f in "$@"; do cp -L "$f" "$work/bin/"; chmod 755 "$work/bin/${f##*/}"; done
    echo "$work/bin/${f##*/}"
}

# readable_tool: the tool and its libraries, copied likewise; sets `gpuwire`, which every user may run from then on.
readable_tool() {
    local root
    root=$(dirname "$(dirname "$GPUWIRE")")
    mkdir -p "$work/bin" "$work/lib"
    chmod 755 "$work"
    cp -L "$GPUWIRE" "$work/bin/gpuwire"
    mkdir -p "$work/libexec"
    [ ! -d "$root/libexec" ] || cp -rL "$root/libexec" "$work/" # without GW_SERVE the tool is one program
    find "$root/lib" -maxdepth 1 -name '*.so*' -exec cp -a {} "$work/lib/" \;
    chmod -R a+rX "$work/bin" "$work/lib" "$work/libexec"
    GPUWIRE=$work/bin/gpuwire
    gpuwire=("$GPUWIRE")
    [ -n "${SANITIZER:-}" ] && gpuwire=(env "LD_PRELOAD=$SANITIZER" "$GPUWIRE")
    true
}
