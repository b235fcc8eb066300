#!/usr/bin/env bash
# scripts/aarch64.sh [OUT]: builds the library and the software NIC for 64-bit Arm with Debian's cross compiler, and runs
# the tests of queues' formats under QEMU, and of memory with pages of 64 KiB. It also looks which domain barriers reach. The libraries for arm64 are unpacked below OUT (default: build-aarch64); the
# machine's own packages and lists stay as they are. Exit code 77: a compiler, QEMU or the packages are not to be had.
set -euo pipefail
cd "$(dirname "$0")/.."
mkdir -p "${1:-build-aarch64}"
out=$(realpath "${1:-build-aarch64}") root=$out/root triple=aarch64-linux-gnu
packages=(
    ibverbs-providers libcmocka0 libcmocka-dev libibverbs1 libibverbs-dev libisal2 libisal-dev librdmacm1 librdmacm-dev
    libnl-3-200 libnl-3-dev libnl-route-3-200 libnl-route-3-dev liburing2 liburing-dev
)
for program in $triple-gcc qemu-aarch64 apt-get dpkg; do
    command -v "$program" >/dev/null && continue
    echo "gpuwire: no $program here: \`scripts/setup.sh --ci\` installs what the build for aarch64 needs" >&2
    exit 77
done

fetch() ( # into $out/debs, by lists of our own
    set -e
    mkdir -p "$out"/{lists,cache,debs}/partial
    apt=(apt-get -qq -o APT::Architecture=arm64 -o APT::Architectures::=arm64 -o "Dir::State::Lists=$out/lists" -o "Dir::Cache=$out/cache"
        -o APT::Sandbox::User=root)
    "${apt[@]}" update
    cd "$out/debs"
    "${apt[@]}" download "${packages[@]}"
)
if [ ! -e "$out/complete" ]; then
    if ! fetch >"$out/fetch.log" 2>&1; then
        tail -n 5 "$out/fetch.log" >&2
        echo "gpuwire: the libraries for arm64 are not to be had; the whole log is $out/fetch.log" >&2
        exit 77
    fi
    for deb in "$out"/debs/*.deb; do dpkg -x "$deb" "$root"; done
    touch "$out/complete"
fi

cat >"$out/toolchain.cmake" <<END
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER $triple-gcc)
set(CMAKE_LIBRARY_ARCHITECTURE $triple)
set(CMAKE_FIND_ROOT_PATH $root)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_EXE_LINKER_FLAGS_INIT "-Wl,-rpath-link,$root/usr/lib/$triple -Wl,-rpath-link,$root/lib/$triple")
END
export PKG_CONFIG_LIBDIR=$root/usr/lib/$triple/pkgconfig PKG_CONFIG_SYSROOT_DIR=$root
cmake -S . -B "$out/build" -G Ninja -DCMAKE_TOOLCHAIN_FILE="$out/toolchain.cmake" -DGW_WERROR=ON -DGW_CUDA=OFF -DGW_SERVE=OFF \
    -DGW_BALANCE=OFF -DGW_TOOL=OFF -DGW_TESTS=ON >"$out/configure.log"
tests=(test_mlx5_build test_mlx5_parse test_mlx5_cqe)
cmake --build "$out/build" --target gpuwire_shared gpuwire-softnic test_pages "${tests[@]}"
emulate() {
    timeout 120 qemu-aarch64 -L /usr/$triple -E "LD_LIBRARY_PATH=$out/build/lib:$root/usr/lib/$triple:$root/lib/$triple" "$@"
}
for test in "${tests[@]}"; do emulate "$out/build/bin/$test"; done
emulate -p 65536 "$out/build/bin/test_pages"

# Barriers for devices are for the outer shareable domain, as rdma-core's are, and a register's store is waited for.
$triple-objdump -d "$out/build/lib/libgpuwire.so" >"$out/code"
for barrier in 'dmb[[:space:]]osh$' 'dmb[[:space:]]oshld' 'dsb[[:space:]]st'; do
    grep -q "$barrier" "$out/code" || { echo "gpuwire: the library has no '$barrier'" >&2; exit 1; }
done
if grep 'dmb[[:space:]]ish' "$out/code" >&2; then
    echo "gpuwire: these barriers are for processors alone" >&2
    exit 1
fi
