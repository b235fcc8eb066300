#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Libraries that move memory between servers of models, unmodified, from PyPI: two processes write and read 64 MiB and compare.
#     test_transfer.sh nixl|mooncake|peercache        TRANSFER_PYTHON: a Python that has the library
. "$(dirname "$0")/lib.sh"
here=$(cd "$(dirname "$0")" && pwd)
python=${TRANSFER_PYTHON:-python3}
need "$python"
python=$("$python" -c 'import sys; print(sys.executable)') # and no script that starts it
"$python" -c "import importlib.util as i, sys; sys.exit(not i.find_spec('$1'))" ||
    { echo "skipped: $python has no module $1"; exit 77; }
export UCX_TLS=rc,ud,self UCX_LOG_LEVEL=error NIXL_LOG_LEVEL=ERROR MC_LOG_LEVEL=WARNING

end() { # ROLE ADDRESS
    GPUWIRE_NIC=addr=$2 exec timeout -k 5 "$patience" "${gpuwire[@]}" run -- \
        "$python" "$here/transfer.py" "$which" "$1" "$work" "$2"
}
# ended END RC: nixl 1.5.1 crashes when all is done, over TCP without a NIC, too: in its own copy of libnl-route.
ended() {
    [ "$2" = 0 ] || { [ "$which" = nixl ] && [ "$2" = 139 ] && crashed=yes; } || fail "$which: the $1 ended with $2"
}
which=$1 crashed=
end serve "$net.1" >"$work/serve.out" 2>&1 &
server=$!
pids+=("$server")
while_lives "$server" [ -e "$work/card" ] || fail "$which: the server is not ready"
(end ask "$net.2") >"$work/ask.out" 2>&1
ended client $?
wait "$server"
ended server $?
grep -q '^right$' "$work/serve.out" && grep -q '^right$' "$work/ask.out" || fail "$which: no result"
[ -n "$crashed" ] || nothing_left
echo ok
