#!/usr/bin/env bash
# Encodes and decodes the same strings with ours and with the `tokenizers` package: test_equal.sh PIPE STRINGS [SEED]
set -euo pipefail
cd "$(dirname "$0")"
python=${TOKENIZERS_PYTHON:-${XDG_CACHE_HOME:-$HOME/.cache}/gpuwire/tokenizers/bin/python}
"$python" -c 'import tokenizers' 2>/dev/null || { echo "SKIP: no tokenizers package: scripts/setup.sh --tests installs it" && exit 77; }
exec "$python" equal.py "$@"
