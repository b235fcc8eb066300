#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The systemd units of a fleet are ones that systemd takes. Each option that they give is one of the command's, and each
# variable is set in the file of settings.
here=$(cd "${0%/*}" && pwd)
. "$here/../integration/lib.sh"
debian=$here/../../debian
for name in controller worker router; do
    unit=$debian/gpuwire.gpuwire-$name.service
    line=$(sed -n 's/^ExecStart=gpuwire //p' "$unit")
    [ -n "$line" ] || fail "$unit: no ExecStart"
    "$GPUWIRE" "${line%% *}" --help >"$work/$name.help" 2>&1 # or says that this build lacks it
    first=$(grep -o -- '--[a-z-]*' <<<"$line" | head -n 1)
    if ! grep -q -- "$first " "$work/$name.help"; then # a build without gRPC has no etcd
        echo "the gpuwire ${line%% *} of this build has no $first: its options are not looked at"
        continue
    fi
    for option in $(grep -o -- '--[a-z-]*' <<<"$line") $(sed -n "s/^${name^^}_OPTIONS=//p" "$debian/fleet.conf" | grep -o -- '--[a-z-]*'); do
        grep -q -- "$option " "$work/$name.help" || fail "gpuwire ${line%% *} has no $option"
    done
    for variable in $(grep -o '\$[{A-Z_]*' <<<"$line" | tr -d '${'); do
        grep -q "^$variable=" "$debian/fleet.conf" || fail "fleet.conf does not set $variable"
    done
done
need systemd-analyze
for name in controller worker router; do
    # As it would be installed, but for where the tool is.
    sed "s|^ExecStart=gpuwire|ExecStart=$GPUWIRE|" "$debian/gpuwire.gpuwire-$name.service" >"$work/gpuwire-$name.service"
    systemd-analyze verify --man=no "$work/gpuwire-$name.service" >"$work/verify.out" 2>&1 || fail "the unit of the $name is refused"
    ! grep -F "gpuwire-$name.service" "$work/verify.out" || fail "systemd complains of the unit of the $name"
done
echo 'the units of a fleet are sound'
