# SPDX-License-Identifier: Apache-2.0
# Programs that connect through rdma_cm, over the link itself. Sourced by suite.sh.
soft_ip=10.77.0.1 soft_ip6=fd77::1
nic=$v4,mtu=1024

# cm_server_there NAME "GUEST COMMAND" "SOFTNIC COMMAND": as server_there, but a server listens at the device, and there is
# no looking whether it does: it is given a moment, and the client another try.
cm_server_there() {
    local name=$1 server rc try
    guest "$limit" "$2" >"$work/$name.guest" 2>&1 &
    server=$!
    for try in 1 2 3; do
        sleep 1
        # shellcheck disable=SC2086
        (softnic "$limit" $3) >"$work/$name.softnic" 2>&1
        rc=$?
        [ $rc = 0 ] && break
    done
    [ $rc = 0 ] || guest 5 "killall ${2%% *}" >/dev/null
    wait "$server"
    judge "$name" $rc $?
}
cm_client_there() {
    local name=$1 server rc try
    # shellcheck disable=SC2086
    softnic "$limit" $3 >"$work/$name.softnic" 2>&1 &
    server=$!
    pids+=("$server")
    for try in 1 2 3; do
        sleep 1
        guest "$limit" "$2" >"$work/$name.guest" 2>&1
        rc=$?
        [ $rc = 0 ] && break
    done
    [ $rc = 0 ] || kill "$server" 2>/dev/null
    wait "$server"
    judge "$name" $? $rc
}

if (softnic 5 rping -s -a $soft_ip -C 1) 2>&1 | grep -q 'No such device\|No RDMA devices\|rdma_create_event_channel'; then
    say "no rdma_cm in this build: rping and rstream are left out"
else
    cm_server_there rping-to-guest "rping -s -a $guest_ip -C 20 -V" "rping -c -a $guest_ip -C 20 -V"
    cm_client_there rping-from-guest "rping -c -a $soft_ip -C 20 -V" "rping -s -a $soft_ip -C 20 -V"
    cm_server_there rstream-to-guest "rstream -T r -S 4096 -C 50" "rstream -s $guest_ip -T r -S 4096 -C 50"
    cm_client_there rstream-from-guest "rstream -s $soft_ip -T r -S 4096 -C 50" "rstream -T r -S 4096 -C 50"
fi
