#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# UCX, unmodified: it looks for devices in sysfs and in /dev by itself, makes its first contact by datagrams, and goes
# on over RC. Every test of ucx_perftest, through UCP and on the bare transports.
#     test_ucx.sh rc | ud | uct | mlx5
. "$(dirname "$0")/lib.sh"
need ucx_perftest ucx_info
export UCX_LOG_LEVEL=error UCX_WARN_UNUSED_ENV_VARS=n

nic=addr=$net.1
GPUWIRE_NIC=$nic timeout -k 5 "$patience" "${gpuwire[@]}" run -- ucx_info -d >"$work/info.out" 2>&1 || fail "ucx_info"
for transport in rc_verbs ud_verbs rc_mlx5 ud_mlx5; do
    grep -q "Transport: $transport" "$work/info.out" || fail "UCX does not offer $transport"
done

one() { # NAME ARGS...
    local name=$1
    shift
    pair "$name" "$nic" "$nic" ucx_perftest -f "$@"
    awk '/^ *[0-9]+ +[0-9.]+ / { seen = 1 } END { exit !seen }' "$work/$name.client.out" || fail "$name: no result"
}

case $1 in
uct)
    # -x and -d name the transport and the device: nothing else can be used.
    for test in am_lat put_lat "get -D bcopy" "get -D zcopy -s 100000" am_bw put_bw add_lat fadd cswap add_mr; do
        # shellcheck disable=SC2086  # a test's name, and how it moves its bytes
        one "rc-${test// /_}" -x rc_verbs -d mlx5_0:1 -t $test -n 300 -w 30
    done
    for test in am_lat am_bw; do
        one "ud-$test" -x ud_verbs -d mlx5_0:1 -t "$test" -n 300 -w 30
    done
    ;;
mlx5)
    # UCX writes the queues of ConnectX itself, and rings the doorbells. No call reaches the NIC then: its thread has to see it.
    for test in am_lat put_lat "get -D zcopy -s 100000" am_bw put_bw add_lat fadd cswap; do
        # shellcheck disable=SC2086  # a test's name, and how it moves its bytes
        one "rc-${test// /_}" -x rc_mlx5 -d mlx5_0:1 -t $test -n 100 -w 10
    done
    one ud-am_lat -x ud_mlx5 -d mlx5_0:1 -t am_lat -n 100 -w 10
    export UCX_TLS=rc_mlx5,ud_mlx5,self
    for test in tag_lat "tag_bw -s 1000000" ucp_put_bw ucp_get ucp_fadd ucp_cswap "stream_bw -s 1000000" ucp_am_lat; do
        # shellcheck disable=SC2086
        one "${test// /_}" -t $test -n 30 -w 3
    done
    ;;
*)
    export UCX_TLS=$([ "$1" = rc ] && echo rc_verbs,)ud_verbs,self
    for test in tag_lat tag_bw tag_sync_lat tag_sync_bw ucp_put_lat ucp_put_bw ucp_get ucp_add ucp_fadd ucp_swap ucp_cswap \
        stream_bw stream_lat ucp_am_lat ucp_am_bw; do
        one "$test" -t "$test" -s 8 -n 300 -w 30
    done
    for test in tag_bw ucp_put_bw ucp_get stream_bw ucp_am_bw; do
        one "$test-large" -t "$test" -s 1000000 -n 30 -w 3
    done
    ;;
esac
nothing_left
echo ok
