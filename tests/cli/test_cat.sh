#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# test_cat.sh ECHO_CPU: gpuwire cat against itself, and against programs that know nothing of it: nc, socat and Python over TCP and UNIX
# sockets, ordinary sockets programs under librdmacm's preload library over RDMA. Files arrive as they left.
. "${0%/*}/cat_lib.sh"
echo_cpu=$1
cat=(timeout -k 5 "$patience" "${gpuwire[@]}" cat)
preload=$(ldconfig -p | sed -n 's,.*=> \(.*\)/librdmacm.so.1$,\1/rsocket/librspreload.so,p' | head -1)
soft=$("${gpuwire[@]}" run -- sh -c 'echo "$LD_PRELOAD"')
rsocket=("${gpuwire[@]}" run -- env "LD_PRELOAD=$soft:$preload")

port=$(free_port)
between tcp wait_listen "${cat[@]}" -l "$net.1" "$port" :: "${cat[@]}" "$net.1" "$port"
between rdma over_rdma "${cat[@]}" --rdma -l "$port" :: "${cat[@]}" --rdma "$net.1" "$port"
path=$work/unix
between unix over_unix "${cat[@]}" -l -U "$path" :: "${cat[@]}" -U "$path"
[ -e "$path" ] && fail 'the name of a UNIX socket is left'
# nc ends when it has heard all, even if it has not said all: it only listens.
if command -v nc >/dev/null && nc -h 2>&1 | grep -q -- '-N'; then
    back=/dev/null between nc_asks wait_listen "${cat[@]}" -l "$net.1" "$port" :: nc -N "$net.1" "$port"
    there=/dev/null back=$work/b between nc_answers wait_listen nc -N -l "$net.1" "$port" :: "${cat[@]}" "$net.1" "$port"
fi
if command -v socat >/dev/null; then
    between socat_asks over_unix "${cat[@]}" -l -U "$path" :: socat -t 30 - "UNIX-CONNECT:$path"
    between socat_answers over_unix socat -t 30 - "UNIX-LISTEN:$path" :: "${cat[@]}" -U "$path"
    between socat_tcp wait_listen socat -t 30 - "TCP-LISTEN:$port,reuseaddr" :: "${cat[@]}" "$net.1" "$port"
fi
if have_python; then
    between python_asks wait_listen "${cat[@]}" -l "$net.1" "$port" :: "$python" "$work/peer.py" connect "$net.1" "$port"
    between python_answers wait_listen "$python" "$work/peer.py" listen "$net.1" "$port" :: "${cat[@]}" "$net.1" "$port"
fi
# Over RDMA socat can ask but not listen (nor with itself): under the preload library it never accepts. nc and Python ask for sockets with flags
# that make that library leave them to the kernel.
if command -v socat >/dev/null && [ -e "$preload" ] && [ -z "${SANITIZER:-}" ]; then
    between rsocket_asks over_rdma "${cat[@]}" --rdma -l "$port" :: "${rsocket[@]}" socat -t 60 - "TCP:$net.1:$port"
fi

# Half of a connection: the end of the input is told, and the answers still come.
# echoes NAME WAIT MODE COMMAND…
echoes() {
    local name=$1 wait=$2 mode=$3
    shift 3
    GPUWIRE_NIC=addr=$net.1 timeout -k 5 "$patience" "$@" "$port" >"$work/$name.server.out" 2>&1 &
    pids+=($!)
    "$wait" "$port" $! || fail "$name: the echo does not listen"
    GPUWIRE_NIC=addr=$net.2 "${cat[@]}" "$mode" "$net.1" "$port" <"$work/a" | cmp - "$work/a" || fail "$name: the echo is not what was said"
    echo "$name: ok"
    port=$(free_port)
}
echoes echo_tcp wait_listen --tcp "$echo_cpu"
if [ -e "$preload" ] && [ -z "${SANITIZER:-}" ]; then echoes echo_rdma over_rdma --rdma "${rsocket[@]}" "$echo_cpu"; fi

# fails NAME CODE TEXT COMMAND…: one line with that text, and that exit code.
fails() {
    local name=$1 code=$2 text=$3 rc
    shift 3
    GPUWIRE_NIC=addr=$net.2 timeout -k 5 "$patience" "$@" </dev/null >"$work/$name.stdout" 2>"$work/$name.out"
    rc=$?
    [ $rc = "$code" ] || fail "$name: exit code $rc, not $code"
    grep -q -- "$text" "$work/$name.out" || fail "$name: does not say '$text'"
    [ "$(wc -l <"$work/$name.out")" = 1 ] || fail "$name: not one line"
}
fails refused 1 'Connection refused' "${cat[@]}" "$net.2" "$port"
fails refused_rdma 1 'Connection refused' "${cat[@]}" --rdma "$net.2" "$port"
fails refused_unix 1 'No such file' "${cat[@]}" -U "$work/nobody"
fails waited 1 'no peer has connected within 1 s' "${cat[@]}" -w 1 -l "$port"
fails no_name 1 'no.such.name.invalid' "${cat[@]}" no.such.name.invalid "$port"
fails no_port 2 'a port must follow the host' "${cat[@]}" "$net.2"
fails nothing 2 'a host and a port are missing' "${cat[@]}"
fails bad_port 2 'PORT 70000' "${cat[@]}" "$net.2" 70000
fails too_many 2 'extra: not understood' "${cat[@]}" "$net.2" 80 extra
fails bad_option 2 'no such option' "${cat[@]}" --no-such "$net.2" 80
fails bad_exec 2 'one of auto, cpu, gpu' "${cat[@]}" --exec fpga "$net.2" 80
fails unix_rdma 2 'a UNIX socket has no RDMA' "${cat[@]}" --rdma -U "$work/x"

# Ctrl-C, while it waits for a connection and while it has one.
for mode in listen connected; do
    "${gpuwire[@]}" cat -l "$net.1" "$port" </dev/zero >/dev/null 2>"$work/interrupted.out" &
    one=$!
    pids+=("$one")
    wait_listen "$port" "$one" || fail "$mode: does not listen"
    [ $mode = connected ] && { sleep 30 | "${gpuwire[@]}" cat "$net.1" "$port" >/dev/null 2>&1 & pids+=($!); sleep 0.5; }
    kill -INT "$one"
    wait "$one"
    [ $? = 130 ] || fail "$mode: Ctrl-C"
    port=$(free_port)
done

# The output has no reader any more.
"${cat[@]}" -l "$net.1" "$port" </dev/zero >/dev/null 2>&1 &
pids+=($!)
wait_listen "$port" $! || fail 'does not listen'
{ "${cat[@]}" "$net.1" "$port" </dev/null 2>"$work/pipe.out"; echo $? >"$work/pipe.rc"; } | head -c 10 >/dev/null
[ "$(cat "$work/pipe.rc")" = 1 ] || fail "a broken pipe: exit code $(cat "$work/pipe.rc")"
grep -q 'standard output: Broken pipe' "$work/pipe.out" || fail 'a broken pipe is not named'
echo 'ends and errors: ok'
