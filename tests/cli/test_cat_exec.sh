#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# test_cat_exec.sh EXEC: gpuwire cat with its kernel there, as server and as client: over TCP and RDMA with one whose kernel is on the CPU, and with
# itself, and over TCP with Python's sockets. Files arrive as they left.
. "${0%/*}/cat_lib.sh"
exec=$1
mine=(timeout -k 5 "$patience" "${gpuwire[@]}" cat --exec "$exec")
cpu=(timeout -k 5 "$patience" "${gpuwire[@]}" cat --exec cpu)
export GPUWIRE_DEVICE=softnic

port=$(free_port)
between tcp_serves wait_listen "${mine[@]}" -l "$net.1" "$port" :: "${cpu[@]}" "$net.1" "$port"
between tcp_asks wait_listen "${cpu[@]}" -l "$net.1" "$port" :: "${mine[@]}" "$net.1" "$port"
between rdma_serves over_rdma "${mine[@]}" --rdma -l "$port" :: "${cpu[@]}" --rdma "$net.1" "$port"
between rdma_asks over_rdma "${cpu[@]}" --rdma -l "$port" :: "${mine[@]}" --rdma "$net.1" "$port"
between rdma_both over_rdma "${mine[@]}" --rdma -l "$port" :: "${mine[@]}" --rdma "$net.1" "$port"
have_python || { echo "no Python 3.8: not with its sockets"; exit 0; }
between python_asks wait_listen "${mine[@]}" -l "$net.1" "$port" :: "$python" "$work/peer.py" connect "$net.1" "$port"
between python_answers wait_listen "$python" "$work/peer.py" listen "$net.1" "$port" :: "${mine[@]}" "$net.1" "$port"

# What is sent comes back, also after the end of the input.
"$python" "$work/peer.py" echo "$net.1" "$port" >"$work/echo.out" 2>&1 &
pids+=($!)
wait_listen "$port" $! || fail 'the echo does not listen'
"${mine[@]}" "$net.1" "$port" <"$work/a" 2>"$work/asks.out" | cmp - "$work/a" || fail 'the echo is not what was said'
echo 'echo: ok'
