#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The wheel, made of the build, in a fresh virtual environment without a network: it finds its libraries inside, and asks
# and serves. Then the same with RDMA's libraries of the wheel alone. $1: the build, $2: the sources.
. "$(dirname "$0")/../server/lib.sh" || exit 1
build=$1 source=$2
python=${PYTHON:-python3}
need "$python" patchelf ldd
# A pip that works for other environments saves making one there.
pip=("$python" -m pip --python "$work/venv/bin/python") venv=(--without-pip)
"$python" -m pip --python "$python" --version >"$work/pip.out" 2>&1 || { pip=("$work/venv/bin/pip"); venv=(); }
"$python" -m venv "${venv[@]}" "$work/venv" >"$work/venv.out" 2>&1 || { echo "skipped: $python makes no virtual environments (python3-venv)"; exit 77; }

WHEEL_LEVEL=1 "$source/scripts/wheel.py" "$build" "$work/wheel" >"$work/wheel.out" 2>&1 || fail "making the wheel"
wheels=("$work"/wheel/gpuwire-*-py3-none-linux_x86_64.whl)
[ "${#wheels[@]}" = 1 ] || fail "not one wheel: ${wheels[*]}"
"${pip[@]}" install --no-index --disable-pip-version-check "${wheels[0]}" >"$work/pip.out" 2>&1 || fail "pip install"

# No library of others under its own name, which Python's modules may need another version of; none unresolved.
lib=$(echo "$work"/venv/lib/python3*/site-packages/gpuwire/lib)
for file in "$lib"/*.so*; do
    case ${file##*/} in libgpuwire* | *-gpuwire.so*) ;; *) fail "${file##*/} bears another's name" ;; esac
done
LD_LIBRARY_PATH="$lib/verbs" ldd "$lib"/*.so* | grep 'not found' && fail "a library is not found"

serve server --models "$source/models"
cat >"$work/ask.py" <<'PYTHON'
import sys

import gpuwire

data = bytes(range(256)) * 784  # what `identity` takes: 1x1x224x224 floats
with gpuwire.Client(sys.argv[1], "identity") as client:
    assert bytes(memoryview(client.infer(data)).cast("B")) == data
if len(sys.argv) > 2:
    with gpuwire.Server(port=0, exec="cpu") as server:
        server.add_file(sys.argv[2], name="again")
        with gpuwire.Client(server.url, "again") as client:
            assert bytes(memoryview(client.infer(data)).cast("B")) == data
maps = open("/proc/self/maps").read()
print("verbs:", sorted({line.split()[-1] for line in maps.splitlines() if "libmlx5" in line or "libibverbs.so" in line}))
PYTHON
ask() { # in a folder that has nothing of the sources
    (cd "$work" && timeout -k 5 "$patience" "$work/venv/bin/python" ask.py "$@") >"$work/ask.out" 2>&1 || fail "ask $*: exit code $?"
    cat "$work/ask.out"
}
ask "http://$server"
ask "$server" "$source/models/identity/1/model.onnx"
GPUWIRE_VERBS=own ask "$server"
grep '^verbs:' "$work/ask.out" | grep -o "'[^']*'" | grep -v "gpuwire/lib/verbs/" && fail "two copies of RDMA's libraries"
stop_worker
all_gone
