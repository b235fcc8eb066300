#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A repository that Triton served: its configurations, several versions, models of other kinds and broken ones among the
# good ones. Models that are not served are named, in the log and in the repository's index.
. "$(dirname "$0")/lib.sh" || exit 1
need curl jq
cd "$work" || exit 1
models=$source_dir/tests/server/models
mkdir -p r/echo/1 r/echo/3 r/folder/1/model.onnx r/engine/2 r/ensemble r/broken/1 r/docs
cp "$models/echo/1/model.onnx" r/echo/1
cp "$models/echo/1/model.onnx" r/echo/3
cp "$models/echo/1/model.onnx" r/folder/1/model.onnx
: >r/engine/2/model.plan
: >r/docs/README.md
head -c 60 "$models/echo/1/model.onnx" >r/broken/1/model.onnx
for m in echo engine ensemble; do printf 'name: "%s"\nmax_batch_size: 8\n' "$m" >"r/$m/config.pbtxt"; done

index() { curl -sf -d "${1:-}" "http://$server/v2/repository/index" | jq -c 'sort_by(.name)[] | [.name, .version, .state]' | tr '\n' ' '; }
index_is() { [ "$(index)" = "$1" ]; }
reason() { curl -sf -d '' "http://$server/v2/repository/index" | jq -r ".[] | select(.name == \"$1\").reason"; }
status() { curl -s -o answer -w '%{http_code}' "$@"; }

serve moved --models r --watch --model-control
says() { grep -q "$1" moved.out || fail "the server does not say '$1': $(cat moved.out)"; }
says 'error: model broken: version 1 cannot be served: '
says 'error: model engine cannot be served: it has model.plan, and neither model.onnx nor model.so'
says 'error: model ensemble cannot be served: it has a config.pbtxt and no version'
says 'info: config.pbtxt is not read (1 of 3 models have one)'
says '^serving echo/3, folder/1 on cpu'
! grep -q docs moved.out || fail 'a folder that is no model is reported'
all='["broken","1","UNAVAILABLE"] ["echo","3","READY"] ["engine","2","UNAVAILABLE"] ["ensemble",null,"UNAVAILABLE"] ["folder","1","READY"] '
index_is "$all" || fail "the index is $(index)"
[ "$(index '{"ready": true}')" = '["echo","3","READY"] ["folder","1","READY"] ' ] || fail "the index of what is ready is $(index '{"ready": true}')"
[[ "$(reason broken)" == *model.onnx* ]] || fail "the index does not say why broken is not served: $(reason broken)"

# What its clients read in a configuration.
curl -sf "http://$server/v2/models/echo/config" | jq -e '.input[0].format == "FORMAT_NONE" and .output[0].label_filename == "" and
    .version_policy.latest.num_versions == 1 and .parameters == {}' >jq.out || fail 'the configuration lacks what clients read'

# Unloaded, and loaded again. A configuration that comes with the call would be left out, so it is refused.
[ "$(status -d '' "http://$server/v2/repository/models/folder/unload")" = 200 ] || fail "unload: $(cat answer)"
index_is "${all/'"folder","1","READY"'/'"folder","1","UNAVAILABLE"'}" || fail "after the unload the index is $(index)"
[ "$(reason folder)" = unloaded ] || fail "the reason is $(reason folder)"
[ "$(status -d '{"parameters": {"config": "{}"}}' "http://$server/v2/repository/models/folder/load")" = 501 ] || fail "load with a configuration: $(cat answer)"
[ "$(status -d '{}' "http://$server/v2/repository/models/folder/load")" = 200 ] || fail "load: $(cat answer)"
index_is "$all" || fail "after the load the index is $(index)"
[ "$(status -d '{}' "http://$server/v2/repository/models/broken/load")" = 500 ] || fail "a broken model is loaded: $(cat answer)"

# Models of other kinds that come and go; a broken one that is repaired.
mkdir -p new/1 && : >new/1/model.pt && mv new r
eventually grep -q 'error: model new cannot be served: it has model.pt' moved.out || fail "nothing is said of a new model: $(cat moved.out)"
[ "$(reason new)" = 'it has model.pt, and neither model.onnx nor model.so' ] || fail "the reason is $(reason new)"
rm -r r/new r/engine
cp "$models/echo/1/model.onnx" r/broken/1
eventually index_is '["broken","1","READY"] ["echo","3","READY"] ["ensemble",null,"UNAVAILABLE"] ["folder","1","READY"] ' || fail "at the end the index is $(index)"
[ "$(grep -c 'model new cannot be served' moved.out)" = 1 ] || fail 'the new model is reported more than once'
stop_worker

# The only one that is asked for, of another kind.
mkdir -p r/engine/1 && : >r/engine/1/model.plan
"$GPUWIRE" serve --port 0 --exec cpu --models r --model engine >one.out 2>&1
[ $? = 2 ] && grep -q 'model engine cannot be served: it has model.plan' one.out || fail "an engine alone: $(cat one.out)"

# Nothing in it runs here: the line says what is there.
mkdir -p only/engine/1 && : >only/engine/1/model.plan
"$GPUWIRE" serve --port 0 --exec cpu --models only >only.out 2>&1
[ $? = 2 ] && grep -q 'no model in it that runs here; engine: it has model.plan' only.out || fail "a repository of engines: $(cat only.out)"
all_gone
echo ok
