#!/usr/bin/env bash
# Sets everything up on a bare machine, builds, and runs the demo. Arguments go to `gpuwire demo`.
set -euo pipefail
cd "$(dirname "$0")"
scripts/setup.sh
make --no-print-directory
exec "${BUILD:-build}/bin/gpuwire" demo "$@"
