#!/usr/bin/env bash
# Makes a relocatable folder: gpuwire's programs and tests, the distribution's verbs programs, and every library they
# need but the C library. It runs on any x86-64 machine with glibc 2.36 or newer, with no network and nothing installed.
#   scripts/bundle.sh BUILD OUT        (and OUT.tar.xz)
set -euo pipefail
cd "$(dirname "$0")/.."
if [ $# -ne 2 ]; then
    echo "usage: scripts/bundle.sh BUILD OUT" >&2
    exit 2
fi
build=$1 out=$2
if [ ! -x "$build/bin/gpuwire" ] || { [ -e "$out" ] && [ ! -e "$out/bin" ]; }; then
    echo "gpuwire: bundle: $build has no bin/gpuwire (\`make bundle\` builds it), or $out is something else than a bundle" >&2
    exit 1
fi
rm -rf "$out"
mkdir -p "$out"/{bin,lib,tests}

# libc's own parts come from the machine, as does everything of the GPU driver.
from_the_machine='/(ld-linux[^/]*|libc|libm|libdl|librt|libpthread|libresolv|libutil|libcuda|libnvidia[^/]*)\.so'
needs() { # the libraries that a program or library is linked to, whole paths
    ldd "$1" 2>/dev/null | awk '$2 == "=>" && $3 ~ /^\// { print $3 }' | grep -vE "$from_the_machine" || true
}
add_library() { # by the name that programs look for it under
    local name
    name=$(basename "$1")
    [ -e "$out/lib/$name" ] || cp -L "$1" "$out/lib/$name"
}

cp -a "$build"/bin/gpuwire "$out/bin/"
cp -a "$build"/libexec "$out/" # the programs that it becomes
# The tests that a GPU runs, the benchmarks and the examples. Others need no GPU, and would only take room.
{
    awk '$1 ~ /^[0-9]/ { print $2 }' tests/gpu-tests.txt
    find "$build/bin" -maxdepth 1 \( -name 'sim*' -o -name 'coll_*' -o -name '*_bench' -o -name 'example_*' -o -name 'app_*' \) -printf '%f\n'
} | sort -u | while read -r name; do
    [ ! -x "$build/bin/$name" ] || cp "$build/bin/$name" "$out/tests/"
done
for program in ibv_devinfo ibv_devices ibv_rc_pingpong ib_write_lat ib_write_bw ib_send_bw memcached; do
    path=$(command -v "$program") && cp -L "$path" "$out/bin/"
done
find "$build/lib" -maxdepth 1 -name 'libgpuwire*.so' -exec cp -L {} "$out/lib/" \;
cp -L "$build/lib/example_plugin.so" "$out/lib/"
# Sockets programs speak RDMA with it.
preload=$(ldconfig -p | sed -n 's,.*=> \(.*\)/librdmacm.so.1$,\1/rsocket/librspreload.so,p' | head -1)
[ ! -e "$preload" ] || cp -L "$preload" "$out/lib/librspreload.so"
for f in "$out"/lib/libgpuwire*.so; do # under the name that the linker recorded, too
    soname=$(patchelf --print-soname "$f")
    [ -z "$soname" ] || [ -e "$out/lib/$soname" ] || mv "$f" "$out/lib/$soname"
    [ "$soname" = "$(basename "$f")" ] || ln -sf "$soname" "$f"
done

for f in "$out"/bin/* "$out"/libexec/gpuwire/* "$out"/tests/* "$out"/lib/*; do
    for library in $(needs "$f"); do add_library "$library"; done
done
# libibverbs loads its provider by name. It must be the very file that the programs are linked to: two copies of
# libmlx5 would be two drivers.
provider=$(basename "$(find /usr/lib/x86_64-linux-gnu/libibverbs -name 'libmlx5-rdmav*.so' | head -n 1)")
ln -sf libmlx5.so.1 "$out/lib/$provider"

find "$out" -type f -exec sh -c 'file -b "$1" | grep -q "^ELF" && strip --strip-unneeded "$1" 2>/dev/null' _ {} \;
for f in "$out"/bin/* "$out"/tests/*; do patchelf --set-rpath '$ORIGIN/../lib' "$f" 2>/dev/null || true; done
for f in "$out"/libexec/gpuwire/*; do patchelf --set-rpath '$ORIGIN/../../lib' "$f"; done
for f in "$out"/lib/*.so*; do [ -L "$f" ] || patchelf --set-rpath '$ORIGIN' "$f"; done

cp -a models "$out/models"
rm -rf "$out/models/train"
[ ! -d tests/model/data ] || { mkdir -p "$out/tests/data" && cp -a tests/model/data "$out/tests/data/model"; }
mkdir -p "$out/bench" && cp -a bench/softnic.sh bench/csv.sh bench/figures bench/serve_modes.py "$out/bench/"
mkdir "$out/bench/modes" && cp bench/modes/*.py "$out/bench/modes/"
mkdir -p "$out/bench/generate" && cp bench/generate/gpu.sh "$out/bench/generate/"
mkdir -p "$out/bench/apps" && cp bench/apps/*.sh bench/apps/*.py "$out/bench/apps/"
cp examples/pair.sh "$out/tests/example_pair.sh"
for script in apps/*/tests/*.sh; do # gpu-tests.txt names those that a GPU runs
    folder=$out/tests/apps/$(basename "$(dirname "$(dirname "$script")")")
    mkdir -p "$folder" && cp "$script" "$folder/"
done
mkdir -p "$out/tests/cli" "$out/tests/integration"
cp tests/cli/test_cat_exec.sh tests/cli/cat_lib.sh "$out/tests/cli/"
cp tests/integration/lib.sh "$out/tests/integration/"
mkdir -p "$out/tests/server" "$out/tests/collective"
cp tests/collective/launch.sh "$out/tests/collective/"
cp tests/server/test_plugin.sh tests/server/lib.sh "$out/tests/server/"
# The Python package, which finds its libraries in lib/ (GPUWIRE_LIBRARIES), and its tests on a GPU.
mkdir -p "$out/python" "$out/tests/python" && cp -r python/gpuwire "$out/python/" && rm -rf "$out/python/gpuwire/__pycache__"
cp tests/python/gpu_serving.py tests/python/gpu_nccl.py tests/python/gpu_torch.py tests/python/gpu_ranks.py "$out/tests/python/"
cp scripts/gpu-check.sh scripts/gpu-bench.sh tests/gpu-tests.txt "$out/"
# The same to carry about. Much of it is the same code in several programs, so the dictionary is as large as they are together.
tar -C "$(dirname "$out")" -c "$(basename "$out")" | xz -T1 --lzma2=preset=2,dict=256MiB >"$out.tar.xz"
echo "$out.tar.xz: $(du -sh --apparent-size "$out.tar.xz" | cut -f1); $out: $(du -sh --apparent-size "$out" | cut -f1), $(ls "$out/tests" | wc -l) tests"
