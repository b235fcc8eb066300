#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What `make install` leaves, and what programs outside the tree make of it: the examples, built by pkg-config and by
# find_package from an installed tree that was moved; and that `make uninstall` takes all of it away again.
# $1: the build, $2: the sources.
. "$(dirname "$0")/../integration/lib.sh"
build=$1 source=$2
version=$(sed -n 's/^project(gpuwire VERSION \([0-9]*\.[0-9]*\).*/\1/p' "$source/CMakeLists.txt")
need cmake pkg-config cc ninja

# Below DESTDIR, into a prefix that is not the configuration's.
DESTDIR=$work/dest "$source/scripts/install.sh" "$build" /opt/gw >"$work/install.out" 2>&1 || fail "installing"
[ -z "$(find "$work/dest" ! -type d ! -path "$work/dest/opt/gw/*")" ] || fail "files beside the prefix"
for file in bin/gpuwire lib/libgpuwire.so lib/libgpuwire-softnic.so; do
    [ -e "$work/dest/opt/gw/$file" ] || fail "no $file"
    readelf -S "$work/dest/opt/gw/$file" | grep -q '\.symtab\|\.debug_info' && fail "$file is not stripped"
done
for file in man/man1/gpuwire.1 man/man1/gpuwire-nic.1 bash-completion/completions/gpuwire zsh/site-functions/_gpuwire; do
    [ -e "$work/dest/opt/gw/share/$file" ] || fail "no $file"
done
cp -a "$work/dest/opt/gw" "$work/prefix"
# What the tool and its pages point to.
documents=$(cat "$source"/docs/man/*.1 | sed 's/\\//g' | grep -oh 'docs/[a-z-]*\.md'; strings "$work/prefix"/bin/* "$work/prefix"/libexec/*/* | grep -oh 'docs/[a-z-]*\.md')
for file in $documents README.md examples/README.md; do
    [ -e "$work/prefix/share/doc/gpuwire/$file" ] || fail "$file is not installed"
done
DESTDIR=$work/dest "$source/scripts/install.sh" "$build" /opt/gw remove >"$work/remove.out" 2>&1 || fail "removing"
left=$(cd "$work/dest" && find . ! -type d -o -type d -path '*gpuwire*')
[ -z "$left" ] || fail "left: $left"

# The examples, with nothing of the source tree in reach.
mkdir "$work/own" && cp -r "$source/examples" "$work/own"
cd "$work/own" || exit 1
PKG_CONFIG_PATH=$(dirname "$(find "$work/prefix" -name gpuwire.pc)")
libraries=$(dirname "$(find "$work/prefix" -name libgpuwire.so)")
export PKG_CONFIG_PATH GPUWIRE_DEVICE=softnic GPUWIRE_NIC=addr=$net.1
for part in gpuwire gpuwire-softnic gpuwire-model gpuwire-client gpuwire-serve gpuwire-flow gpuwire-collective; do
    [ -e "$libraries/lib$part.so" ] || continue
    echo "#include <gpuwire/$(case $part in gpuwire) echo verbs ;; *) echo "${part#gpuwire-}" ;; esac).h>
int main(void) { return 0; }" >part.c
    # shellcheck disable=SC2046  # the flags are separate words
    cc part.c $(pkg-config --cflags --libs "$part") -o part >"$work/$part.out" 2>&1 || fail "pkg-config $part"
done

programs=(datagram device echo itself launch meet pingpong_kernel ranks)
pairs=(atomics defer fault post_send put_get put_imm send_recv signal ticket together)
mkdir pc
# shellcheck disable=SC2046
cc -c examples/pair.c $(pkg-config --cflags gpuwire) -o pc/pair.o >"$work/pc.out" 2>&1 || fail "pair.c, by pkg-config"
for program in "${programs[@]}" "${pairs[@]}"; do
    sources=(examples/$program.c)
    [[ " ${pairs[*]} " != *" $program "* ]] || sources+=(pc/pair.o)
    # shellcheck disable=SC2046
    cc "${sources[@]}" $(pkg-config --cflags --libs gpuwire) -o "pc/$program" >"$work/pc.out" 2>&1 || fail "$program, by pkg-config"
done
cat >CMakeLists.txt <<END
cmake_minimum_required(VERSION 3.25)
project(own LANGUAGES C)
find_package(gpuwire $version REQUIRED COMPONENTS gpuwire softnic)
foreach(program IN ITEMS ${programs[*]} ${pairs[*]})
  add_executable(\${program} examples/\${program}.c)
  target_link_libraries(\${program} PRIVATE gpuwire::gpuwire)
endforeach()
add_library(pair OBJECT examples/pair.c)
target_link_libraries(pair PRIVATE gpuwire::gpuwire)
foreach(program IN ITEMS ${pairs[*]})
  target_link_libraries(\${program} PRIVATE pair)
endforeach()
add_executable(itself_softnic examples/itself.c)
target_link_libraries(itself_softnic PRIVATE gpuwire::gpuwire gpuwire::softnic)
END
cmake -S . -B by-cmake -G Ninja -DCMAKE_PREFIX_PATH="$work/prefix" >"$work/cmake.out" 2>&1 || fail "find_package"
cmake --build by-cmake >"$work/build.out" 2>&1 || fail "the examples, by find_package"
sed 's/softnic)$/nonsense)/' CMakeLists.txt >wrong.txt && mkdir wrong && mv wrong.txt wrong/CMakeLists.txt
cmake -S wrong -B wrong/b -G Ninja -DCMAKE_PREFIX_PATH="$work/prefix" >"$work/wrong.out" 2>&1 && fail "a component that is not there"
grep -q 'without its part nonsense' "$work/wrong.out" || fail "not which component is missing"

# Each part by itself, and by the other's name.
for part in "$work"/prefix/lib*/cmake/gpuwire/gpuwire-*.cmake "$work"/prefix/lib/*/cmake/gpuwire/gpuwire-*.cmake; do
    part=$(basename "$part" .cmake) && part=${part#gpuwire-}
    [[ $part =~ ^[a-z]+$ ]] && [ "$part" != config ] || continue
    echo "find_package(gpuwire $version REQUIRED COMPONENTS $part)
if(NOT TARGET gpuwire::$part OR NOT gpuwire_${part}_FOUND)
  message(FATAL_ERROR \"no target\")
endif()" >>"$work/parts.txt"
done
[ "$(grep -c find_package "$work/parts.txt")" = "$(find "$work/prefix" -name 'gpuwire*.pc' | wc -l)" ] || fail "not each part has a CMake package"
mkdir parts && { printf 'cmake_minimum_required(VERSION 3.25)\nproject(parts LANGUAGES C)\n' && cat "$work/parts.txt"; } >parts/CMakeLists.txt
cmake -S parts -B parts/b -G Ninja -DCMAKE_PREFIX_PATH="$work/prefix" >"$work/parts.out" 2>&1 || fail "find_package of each part"

for program in pc/itself pc/put_get by-cmake/itself by-cmake/put_get by-cmake/itself_softnic; do
    LD_LIBRARY_PATH=$libraries timeout -k 5 "$patience" "./$program" >"$work/run.out" 2>&1 || fail "$program: exit code $?"
done
info() { timeout -k 5 "$patience" "$work/prefix/bin/gpuwire" info --exec cpu >"$work/info.out" 2>&1; }
info || fail "the installed tool"

# A model as a plug-in: built in both ways, and loaded by the installed tool.
if [ -e "$libraries/libgpuwire-model.so" ]; then
    umask 022
    # shellcheck disable=SC2046
    cc -shared -fPIC -O2 $(pkg-config --cflags gpuwire-model) examples/plugin/affine.c -o pc/model.so >"$work/plugin.out" 2>&1 || fail "the plug-in, by pkg-config"
    cmake -S examples/plugin -B by-plugin -G Ninja -DCMAKE_PREFIX_PATH="$work/prefix" >"$work/plugin.out" 2>&1 || fail "the plug-in, find_package"
    cmake --build by-plugin >"$work/plugin.out" 2>&1 || fail "the plug-in, by find_package"
    for file in pc/model.so by-plugin/model.so; do
        echo '4 2.0 0.5' >"$(dirname "$file")/coefficients.txt"
        timeout -k 5 "$patience" "$work/prefix/bin/gpuwire" check "$file" >"$work/plugin.out" 2>&1 || fail "$file: not loaded"
        grep -q 'runs on the CPU' "$work/plugin.out" || fail "$file: not what it is"
    done
fi

# As Debian's packages are laid out: the libraries in a folder for the processor.
arch=$(cc -print-multiarch)
if [ -n "$arch" ] && [ "$libraries" = "$work/prefix/lib" ]; then
    mkdir "$libraries/$arch" && mv "$libraries"/*.so* "$libraries/$arch" || fail "cannot move the libraries"
    info || fail "the tool does not find the NIC in lib/$arch"
fi
nothing_left
