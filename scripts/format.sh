#!/usr/bin/env bash
# scripts/format.sh [FILE...]: formats these, or every source that git knows. scripts/format.sh --check: names what is not
# formatted, or wider than 110 columns, and fails.
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
# It breaks no comment. Assembly in strings and names in a row of definitions stay as they are.
if LC_ALL=C.UTF-8 git grep -nE '^.{111,}$' -- '*.c' '*.h' '*.cu' | grep -vE ':[0-9]+:(#define|.*LINE\()'; then
    echo "gpuwire: these lines have more than 110 columns"
    exit 1
fi
echo "every source is formatted"
