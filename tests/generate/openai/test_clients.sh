#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The clients of OpenAI's API that people use, as they come from PyPI. scripts/setup.sh --tests installs them.
python=${OPENAI_PYTHON:-${XDG_CACHE_HOME:-$HOME/.cache}/gpuwire/openai/bin/python}
"$python" -c 'import sys; from importlib.util import find_spec; all(map(find_spec, sys.argv[1:])) or 1 / 0' openai litellm langchain_openai \
    2>/dev/null || { echo "skipped: $python lacks openai, litellm or langchain-openai"; exit 77; }
exec timeout "${PATIENCE:-120}" "$python" "${0%/*}/clients.py" "$@"
