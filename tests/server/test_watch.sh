#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# --watch: versions that come into the repository are served in place of the old ones, under load and without a request lost;
# bad ones are reported, and what is served goes on.
. "$(dirname "$0")/lib.sh" || exit 1
need curl jq python3
cd "$work" || exit 1
mkdir -p models
cp -r "$source_dir/tests/server/models/echo" models
version_is() { [ "$(curl -s "http://$server/v2/models/$1" | jq -r '.versions[0]?')" = "$2" ]; }
status() { curl -s -o /dev/null -w '%{http_code}' "http://$server/v2/models/$1"; }
is() { [ "$(status "$1")" = "$2" ]; }

serve watched --models models --watch --access-log log
grpc=$(sed -n 's/.*gRPC on port \([0-9]*\).*/\1/p' watched.out)
python3 "$here/http_load.py" "$server" stop >clients.json 2>clients.err &
clients=$!
pids+=("$clients")
answered() { curl -s "http://$server/metrics" | grep -qE '^nv_inference_request_success\{model="echo".*\} [1-9]'; }
eventually answered || fail "no client is answered: $(cat clients.err)"

# A version that is copied slowly, and moved into place; each is served when it is whole.
python3 - <<'EOF' || fail 'no copy'
import os, time
data = open("models/echo/1/model.onnx", "rb").read()
os.mkdir("models/echo/2")
with open("models/echo/2/model.onnx", "wb", buffering=0) as out:
    for i in range(0, len(data), len(data) // 8):
        out.write(data[i : i + len(data) // 8])
        time.sleep(0.05)
EOF
eventually version_is echo 2 || fail "version 2 is not served: $(cat watched.out)"
grep -q 'version 2 cannot be served' watched.out && fail "half a file was read: $(cat watched.out)"
cp -r models/echo/2 copy && mv copy models/echo/3
eventually version_is echo 3 || fail "version 3 is not served: $(cat watched.out)"

# A bad one: said once, and the old one goes on.
mkdir models/echo/4
head -c 60 models/echo/1/model.onnx >models/echo/4/model.onnx
eventually grep -q 'error: model echo: version 3 goes on, version 4 cannot be served: ' watched.out || fail "nothing is said of a bad version: $(cat watched.out)"
version_is echo 3 || fail 'the old version does not go on'
# The same version with other bytes, once it is good; then the way back.
cp models/echo/1/model.onnx models/echo/4/model.onnx
eventually version_is echo 4 || fail "the repaired version is not served: $(cat watched.out)"
rm -r models/echo/4
eventually version_is echo 3 || fail "the version before is not served again: $(cat watched.out)"

# A file of one model grows and grows; the others come and go all the same.
mkdir -p models/grow/1
(while [ ! -e grown ]; do echo more >>models/grow/1/model.onnx; sleep 0.05; done) &
grower=$!
pids+=("$grower")

# Models that come and go.
cp -r "$source_dir/tests/server/models/sum" models
eventually is sum 200 || fail "a new model is not served: $(cat watched.out)"
rm -r models/sum
eventually is sum 404 || fail 'a model that has gone is served'
grep -q 'model grow' watched.out && fail "a file that grows was read: $(cat watched.out)"
touch grown
wait "$grower"
eventually grep -q 'error: model grow: version 1 cannot be served: ' watched.out || fail "nothing is said of the file that grew: $(cat watched.out)"
# A repository that is gone for a while takes nothing away.
mv models away
eventually grep -q 'warning: model repository models: .*; what is served goes on' watched.out || fail "nothing is said of a missing repository: $(cat watched.out)"
is echo 200 || fail 'the models went with their folder'
mv away models

touch stop
wait "$clients" || fail "a client failed: $(cat clients.err)"
[ "$(jq .versions clients.json)" -ge 4 ] || fail "too few versions have answered: $(cat clients.json)"
jq -e '.answered > 20' clients.json >/dev/null || fail "too few answers: $(cat clients.json)"
[ "$(grep -c 'version 4 cannot be served' watched.out)" = 1 ] || fail "a bad version is reported more than once: $(cat watched.out)"
stop_worker

# One model alone: others that come are none of its business.
cp -r "$source_dir/tests/server/models/pair" models
serve one --models models --model pair --watch
cp -r "$source_dir/tests/server/models/sum" models
mkdir models/pair/7 && cp models/pair/1/model.onnx models/pair/7
eventually version_is pair 7 || fail 'version 7 of the only model is not served'
is sum 404 || fail 'a model is served that was not asked for'
stop_worker
all_gone
echo ok
