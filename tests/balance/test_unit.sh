#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The balancer's systemd unit is one that systemd takes. Its file is right as it is, and with its lines put to use.
. "$(dirname "$0")/../integration/lib.sh"
source_dir=$(cd "$(dirname "$0")/../.." && pwd)
conf=$source_dir/debian/balance.conf
"$GPUWIRE" balance check "$conf" | grep -q ': 0 services, 0 workers, 0 ports$' || fail "the file is not right as it is"
echo a-token-that-is-long-enough >"$work/token"
chmod 600 "$work/token"
# A space after "#": a comment. None, or an indented line: a statement.
sed -E "s/^( *)#([a-z}]|    )/\1\2/" "$conf" >"$work/all.conf"
"$GPUWIRE" balance check "$work/all.conf" >"$work/check.out" 2>&1
grep -q ': 1 service, 2 workers, 1 port$' "$work/check.out" || fail "with its lines put to use: $(cat "$work/check.out")"

need systemd-analyze
# As it would be installed, but for where the tool is.
sed "s|^ExecStart=gpuwire|ExecStart=$GPUWIRE|" "$source_dir/debian/gpuwire.gpuwire-balance.service" >"$work/gpuwire-balance.service"
systemd-analyze verify --man=no "$work/gpuwire-balance.service" >"$work/verify.out" 2>&1 || { cat "$work/verify.out"; fail 'the unit is refused'; }
grep -F "gpuwire-balance.service" "$work/verify.out" && fail 'systemd complains of the unit'
exit 0
