#!/usr/bin/env bash
# Our HTTP and gRPC doors beside Triton's on this host's CPU: identities of 4 KB and 600 KB over one connection, in medians.
# TRITON_PYTHON=PYTHON bench/triton.sh BUILD. PYTHON has nvidia-pytriton and tritonclient[grpc] of PyPI, as in a venv.
# ROUNDS (5) of REQUESTS (400) each; the two take turns.
#
# nvidia-pytriton brings Triton's server with the backend for Python, and no other. So Triton's identity is four lines of
# Python in a process of its own, and ours an ONNX file. What is compared is therefore doors and models together.
set -euo pipefail
cd "$(dirname "$0")/.."
bin=${1:-build}/bin
python=${TRITON_PYTHON:-python3}
export GPUWIRE_NIC=${GPUWIRE_NIC:-addr=127.0.0.1,verbose=0}
"$python" -c 'import pytriton, tritonclient.grpc' 2>/dev/null || { echo "skipped: $python has no nvidia-pytriton or tritonclient"; exit 0; }
work=$(mktemp -d)
pids=()
trap 'kill "${pids[@]}" 2>/dev/null; wait; rm -rf "$work"' EXIT
free_port() { python3 -c "import socket; s = socket.socket(); s.bind(('127.0.0.1', 0)); print(s.getsockname()[1])"; }
bench/triton_door.py --write-models "$work/ours" "$work/theirs"

site=$("$python" -c 'import pathlib, pytriton; print(pathlib.Path(pytriton.__file__).parent)')
cp -r "$site/tritonserver/backends" "$work"
cp "$site/tritonserver/python_backend_stubs/$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')/triton_python_backend_stub" "$work/backends/python"
chmod +x "$work/backends/python/triton_python_backend_stub"
http=$(free_port) grpc=$(free_port)
libraries=$site/../nvidia_pytriton.libs:$("$python" -c 'import sysconfig; print(sysconfig.get_config_var("LIBDIR"))')
PATH=$(dirname "$python"):$PATH PYTHONPATH=$site/.. LD_LIBRARY_PATH=$libraries "$site/tritonserver/bin/tritonserver" \
    --model-repository "$work/theirs" --backend-directory "$work/backends" --http-address 127.0.0.1 --http-port "$http" \
    --grpc-address 127.0.0.1 --grpc-port "$grpc" --allow-metrics false >"$work/triton.log" 2>&1 &
pids+=($!)
for _ in $(seq 300); do curl -sf "http://127.0.0.1:$http/v2/health/ready" && break || sleep 0.1; done
curl -sf "http://127.0.0.1:$http/v2" >/dev/null || { tail -n 20 "$work/triton.log" >&2; exit 1; }

"$bin/gpuwire" serve --models "$work/ours" --exec cpu --port 0 >"$work/says" &
pids+=($!)
for _ in $(seq 100); do grep -q port "$work/says" && break || sleep 0.1; done
ours=$(sed -n 's/.*HTTP on port \([0-9]*\); gRPC on port \([0-9]*\).*/\1:\2/p' "$work/says")
PYTHONPATH=bench "$python" bench/triton_door.py "$ours" "$http:$grpc" "${ROUNDS:-5}" "${REQUESTS:-400}"
