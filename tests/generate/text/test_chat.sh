#!/usr/bin/env bash
# Renders the same templates with ours and with Jinja: test_chat.sh CHAT_PIPE
set -euo pipefail
cd "$(dirname "$0")"
for python in python3 /usr/bin/python3; do
    "$python" -c 'import jinja2' 2>/dev/null && exec "$python" chat.py "$@"
done
echo "SKIP: no Jinja: scripts/setup.sh --tests installs python3-jinja2" && exit 77
