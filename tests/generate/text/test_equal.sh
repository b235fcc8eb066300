#!/usr/bin/env bash
# Encodes and decodes the same strings with ours and with the `tokenizers` package: test_equal.sh PIPE STRINGS [SEED [NAME...]].
# More than 10,000 strings: those of real models, too, where a package has them (litellm, which the door's tests install).
set -euo pipefail
cd "$(dirname "$0")"
python=${TOKENIZERS_PYTHON:-${XDG_CACHE_HOME:-$HOME/.cache}/gpuwire/tokenizers/bin/python}
"$python" -c 'import tokenizers' 2>/dev/null || { echo "SKIP: no tokenizers package: scripts/setup.sh --tests installs it" && exit 77; }
real=()
if [ "$2" -gt 10000 ] && [ $# -eq 2 ]; then
    real=("${XDG_CACHE_HOME:-$HOME/.cache}"/gpuwire/openai/lib/python*/site-packages/litellm/litellm_core_utils/tokenizers/*.json)
    [ -e "${real[0]}" ] || real=()
fi
if [ "${#real[@]}" -gt 0 ]; then
    "$python" equal.py "$1" 10000 1 "${real[@]}"
fi
exec "$python" equal.py "$@"
