#!/usr/bin/env bash
# scripts/install.sh BUILD PREFIX [remove]: installs what BUILD has into PREFIX, below DESTDIR if that is set, or removes
# it from there. An empty PREFIX is the one that BUILD was configured with.
set -euo pipefail
if [ $# -lt 2 ]; then
    echo "usage: scripts/install.sh BUILD PREFIX [remove] (\`make install\` and \`make uninstall\` call it)" >&2
    exit 2
fi
build=$1 prefix=$2 what=${3:-install}
if [ ! -e "$build/CMakeCache.txt" ]; then
    echo "gpuwire: $build is not configured; run \`make\` first" >&2
    exit 1
fi
to=()
[ -z "$prefix" ] || to=(--prefix "$(realpath -m "$prefix")")
if [ "$what" = install ]; then
    cmake --install "$build" --strip "${to[@]}" >/dev/null
    echo "gpuwire: installed into ${DESTDIR:-}${to[1]:-$(sed -n 's/^CMAKE_INSTALL_PREFIX:PATH=//p' "$build/CMakeCache.txt")}"
    exit
fi

# What would be installed now, in a scratch folder, names what is to go.
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
DESTDIR=$scratch cmake --install "$build" "${to[@]}" >/dev/null
(cd "$scratch" && find . ! -type d -printf '%P\0') | while IFS= read -r -d '' file; do rm -f "${DESTDIR:-}/$file"; done
# Folders that are gpuwire's alone go as well, once they are empty.
(cd "$scratch" && find . -depth -type d -path '*gpuwire*' -printf '%P\0') | while IFS= read -r -d '' folder; do
    [ ! -d "${DESTDIR:-}/$folder" ] || rmdir --ignore-fail-on-non-empty "${DESTDIR:-}/$folder"
done
