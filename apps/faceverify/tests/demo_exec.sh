#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The demonstration on an executor, with the bundle's memcached if there is one. Each reply is checked. $1: cpu or gpu.
set -eu
gpuwire=${GPUWIRE:-gpuwire}
PATH=$(dirname "$gpuwire"):$PATH
command -v memcached >/dev/null || { echo "skipped: memcached is not installed"; exit 77; }
said=$("$gpuwire" app faceverify --exec "${1:?cpu or gpu}" --seconds 1)
echo "$said"
grep -q "every verdict was right" <<<"$said"
grep -q "blocks on $1" <<<"$said"
