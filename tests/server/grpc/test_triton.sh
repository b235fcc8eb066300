#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# NVIDIA's tritonclient, as it comes from PyPI, uses a server over gRPC: in the clear, with models that come
# and go, and with TLS and a token.
# scripts/setup.sh --tests installs it.
here=$(cd "${0%/*}" && pwd)
. "$here/../lib.sh"
python=${TRITON_PYTHON:-${XDG_CACHE_HOME:-$HOME/.cache}/gpuwire/tritonclient/bin/python}
"$python" -c 'import tritonclient.grpc' 2>/dev/null || { echo "skipped: $python has no tritonclient"; exit 77; }
client() { timeout "$patience" "$python" "$source_dir/tests/server/grpc/triton_grpc.py" "$@" >"$work/client.out" 2>&1 || { cat "$work/client.out"; fail "tritonclient.grpc $*"; }; }
grpc_port() { sed -n 's/.*gRPC on port \([0-9]*\).*/\1/p' "$work/$1.out"; }

serve clear --models "$source_dir/tests/server/models"
client "127.0.0.1:$(grpc_port clear)"
stop_worker

serve control --models "$source_dir/tests/server/models" --model-control
client "127.0.0.1:$(grpc_port control)" --control
stop_worker

if command -v openssl >/dev/null; then
    openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -keyout "$work/key.pem" -out "$work/cert.pem" -days 2 \
        -subj /CN=localhost -addext subjectAltName=DNS:localhost,IP:127.0.0.1 2>"$work/openssl.out" || fail 'openssl made no certificate'
    token=0123456789abcdef-token
    echo "$token" >"$work/token"
    serve secret --models "$source_dir/tests/server/models" --tls-cert "$work/cert.pem" --tls-key "$work/key.pem" --token-file "$work/token"
    client "127.0.0.1:$(grpc_port secret)" --ca "$work/cert.pem" --token "$token"
    stop_worker
fi
all_gone
echo "tritonclient's requests over gRPC are answered"
