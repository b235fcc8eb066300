#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The Open Inference Protocol over HTTP, as curl speaks it: the requests of its specification in JSON and with binary
# tensors, damaged ones, tokens, TLS, and limits.
. "${0%/*}/lib.sh"
need curl python3

models=$source_dir/tests/server/models
metrics=$(python3 -c "import socket; s = socket.socket(); s.bind(('127.0.0.1', 0)); print(s.getsockname()[1])")
serve protocol --models "$models" --max-body 1 --metrics-port $metrics
url=http://$server/v2

# ask STATUS PATTERN PATH CURL-ARGS...: the call has this status, and an answer that holds the pattern.
ask() {
    local want=$1 pattern=$2 path=$3 got
    shift 3
    got=$(curl -s --max-time "$patience" -o "$work/answer" -w '%{http_code}' "$@" "$url$path")
    [ "$got" = "$want" ] || fail "$path: status $got instead of $want: $(head -c 300 "$work/answer")"
    grep -qE "$pattern" "$work/answer" || fail "$path: the answer lacks $pattern: $(head -c 300 "$work/answer")"
}
# post STATUS PATTERN PATH JSON
post() { ask "$1" "$2" "$3" -H 'Content-Type: application/json' -d "$4"; }

# ---- what there is
ask 200 '"name":"gpuwire"' ''
ask 200 '' /health/live
ask 200 '' /health/ready
ask 200 '' /models/echo/ready
ask 200 '' /models/echo/versions/1/ready
ask 404 'version 2 is not found' /models/echo/versions/2/ready
ask 404 'unknown model' /models/none/ready
ask 200 '"inputs":.*"datatype":"FP32","shape":\[1,64\]' /models/echo
ask 200 '"data_type":"TYPE_FP32","dims":\[1,64\]' /models/echo/config
ask 200 '"inference_stats"' /models/echo/versions/1/stats
ask 200 '"model_stats":\[.*echo.*sum' /models/stats
ask 200 '"state":"READY"' /repository/index -d '{}'
ask 503 'explicit model load' /repository/models/echo/load -d '{}'
ask 501 'trac' /trace/setting
ask 404 'no such call' /nothing
ask 405 'POST only' /models/echo/infer
ask 405 'GET only' /models/echo/config -d '{}'
ask 404 'no such call' /models/echo/generate -d '{}'

# ---- JSON, flat and nested
numbers() { python3 -c "print(','.join(str($1) for i in range(64)))"; }
flat=$(numbers 'i / 4 - 3')
input() { printf '{"id":"%s","inputs":[{"name":"x","shape":[1,64],"datatype":"FP32","data":%s}]%s}' "$1" "$2" "${3:-}"; }
post 200 '^\{"id":"42","model_name":"echo","model_version":"1","outputs":\[\{"name":"y","datatype":"FP32","shape":\[1,64\],"data":\[-3,-2.75,' \
    /models/echo/infer "$(input 42 "[$flat]")"
python3 - "$work/answer" <<'PY' || fail 'the answer in JSON is not the request'
import json, sys
assert json.load(open(sys.argv[1]))["outputs"][0]["data"] == [i / 4 - 3 for i in range(64)]
PY
post 200 '"data":\[-3,' /models/echo/versions/1/infer "$(input 1 " [ [$flat] ] ")"
post 200 '"data":\[-3,' /models/echo/infer "$(input 1 "[$flat]" ',"outputs":[{"name":"y"}]')"
post 200 '"data":\[0.3333333' /models/echo/infer "$(input 1 "[$(numbers '1 / 3')]")"
curl -s -H 'Transfer-Encoding: chunked' -d "$(input 1 "[$flat]")" "$url/models/echo/infer" | grep -q '"data":\[-3' ||
    fail 'a body in chunks is not understood'

# ---- wrong ones: each is refused with a line, and the server goes on
refuse() { post 400 "$1" /models/echo/infer "$2"; }
refuse 'more elements' "$(input 1 "[$flat,1]")"
refuse 'fewer elements' "$(input 1 '[1,2]')"
refuse 'not an array of numbers' "$(input 1 "[\"a\",$flat]")"
refuse 'not an array of numbers' "$(input 1 "[1e99,$flat]")"
refuse 'not an array' "$(input 1 5)"
refuse 'damaged' "$(input 1 "[[$flat]")"
refuse 'not an array of numbers' "$(input 1 "[[$flat],,[]]")"
refuse 'damaged' "{\"inputs\":[$flat"
refuse 'lacks them' '{}'
refuse 'lacks them' '{"inputs":{}}'
refuse 'no body' ''
refuse 'expected 1 inputs' '{"inputs":[]}'
refuse 'Expected \[1,64\], got \[64\]' "{\"inputs\":[{\"name\":\"x\",\"shape\":[64],\"datatype\":\"FP32\",\"data\":[$flat]}]}"
refuse "data-type is 'INT32'" "{\"inputs\":[{\"name\":\"x\",\"shape\":[1,64],\"datatype\":\"INT32\",\"data\":[$flat]}]}"
refuse "unexpected inference input 'z'" "{\"inputs\":[{\"name\":\"z\",\"shape\":[1,64],\"datatype\":\"FP32\",\"data\":[$flat]}]}"
refuse 'no data, no binary' '{"inputs":[{"name":"x","shape":[1,64],"datatype":"FP32"}]}'
refuse "unexpected inference output 'z'" "$(input 1 "[$flat]" ',"outputs":[{"name":"z"}]')"
refuse 'nested too deeply' "$(printf '[%.0s' {1..99999})"
printf '%*s' 1100000 '' >"$work/long"
ask 413 'longer than the server takes' /models/echo/infer --data-binary "@$work/long"

# ---- binary tensors
python3 - "$work" <<'PY'
import json, struct, sys
work = sys.argv[1]
data = struct.pack("<64f", *[i / 7 for i in range(64)])
def write(name, request, tensors):
    head = json.dumps(request).encode()
    open(f"{work}/{name}.body", "wb").write(head + tensors)
    open(f"{work}/{name}.length", "w").write(str(len(head)))
x = {"name": "x", "shape": [1, 64], "datatype": "FP32", "parameters": {"binary_data_size": 256}}
write("both", {"inputs": [x], "outputs": [{"name": "y", "parameters": {"binary_data": True}}]}, data)
write("all", {"inputs": [x], "parameters": {"binary_data_output": True}}, data)
write("short", {"inputs": [x]}, data[:-1])
write("long", {"inputs": [x]}, data + b"!")
write("size", {"inputs": [dict(x, parameters={"binary_data_size": 252})]}, data[:-4])
write("none", {"inputs": [x]}, b"")
open(f"{work}/tensor", "wb").write(data)
PY
binary() { # STATUS PATTERN NAME
    ask "$1" "$2" /models/echo/infer -D "$work/headers" -H "Inference-Header-Content-Length: $(cat "$work/$3.length")" \
        --data-binary "@$work/$3.body"
}
for name in both all; do
    binary 200 '"parameters":\{"binary_data_size":256\}' $name
    length=$(sed -n 's/^Inference-Header-Content-Length: *\([0-9]*\).*/\1/ip' "$work/headers")
    tail -c +$((length + 1)) "$work/answer" | cmp - "$work/tensor" || fail "$name: the binary answer is not the request"
done
binary 400 'shorter' short
binary 400 'shorter' none
binary 400 'additional input data' long
binary 400 'unexpected byte size 252, expected 256' size
ask 200 '"binary_data_size":256' /models/echo/infer -H 'Inference-Header-Content-Length: 0' --data-binary "@$work/tensor"
ask 400 'shorter' /models/echo/infer -H 'Inference-Header-Content-Length: 9999' --data-binary "@$work/tensor"
for length in -1 x 99999999999999999999; do
    ask 400 'not a number|more than' /models/echo/infer -H "Inference-Header-Content-Length: $length" --data-binary "@$work/tensor"
done
gzip -c "$work/both.body" >"$work/packed.body"
ask 200 binary_data_size /models/echo/infer -H 'Content-Encoding: gzip' -H "Inference-Header-Content-Length: $(cat "$work/both.length")" \
    --data-binary "@$work/packed.body"
ask 400 Content-Encoding /models/echo/infer -H 'Content-Encoding: gzip' --data-binary "@$work/both.body"
ask 415 Content-Encoding /models/echo/infer -H 'Content-Encoding: br' --data-binary "@$work/both.body"

# ---- counts
curl -s "http://127.0.0.1:$metrics/metrics" | grep -q nv_inference_count || fail 'no metrics on their own port'
curl -s "http://127.0.0.1:$metrics/v2" | grep -q 'no such call' || fail 'more than metrics on their port'
metric() { curl -s "http://$server/metrics" | sed -n "s/^$1{model=\"echo\",version=\"1\"} //p"; }
[ "$(metric nv_inference_request_success)" = 9 ] || fail "requests were not counted: $(metric nv_inference_request_success)"
[ "$(metric gpuwire_door_slots_taken)" = 0 ] || fail 'slots are still taken'
stop_worker

# ---- models that come and go: no request of one that is replaced is lost
mkdir -p "$work/models"
cp -r "$models/echo" "$work/models/echo"
serve control --models "$work/models" --model-control
url=http://$server/v2
for ((i = 0; i < 200; i++)); do
    curl -s --max-time "$patience" -o /dev/null -w '%{http_code}\n' -d "$(input 1 "[$flat]")" "$url/models/echo/infer"
done >"$work/beside" &
beside=$!
pids+=("$beside")
for version in 2 3 4; do
    cp -r "$models/echo/1" "$work/models/echo/$version"
    ask 200 '' /repository/models/echo/load -d '{}'
    ask 200 "\"model_version\":\"$version\"" "/models/echo/versions/$version/infer" -d "$(input 1 "[$flat]")"
done
ask 404 'version 1 is not found' /models/echo/versions/1/ready
wait "$beside"
[ "$(sort -u "$work/beside")" = 200 ] || fail "requests were lost while the model was replaced: $(sort "$work/beside" | uniq -c)"
cp -r "$models/sum" "$work/models/late"
ask 404 unknown /models/late
ask 200 '' /repository/models/late/load -X POST
ask 200 '"name":"late"' /models/late
ask 200 '' /repository/models/late/unload -X POST
ask 404 unknown /models/late
ask 404 'no model late' /repository/models/late/unload -X POST
ask 400 'no such model' /repository/models/none/load -X POST
: >"$work/models/late/1/model.onnx"
ask 500 'model.onnx' /repository/models/late/load -X POST
ask 200 '"data":\[-3' /models/echo/infer -d "$(input 1 "[$flat]")"
stop_worker

# ---- tokens and TLS
head -c 18 /dev/urandom | base64 >"$work/token"
serve token --models "$models" --token-file "$work/token" --open-health
url=http://$server/v2
ask 401 token ''
ask 401 token '' -H 'Authorization: Bearer wrong'
ask 401 token /rdma/sessions -d '{}'
ask 401 token /models/echo/infer -d "$(input 1 "[$flat]")"
ask 200 '' /health/ready
ask 200 gpuwire '' -H "Authorization: Bearer $(cat "$work/token")"
ask 200 '"data":\[-3' /models/echo/infer -H "Authorization: Bearer $(cat "$work/token")" -d "$(input 1 "[$flat]")"
stop_worker
if command -v openssl >/dev/null; then
    openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -keyout "$work/key.pem" -out "$work/cert.pem" \
        -days 2 -subj /CN=localhost -addext subjectAltName=IP:127.0.0.1 2>/dev/null || fail 'openssl makes no certificate'
    serve tls --models "$models" --tls-cert "$work/cert.pem" --tls-key "$work/key.pem"
    url=https://$server/v2
    ask 200 gpuwire '' --cacert "$work/cert.pem"
    ask 200 '"binary_data_size":256' /models/echo/infer --cacert "$work/cert.pem" -H 'Inference-Header-Content-Length: 0' \
        --data-binary "@$work/tensor"
    tail -c 256 "$work/answer" | cmp - "$work/tensor" || fail 'the binary answer over TLS is not the request'
    curl -s --max-time 5 "http://$server/v2" | grep -q gpuwire && fail 'the TLS server also answers without'
    stop_worker
fi
for wrong in "--tls-cert $work/cert.pem" "--token-file /nonexistent" "--token-file /dev/null" "--tls-cert $work/token --tls-key $work/token"; do
    # shellcheck disable=SC2086 # several arguments
    "$GPUWIRE" serve --port 0 --exec cpu --models "$models" $wrong >"$work/wrong.out" 2>&1 && fail "$wrong was accepted"
    grep -qE 'tls|token|libmicrohttpd' "$work/wrong.out" || fail "$wrong: the reason is missing"
done
all_gone
echo "the protocol's requests are answered, and damaged ones refused"
