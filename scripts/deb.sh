#!/usr/bin/env bash
# scripts/deb.sh OUT: builds the Debian packages of this tree into OUT, in a copy of it. lintian looks at them if it is
# installed. GW_CMAKE_FLAGS go to CMake.
set -euo pipefail
cd "$(dirname "$0")/.."
if [ $# -ne 1 ]; then
    echo "usage: scripts/deb.sh OUT (\`make deb\` takes build/deb)" >&2
    exit 2
fi
out=$1
if ! command -v dpkg-buildpackage >/dev/null || ! command -v dh >/dev/null; then
    echo "gpuwire: packages need debhelper and dpkg-dev: apt-get install debhelper dpkg-dev lintian" >&2
    exit 1
fi
rm -rf "$out"
mkdir -p "$out/gpuwire"
tar -c --exclude=./.git --exclude='./build*' --exclude='./bundle*' --exclude=./.cache . | tar -x -C "$out/gpuwire"
(cd "$out/gpuwire" && DEB_BUILD_OPTIONS="noautodbgsym ${DEB_BUILD_OPTIONS:-}" dpkg-buildpackage -b -us -uc) >"$out/build.log" 2>&1 || {
    tail -n 30 "$out/build.log" >&2
    echo "gpuwire: the packages did not build; the whole log is in $out/build.log" >&2
    exit 1
}
rm -rf "$out/gpuwire"
if command -v lintian >/dev/null; then
    lintian --fail-on error,warning "$out"/*.changes
else
    echo "gpuwire: lintian is not installed, and has not looked at the packages"
fi
ls "$out"/*.deb
