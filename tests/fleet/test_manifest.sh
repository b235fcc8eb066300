#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The Kubernetes manifest of a fleet against Kubernetes' own schemas, which kubernetes-validate has, as it comes from PyPI.
# scripts/setup.sh --tests installs it.
here=$(cd "${0%/*}" && pwd)
python=${KUBERNETES_PYTHON:-${XDG_CACHE_HOME:-$HOME/.cache}/gpuwire/kubernetes/bin/python}
"$python" -c 'import kubernetes_validate' 2>/dev/null || { echo "skipped: $python has no kubernetes_validate"; exit 77; }
manifest=$here/../../examples/kubernetes/fleet.yaml
"$python" "$here/manifest.py" --self "$manifest" && "$python" "$here/manifest.py" "$manifest" "$GPUWIRE"
