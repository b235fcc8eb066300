#!/usr/bin/env bash
# scripts/format.sh [FILE...]: formats these, or every source that git knows. scripts/format.sh --check: names what is not
# formatted and fails.
set -euo pipefail
cd "$(dirname "$0")/.."
version=14 # others break lines elsewhere
tool=$(command -v clang-format-$version || command -v clang-format || true)
if [ -z "$tool" ] || ! "$tool" --version | grep -q "version $version\."; then
    echo "gpuwire: sources are formatted with clang-format $version, which is not here"
    exit 77
fi
if [ "${1:-}" != --check ]; then
    files=("$@")
    [ $# -gt 0 ] || mapfile -t files < <(git ls-files '*.c' '*.h' '*.cu')
    exec "$tool" -i "${files[@]}"
fi
git ls-files -z '*.c' '*.h' '*.cu' | xargs -0 -P "$(nproc)" -n 40 "$tool" --dry-run -Werror
echo "every source is formatted"
