#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Every kind of client against every kind of server, all answers checked: test_clients.sh [cpu|gpu].
set -euo pipefail
: "${GPUWIRE:?the gpuwire tool}"
exec=${1:-cpu}
work=$(mktemp -d)
export XDG_RUNTIME_DIR=$work/run CUDA_MODULE_LOADING=EAGER GPUWIRE_DEVICE=softnic
export GPUWIRE_NIC=addr=127.$((RANDOM % 200 + 20)).$((RANDOM % 250 + 1)).1 # an address that no other test has
host=${GPUWIRE_NIC#addr=}
mkdir -m 700 "$XDG_RUNTIME_DIR"
server=
trap '[ -z "$server" ] || kill "$server" 2>/dev/null || true; wait; rm -rf "$work"' EXIT

fail() {
    echo "FAILED: $*" >&2
    exit 1
}

# serve ARGUMENT…: starts a server, whose port is $port then.
serve() {
    : >"$work/said"
    "$GPUWIRE" app matmul serve --exec "$exec" --listen "$host:0" --largest 1024 "$@" >"$work/said" & server=$!
    for _ in {1..600}; do
        port=$(sed -n 's/.* port \([0-9]*\):.*/\1/p' "$work/said")
        [ -z "$port" ] || return 0
        kill -0 "$server" 2>/dev/null || break
        sleep 0.1
    done
    fail "serve $*: it does not listen"
}

# Ends it as Ctrl-C does.
end() {
    local code=0
    kill -INT "$server"
    wait "$server" || code=$?
    server=
    [ "$code" = 130 ] || fail "the server's exit code is $code"
    grep -q ' 0 dropped; 0 requests refused, 0 found no room' "$work/said" || fail "$(cat "$work/said")"
}

load() {
    timeout 120 "$GPUWIRE" app matmul load "$host:$port" --threads 2 "$@" >"$work/out" || fail "load $*: $(cat "$work/out")"
}

ask() {
    timeout 120 "$GPUWIRE" app matmul ask "$host:$port" --exec "$exec" "$@" >"$work/out" || fail "ask $*: $(cat "$work/out")"
    grep -q 'wrong: 0, busy: 0' "$work/out" || fail "ask $*: $(cat "$work/out")"
}

# Ordinary sockets programs over RDMA: librdmacm's preload library gives them rsockets.
preload=$(dirname "$GPUWIRE")/../lib/librspreload.so # in a bundle
[ -e "$preload" ] || preload=$(ldconfig -p | sed -n 's,.*=> \(.*\)/librdmacm.so.1$,\1/rsocket/librspreload.so,p' | head -1)
over_rdma() {
    local client run
    client=$(dirname "$GPUWIRE")/../libexec/gpuwire/gpuwire-app-matmul-client
    if [ ! -e "$preload" ]; then
        echo "librspreload.so is not installed: no client over rsockets"
        return
    fi
    # A sanitizer's runtime must come first.
    run=(env "LD_PRELOAD=${SANITIZER:-}" "$GPUWIRE" run --)
    timeout 120 "${run[@]}" env "LD_PRELOAD=$("${run[@]}" sh -c 'echo "$LD_PRELOAD"'):$preload" "$client" "$host:$port" \
        --threads 2 "$@" >"$work/out" || fail "over rsockets, $*: $(cat "$work/out")"
}

for design in independent daemon; do
    for lanes in 1 4 32; do
        serve --design "$design" --lanes "$lanes" --blocks 4
        for type in fp32 TF32 fp16; do
            for n in 16 64 112 256; do load --size $n --type $type --connections 3 --requests 2 --depth 2; done
        done
        ask --size 80 --lanes "$lanes" --requests 5 --blocks 3
        end
        [ "$exec" = cpu ] || break
    done
    serve --design "$design" --blocks 4
    load --size 1024 --connections 1 --requests 1
    load --size 64 --connections 100 --requests 3 --depth 4
    end
    serve --design "$design" --blocks 4 --rdma --connections 16
    over_rdma --size 96 --connections 5 --requests 3
    over_rdma --size 256 --connections 2 --requests 3 --type fp16 --depth 2
    ask --rdma --size 128 --type TF32 --requests 5
    end
done
serve --blocks 4 --both --connections 16
load --size 96 --connections 3 --requests 3
over_rdma --size 96 --connections 3 --requests 3
end
serve --blocks 4 --proxies 3 --connections 64
load --size 96 --connections 40 --requests 3
end
echo "all clients have right answers"
