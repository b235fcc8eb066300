#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# NVIDIA's tritonclient, as it comes from PyPI, uses a server over HTTP. scripts/setup.sh --tests installs it.
. "${0%/*}/lib.sh"
python=${TRITON_PYTHON:-${XDG_CACHE_HOME:-$HOME/.cache}/gpuwire/tritonclient/bin/python}
"$python" -c 'import tritonclient.http' 2>/dev/null || { echo "skipped: $python has no tritonclient"; exit 77; }
serve triton --models "$source_dir/tests/server/models"
timeout "$patience" "$python" "$here/triton_http.py" "$server" >"$work/client.out" 2>&1 || fail "tritonclient.http"
stop_worker
all_gone
echo "tritonclient's requests over HTTP are answered"
