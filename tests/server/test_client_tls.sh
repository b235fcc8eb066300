#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Tokens and encryption, as the client has them: over HTTPS, and for sessions over RDMA that HTTPS opens.
. "$(dirname "$0")/lib.sh" || exit 1
need curl openssl
cd "$work" || exit 1
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -keyout key.pem -out cert.pem -days 2 -subj /CN=localhost \
    -addext subjectAltName=IP:127.0.0.1 2>/dev/null || fail 'openssl makes no certificate'
echo a-token-that-is-long-enough >token
echo another >wrong
serve worker --models "$source_dir/tests/server/models" --token-file token --tls-cert cert.pem --tls-key key.pem
load() { timeout "$patience" "$GPUWIRE" load echo --requests 20 --verify-echo "$@" >load.out 2>&1; }
# refused TEXT ARGS...
refused() {
    local text=$1
    shift
    load "$@" && fail "load $*: not refused"
    grep -q -- "$text" load.out || { cat load.out; fail "load $*: no '$text'"; }
}
grpc=127.0.0.1:$(sed -n 's/.*gRPC on port \([0-9]*\).*/\1/p' "$work/worker.out")
if [ "$grpc" != 127.0.0.1: ]; then
    load --server "grpcs://$grpc" --ca-file cert.pem --token-file token || { cat load.out; fail "grpcs: not served"; }
    grep -q '^20 of 20 requests answered' load.out || fail "grpcs: not all were answered"
    refused 'its certificate is not trusted' --server "grpcs://$grpc" --token-file token
    refused 'status UNAUTHENTICATED' --server "grpcs://$grpc" --ca-file cert.pem
    refused 'status UNAUTHENTICATED' --server "grpcs://$grpc" --ca-file cert.pem --token-file wrong
    refused 'nothing.pem' --server "grpcs://$grpc" --ca-file nothing.pem --token-file token
    refused 'token: it holds no certificate' --server "grpcs://$grpc" --ca-file token --token-file token
    refused 'gRPC port' --server "grpc://$grpc" --token-file token
fi
for scheme in https rdmas; do
    load --server "$scheme://$server" --ca-file cert.pem --token-file token || { cat load.out; fail "$scheme: not served"; }
    grep -q '^20 of 20 requests answered' load.out || fail "$scheme: not all were answered"
    refused 'its certificate is not trusted' --server "$scheme://$server" --token-file token
    refused 'status 401' --server "$scheme://$server" --ca-file cert.pem
    refused 'status 401' --server "$scheme://$server" --ca-file cert.pem --token-file wrong
    refused 'nothing.pem' --server "$scheme://$server" --ca-file nothing.pem --token-file token
done
# Nothing older than TLS 1.2. A client that allows anything is given 1.3.
handshake() { timeout "$patience" openssl s_client -connect "$server" -cipher 'ALL:@SECLEVEL=0' "$@" </dev/null >handshake.out 2>&1; }
handshake -tls1_2 || { cat handshake.out; fail 'TLS 1.2 is refused'; }
handshake -tls1_3 || { cat handshake.out; fail 'TLS 1.3 is refused'; }
for old in -tls1 -tls1_1; do
    handshake "$old" && { cat handshake.out; fail "$old is spoken"; }
    grep -q 'no protocols available' handshake.out && { cat handshake.out; fail "$old: refused by the client itself"; }
done
refused "server http://$server" --server "http://$server" --token-file token
stop_worker
all_gone
