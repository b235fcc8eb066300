#!/usr/bin/env bash
# Encodes and decodes with a tokenizer.model, ours and SentencePiece's own library: test_sentence.sh PIPE STRINGS
set -euo pipefail
cd "$(dirname "$0")"
python=${TOKENIZERS_PYTHON:-${XDG_CACHE_HOME:-$HOME/.cache}/gpuwire/tokenizers/bin/python}
"$python" -c 'import sentencepiece, tokenizers' 2>/dev/null ||
    { echo "SKIP: no sentencepiece package: scripts/setup.sh --tests installs it" && exit 77; }
exec "$python" sentence.py "$@"
