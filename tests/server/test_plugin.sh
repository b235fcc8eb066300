#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A model in a shared object (examples/plugin): it is checked, served and replaced; one that cannot be loaded, or that another
# user could have written, is refused with the reason. $1: cpu or gpu.
. "$(dirname "$0")/lib.sh"
where=${1:-cpu}
plugin=${PLUGIN:-$here/../../lib/example_plugin.so}
need curl
umask 022
mkdir -p "$work/models/affine/1" "$work/models/affine/2" || fail 'no folder'
place() { # place VERSION COEFFICIENTS
    mkdir -p "$work/models/affine/$1" && cp "$plugin" "$work/models/affine/$1/model.so" && echo "$2" >"$work/models/affine/$1/coefficients.txt"
}
place 1 '4 2.0 0.5'
rmdir "$work/models/affine/2"
file=$work/models/affine/1/model.so

# says CODE WORDS… -- ARGS…: what `gpuwire check` ends with, and what it says.
says() {
    local code=$1 rc words=() w
    shift
    while [ "$1" != -- ]; do words+=("$1") && shift; done
    shift
    timeout -k 5 "$patience" "$GPUWIRE" check --exec "$where" "$@" >"$work/check.out" 2>&1
    rc=$?
    [ $rc = "$code" ] || { cat "$work/check.out"; fail "check $*: exit code $rc, not $code"; }
    for w in "${words[@]}"; do grep -qi -- "$w" "$work/check.out" || { cat "$work/check.out"; fail "check $*: nothing of '$w'"; }; done
}
says 0 "runs on the $where" "input   FP32   Nx4 'x'" "output  FP32   Nx4 'y'" -- "$file"

# ---- served, with requests that share runs, and replaced
serve worker --exec "$where" --models "$work/models" --model-control --max-batch 4
ask() { # ask ROWS NUMBERS: the answer's numbers
    curl -s --max-time "$patience" "http://$server/v2/models/affine/infer" \
        -d "{\"inputs\": [{\"name\": \"x\", \"datatype\": \"FP32\", \"shape\": [$1, 4], \"data\": [$2]}]}" >"$work/answer"
    sed -n 's/.*"data":\[\([^]]*\)\].*/\1/p' "$work/answer"
}
answers() { # answers ROWS NUMBERS EXPECTED
    [ "$(ask "$1" "$2")" = "$3" ] || fail "$1 rows of $2 gave $(cat "$work/answer")"
}
answers 1 1,2,3,4 2.5,4.5,6.5,8.5
answers 3 1,2,3,4,5,6,7,8,9,10,11,12 2.5,4.5,6.5,8.5,10.5,12.5,14.5,16.5,18.5,20.5,22.5,24.5
curl -s "http://$server/v2/models/affine" | grep -q '"platform":"affine"' || fail 'the plug-in has no name of its own'
place 2 '4 10 -1'
curl -sf -X POST "http://$server/v2/repository/models/affine/load" -d '{}' || fail 'the new version is not loaded'
answers 1 1,2,3,4 9,19,29,39
stop_worker
[ "$where" = cpu ] || { all_gone; exit 0; }

# ---- what is wrong with it is said
rm -r "$work/models/affine/2"
says 1 'coefficients.txt beside it must hold' -- "$plugin"
cp "$here/lib.sh" "$work/text.so"
says 1 'text.so' 'invalid ELF header\|file too short' -- "$work/text.so"
says 1 'none.so: No such file' -- "$work/none.so"
mkdir "$work/folder.so"
says 1 'not a regular file' -- "$work/folder.so"
chmod g+w "$file"
says 1 'root and this user' "'$file' belongs to $(id -u), mode 775\|mode 664" -- "$file"
"$GPUWIRE" serve --port 0 --exec cpu --models "$work/models" >"$work/refused.out" 2>&1 && fail 'a plug-in that others may write is served'
grep -q 'chmod go-w' "$work/refused.out" || fail 'not why it is not served'
chmod g-w "$file"
chmod o+w "$work/models"
says 1 "'$work/models' belongs to" 'chmod go-w' -- "$file"
chmod o-w "$work/models"
if [ "$(id -u)" = 0 ]; then
    chown 12345 "$work/models/affine"
    says 1 "'$work/models/affine' belongs to 12345" 'see chown' -- "$file"
    chown 0 "$work/models/affine"
fi
says 0 'runs on the cpu' -- "$file"

# Tables that are none. Those who compile nothing here have seen the rest.
command -v cc >/dev/null || { all_gone; exit 0; }
bad() { # bad NAME: a plug-in of the C on stdin
    cc -shared -fPIC -I"$source_dir/include" -x c - -o "$work/$1.so" >"$work/cc.out" 2>&1 || { cat "$work/cc.out"; fail "$1 does not compile"; }
}
bad plain <<<'int answer = 42;'
says 1 'no plug-in: it defines no GW_MODEL_PLUGIN' -- "$work/plain.so"
bad old <<<'int gw_model_plugin_1 = 1;'
says 1 'table is of version 1, this gpuwire takes version' 'build it again' -- "$work/old.so"
bad lacks <<'C'
#include <stddef.h>
#include <gpuwire/model.h>
static int load(const void *b, size_t n, const char *f, void **m, char *e, size_t l) { (void)b, (void)n, (void)f, (void)m, (void)e, (void)l; return 0; }
const struct gw_model_backend GW_MODEL_PLUGIN = {.abi = GW_MODEL_ABI, .name = "lacks", .load = load};
C
says 1 "table has no unload" -- "$work/lacks.so"
# The example with one mistake each.
for mistake in 's/.bytes = m->affine.elements/.bytes = 1 + m->affine.elements/@description of input 0 is wrong' \
    's/return 1;/return 17;/@17 inputs; 1 to 16' 's/.name = "x"/.name = ""/@description of input 0' \
    's/.abi = GW_MODEL_ABI/.abi = 2/@says version 2'; do
    sed -e "${mistake%%@*}" -e "s|\"affine.h\"|\"$source_dir/examples/plugin/affine.h\"|" "$source_dir/examples/plugin/affine.c" | bad wrong
    cp "$work/models/affine/1/coefficients.txt" "$work/"
    says 1 "${mistake#*@}" -- "$work/wrong.so"
done
all_gone
