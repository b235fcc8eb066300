#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The doors of `gpuwire router` in front of a fleet that is made up (fake_fleet.c): curl over HTTP, and NVIDIA's
# tritonclient, as it comes from PyPI, over HTTP and gRPC where scripts/setup.sh --tests has installed it.
here=$(cd "${0%/*}" && pwd)
. "$here/../../integration/lib.sh"
need curl python3
ulimit -c 0

# route NAME ARGS...: a router on any free ports. Sets $router (its pid), $url and $grpc.
route() {
    local name=$1
    shift
    "$ROUTER_FAKE" --controller fake:1 --port 0 "$@" >"$work/$name.out" 2>&1 &
    router=$!
    pids+=("$router")
    wait_for "$work/$name.out" 'HTTP on port' "$router" || fail "$name: the router is not ready"
    url=http://127.0.0.1:$(sed -n 's/.*HTTP on port \([0-9]*\).*/\1/p' "$work/$name.out")
    grpc=127.0.0.1:$(sed -n 's/.*gRPC on port \([0-9]*\).*/\1/p' "$work/$name.out")
}
ends() {
    kill "-$1" "$router"
    wait "$router"
    [ $? = 0 ] || fail "the router ended with another code: $(tail -3 "$work"/*.out)"
}
# ask STATUS PATTERN PATH CURL-ARGS...: the call has this status, and an answer (or a header) with the pattern.
ask() {
    local want=$1 pattern=$2 path=$3 got
    shift 3
    got=$(curl -s --max-time "$patience" -D "$work/head" -o "$work/answer" -w '%{http_code}' "$@" "$url$path")
    [ "$got" = "$want" ] || fail "$path: status $got instead of $want: $(head -c 300 "$work/answer")"
    cat "$work/head" "$work/answer" | grep -qE "$pattern" || fail "$path: no $pattern: $(head -c 300 "$work/answer")"
}
input='{"id":"7","inputs":[{"name":"x","shape":[2,4],"datatype":"FP32","data":[1,2,3,4,5,6,7,8]}]'
infer() { ask "$1" "$2" "/v2/models/$3/infer" -H 'Content-Type: application/json' -d "$input${4:-}}"; }
timeout_us() { printf ',"parameters":{"timeout":%d}' "$1"; }

export FAKE_FLEET_AWAY=$work/away FAKE_FLEET_BARE=$work/bare
route plain --access-log "$work/access" --deadline 400 --max-body 1

# ---- what there is: 300 models and the special ones, which are described when they are asked for
ask 200 '"extensions":\["binary_tensor_data"' /v2
ask 200 '' /v2/health/ready
ask 200 '"platform":"fake","inputs":\[\{"name":"x","datatype":"FP32","shape":\[-1,4\]' /v2/models/echo
ask 200 '"max_batch_size":8' /v2/models/m-299/config
ask 200 '' /v2/models/m-7/versions/3/ready
ask 404 'version 2 is not found, version 3' /v2/models/m-7/versions/2/ready
ask 404 'unknown model' /v2/models/none
ask 404 'no worker has such a model' /v2/models/gone
ask 500 'description of a model' /v2/models/riddle
ask 200 'READY' /v2/repository/index -d '{}'
[ "$(grep -o '"name"' "$work/answer" | wc -l)" = 310 ] || fail "the index does not list 310 models"
for i in {0..299}; do printf 'url = "%s/v2/models/m-%d"\n' "$url" "$i"; done >"$work/urls"
[ "$(curl -s --max-time "$patience" -K "$work/urls" | grep -o '"fake"' | wc -l)" = 300 ] || fail 'not all of 300 models are described'

# ---- answers
infer 200 '^\{"id":"7","model_name":"echo","model_version":"3".*"shape":\[2,4\],"data":\[1,2,3,4,5,6,7,8\]' echo
infer 200 '"data":\[1,2,3,4,5,6,7,8\]' slow
python3 -c 'import struct, sys; sys.stdout.buffer.write(struct.pack("<4f", 1, -2, 0.5, 4))' >"$work/raw"
ask 200 'Inference-Header-Content-Length' /v2/models/echo/infer -H 'Inference-Header-Content-Length: 0' --data-binary "@$work/raw"
tail -c 16 "$work/answer" | cmp -s - "$work/raw" || fail 'binary tensors come back changed'

# ---- refusals: what a client can do about them is in the status
infer 503 'Retry-After: 2' full
infer 503 'worker w-1 died' dead
infer 504 'timeout expired|no answer' never "$(timeout_us 50000)"
infer 504 'no answer by the deadline' never
infer 504 'timeout expired|no answer' slow "$(timeout_us 50000)"
infer 500 'the model failed' broken
infer 500 'another size' odd
ask 501 'on other hosts' /v2/rdma/sessions -d '{"model":"echo"}'
ask 501 'a router loads no models' /v2/repository/models/echo/load -d '{}'
ask 400 'batch-size must be from 1 to 8' /v2/models/echo/infer -d '{"inputs":[{"name":"x","shape":[9,4],"datatype":"FP32","data":[]}]}'

# ---- what strangers send
ask 400 '' /v2/models/echo/infer -d '{"inputs":[{"name":"x","shape":[1,4],"datatype":"FP32","data":[1,2,3]}]}'
ask 400 'unexpected inference input' /v2/models/echo/infer -d '{"inputs":[{"name":"nope","shape":[1,4],"datatype":"FP32","data":[1,2,3,4]}]}'
ask 400 '' /v2/models/echo/infer -d '{"inputs":'
ask 400 'shorter' /v2/models/echo/infer -H 'Inference-Header-Content-Length: 400' --data-binary '{}'
ask 404 'unknown model' "/v2/models/%FF%00x" # no controller hears of it
ask 404 'unknown model' "/v2/models/$(printf 'a%.0s' {1..200})"
head -c 3000000 /dev/zero | ask 413 '' /v2/models/echo/infer --data-binary @-

# ---- the controller is away: leases serve on; without any the router is not ready
touch "$work/away"
ask 200 '' /v2/health/ready
infer 200 '"data":\[1,2' echo
touch "$work/bare"
ask 503 'no controller answers, and no lease is left' /v2/health/ready
ask 200 '' /v2/health/live
rm "$work/away" "$work/bare"

# ---- counts
ask 200 'gpuwire_router_leases 7' /metrics
grep -q '^gpuwire_server_info{.*executor="fleet"} 1' "$work/answer" || fail 'metrics do not say where models run'
grep -q '^nv_inference_request_success{model="slow",version="3"} 1$' "$work/answer" || fail 'the answer of slow is not counted'
grep -q '^gpuwire_request_late{model="never",version="3"} 2$' "$work/answer" || fail 'late requests are not counted'
! grep -q 'model="mute"' "$work/answer" || fail 'metrics have a model that no request has reached'
ask 200 '"success":\{"count":1,' /v2/models/slow/stats
grep -q '"model":"full".*"status":503' "$work/access" || fail 'the access log lacks a refusal'

# ---- hundreds at once
seq 200 300 | xargs -P 60 -I{} curl -s --max-time "$patience" -o /dev/null -w '%{http_code}\n' -H 'Content-Type: application/json' \
    -d "$input}" "$url/v2/models/m-{}/infer" >"$work/many" 2>&1
[ "$(grep -c '^200$' "$work/many")" = 100 ] || fail "of 101 requests for m-200 to m-300: $(sort "$work/many" | uniq -c)"

# ---- tritonclient, unmodified
python=${TRITON_PYTHON:-${XDG_CACHE_HOME:-$HOME/.cache}/gpuwire/tritonclient/bin/python}
if "$python" -c 'import tritonclient.grpc, tritonclient.http' 2>/dev/null; then
    timeout "$patience" "$python" "$here/triton_router.py" "${url#http://}" "$grpc" >"$work/client.out" 2>&1 ||
        fail "tritonclient: $(tail -5 "$work/client.out")"
fi

# ---- the end: what is under way is answered, nothing new is taken
curl -s --max-time "$patience" -o "$work/last" -H 'Content-Type: application/json' -d "$input}" "$url/v2/models/slow/infer" &
last=$!
eventually sh -c "curl -s $url/metrics | grep -q '^gpuwire_router_flying 1'" # its worker has it
ends TERM
wait "$last"
grep -q '"data":\[1,2' "$work/last" || fail "the request under way is lost: $(cat "$work/last")"

# ---- an end that does not wait
route cut --drain-seconds 0
curl -s --max-time "$patience" -o "$work/last" -H 'Content-Type: application/json' -d "$input}" "$url/v2/models/never/infer" &
last=$!
eventually sh -c "curl -s $url/metrics | grep -q '^gpuwire_router_flying 1'"
ends TERM
wait "$last"

# ---- a token
echo 0123456789abcdef-token >"$work/token"
route secret --token-file "$work/token" --open-health
ask 401 '' /v2/models/echo
ask 401 '' /v2/models/echo -H 'Authorization: Bearer 0123456789abcdef-tokem'
ask 200 '"fake"' /v2/models/echo -H 'Authorization: Bearer 0123456789abcdef-token'
ask 200 '' /v2/health/ready
ends INT

# ---- wrong usage
for args in '' '--controller fake:1 --etcd http://x' '--controller fake:1 --deadline 0' '--controller fake:1 --nonsense'; do
    # shellcheck disable=SC2086
    "$ROUTER_FAKE" $args >"$work/usage.out" 2>&1
    [ $? = 2 ] || fail "router $args: $(cat "$work/usage.out")"
done
echo "the router's doors answer"
