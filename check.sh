#!/usr/bin/env bash
# Sets everything up on a bare machine, builds, and runs every test: unit, integration, simulation, short fuzzing.
set -euo pipefail
cd "$(dirname "$0")"
scripts/setup.sh --tests
exec make --no-print-directory check
