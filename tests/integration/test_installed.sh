#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The tutorial, by its letter: both ping-pongs as it says that they are run, and its end, a program of one's own against the
# library that is installed, with the very commands. $1: the build, $2: the sources.
. "$(dirname "$0")/lib.sh"
build=$1 source=$2
need cmake pkg-config cc
tutorial=$source/docs/tutorial.md

# quoted WORD: the commands of the first block of the tutorial that has the word in it.
quoted() { awk -v word="$1" '/^```/ { if (inside && found) exit; inside = !inside; text = ""; found = 0; next }
    inside { text = text $0 "\n"; if (index($0, word)) found = 1 } END { if (found) printf "%s", text }' "$tutorial"; }
# both NAME WAITS ASKS ADDRESS PORT ROUNDS: the tutorial's two terminals.
both() {
    local name=$1 waits=$2 asks=$3 server
    printf '%s\n' "$waits" | grep -q "$5" && printf '%s\n' "$asks" | grep -q "$4" || fail "$name: the tutorial's commands are not there"
    (cd "$work/tree" && timeout -k 5 "$patience" bash -ec "$waits") >"$work/$name.server.out" 2>&1 &
    server=$!
    pids+=("$server")
    wait_service "$4" "$5" "$server" || fail "$name: the one that waits does not"
    (cd "$work/tree" && timeout -k 5 "$patience" bash -ec "$asks") >"$work/$name.client.out" 2>&1 || fail "$name: exit code $?"
    wait "$server" || fail "$name: the one that waits ended with $?"
    [ "$(sort -u "$work/$name.server.out" "$work/$name.client.out")" = "$6" ] || fail "$name: not what the tutorial promises"
}
mkdir "$work/tree" && ln -s "$build" "$work/tree/build"
# At an address that no other test has.
here() { sed "s/127\.0\.0\.1/$net.1/g"; }
both ibv "$(quoted 'example_pingpong_ibv 18515' | here)" "$(quoted 'example_pingpong_ibv 18515 127.0.0.1' | here)" "$net.1" 18515 \
    '1000 round trips'
both kernel "$(quoted 'example_pingpong_kernel cpu 18515' | here)" "$(quoted 'example_pingpong_kernel cpu 18515 127.0.0.1' | here)" \
    "$net.1" 18515 '1000 round trips on cpu, 1 lane'

# Installed, and nothing of the source tree in reach but the example itself.
cmake --install "$build" --prefix "$work/prefix" >"$work/install.out" 2>&1 || fail "installing"
mkdir "$work/own"
for e in c h cu; do sed 's,"examples/,",' "$source/examples/pingpong_kernel.$e" >"$work/own/NAME.$e"; done
sed -i 's/pingpong_kernel\.h/NAME.h/' "$work"/own/NAME.*
cd "$work/own" || exit 1
PKG_CONFIG_PATH=$(dirname "$(find "$work/prefix" -name gpuwire.pc)")
LD_LIBRARY_PATH=$(dirname "$(find "$work/prefix" -name libgpuwire.so)")
export PKG_CONFIG_PATH LD_LIBRARY_PATH GPUWIRE_DEVICE=softnic GPUWIRE_NIC=addr=$net.2
quoted 'cc NAME.c' | grep -q . || fail "the tutorial does not say how a program is built"
bash -ec "$(quoted 'cc NAME.c')" >"$work/cc.out" 2>&1 || fail "a program of one's own"
timeout -k 5 "$patience" ./NAME cpu 18516 >"$work/own.server.out" 2>&1 &
server=$!
pids+=("$server")
wait_service "$net.2" 18516 "$server" || fail "the program does not wait"
timeout -k 5 "$patience" ./NAME cpu 18516 "$net.2" >"$work/own.client.out" 2>&1 || fail "the program: exit code $?"
wait "$server" || fail "the program that waits ended with $?"

export PATH=$PATH:/usr/local/cuda/bin
if command -v nvcc >/dev/null; then
    rm NAME
    bash -ec "$(quoted 'nvcc -c NAME.cu')" >"$work/nvcc.out" 2>&1 || fail "a program of one's own, for a GPU"
    ./NAME cpu >"$work/usage.out" 2>&1
    grep -q '^usage: ./NAME cpu|gpu PORT' "$work/usage.out" || fail "the program for a GPU does not start"
fi

# Each mistake is a line.
wrong() { # WORD ARGS…
    local word=$1
    shift
    timeout -k 5 "$patience" "$@" >"$work/wrong.out" 2>&1 && fail "$*: no error"
    grep -q -- "$word" "$work/wrong.out" && [ "$(wc -l <"$work/wrong.out")" = 1 ] || fail "$*"
}
unset LD_LIBRARY_PATH
ibv=("$GPUWIRE" run -- "$build/bin/example_pingpong_ibv")
wrong 'usage: ' "$build/bin/example_pingpong_kernel" cpu
wrong "no executor named 'tpu'" "$build/bin/example_pingpong_kernel" tpu 18515
for port in abc 0 99999 -1; do
    wrong "port $port: must be a number from 1 to 65535" "$build/bin/example_pingpong_kernel" cpu $port
    wrong "port $port: must be a number from 1 to 65535" "${ibv[@]}" $port
done
wrong 'no program listens' "$build/bin/example_pingpong_kernel" cpu 18517 "$net.2"
wrong 'no..host, port 18515: no such address' "${ibv[@]}" 18515 no..host
nothing_left
