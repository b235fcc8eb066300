#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# perftest's programs, unmodified: the rows of perftest.txt. test_perftest.sh [plain|unkind] [ROWS' PATTERN]
. "${0%/*}/lib.sh"
need ib_atomic_lat ib_atomic_bw ib_write_lat ib_write_bw ib_send_lat ib_send_bw ib_read_lat ib_read_bw
own_files /tmp/xrc_domain_server /tmp/xrc_domain_client
fast_perftest
case ${1:-plain} in
plain) extra= n=200 ;;
unkind) extra=,$unkind,seed=$RANDOM n=60 ;;
esac
nic=addr=$net.1$extra
rows=0
while read -r lossy row; do
    [[ $lossy = \#* || -n $extra && $lossy = no || -z $extra && $lossy = only || $row != *${2:-}* ]] && continue
    row=${row//\{n\}/$n}
    set -- ${1:-plain} "${2:-}" $row
    pair "$3" "$nic" "$nic" "${@:3}" -F -d mlx5_0 <&-
    grep -q '#bytes' "$work/$3.client.out" || fail "$row: no result"
    rows=$((rows + 1))
done <"${0%/*}/perftest.txt"
[ $rows -gt 0 ] || fail "no row matches"
nothing_left
echo "ok: $rows rows"
