#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# gpuwire check: what can run, with what it takes; and every node that cannot.
. "$(dirname "$0")/lib.sh"
data=$here/../model/data
models=$source_dir/models

# says CODE WORDS… -- ARGS…: the exit code, and each of the words in what it prints.
says() {
    local code=$1 rc words=() w
    shift
    while [ "$1" != -- ]; do words+=("$1") && shift; done
    shift
    timeout -k 5 "$patience" "$GPUWIRE" check "$@" >"$work/check.out" 2>&1
    rc=$?
    [ $rc = "$code" ] || fail "check $*: exit code $rc, not $code"
    for w in "${words[@]}"; do grep -q -- "$w" "$work/check.out" || fail "check $*: nothing of '$w'"; done
}
says 0 'runs on the CPU' "input   FP32   1x1x224x224 'input'" 'MB of intermediate results' -- "$models/superresolution/1/model.onnx"
says 1 "'first' (Einsum): the operator is not supported" "'second' (Det)" '2 reasons' -- "$data/two_failures.onnx"
grep -q Relu "$work/check.out" && fail "a node that only follows one that fails is named"
says 1 'runs on the CPU' '2 reasons' -- "$data/two_failures.onnx" "$models/identity/1/model.onnx"
says 1 'batch dimension is fixed' -- --batch 4 "$models/identity/1/model.onnx"
says 1 'No such file' -- "$work/none.onnx"
says 1 'not an ONNX model' -- "$0"
says 2 'cpu or gpu' -- --exec tpu "$models/identity/1/model.onnx"
says 2 'a model file is missing' --
echo "measured: gpuwire check names every node that fails"
