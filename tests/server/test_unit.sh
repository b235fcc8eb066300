#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The systemd unit is one that systemd takes. The server starts with the example of settings as it is, and with its lines put to use
# (but the one with a fixed port).
. "$(dirname "$0")/lib.sh" || exit 1
need curl
cd "$work" || exit 1
conf=$source_dir/debian/serve.conf
models=$source_dir/tests/server/models

serve example --models "$models" --model echo --config "$conf"
stop_worker
# The lines that are commented out hold the names and values of today.
echo 0123456789abcdef0123 >token
sed -e "s|^#\([a-z-]* = \)|\1|" -e "s|^token-file = .*|token-file = token|" -e "s|^models = .*|models = $models|" -e "s|^access-log = .*|access-log = log|" \
    -e '/^metrics-port/d' "$conf" >all.conf
grep -q '^max-batch = ' all.conf || fail 'the example sets nothing'
serve all --model echo --config all.conf
[ "$(curl -s -o answer -w '%{http_code}' "http://$server/v2/models/echo")" = 401 ] || fail 'the token of the file is not read'
stop_worker
all_gone

need systemd-analyze
# As it would be installed, but for where the tool is.
sed "s|^ExecStart=gpuwire|ExecStart=$GPUWIRE|" "$source_dir/debian/gpuwire.gpuwire-serve.service" >gpuwire-serve.service
systemd-analyze verify --man=no "$work/gpuwire-serve.service" >verify.out 2>&1 || { cat verify.out; fail 'the unit is refused'; }
grep -F "gpuwire-serve.service" verify.out && fail 'systemd complains of the unit'
exit 0
