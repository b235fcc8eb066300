# SPDX-License-Identifier: Apache-2.0
# Programs that connect through rdma_cm, over the link itself. Sourced by suite.sh.
soft_ip=10.77.0.1
# The path MTU that a client asks for is its port's, and who listens must be able to do with it: larger is refused.
nic=$v4,mtu=4096

# Nothing that could be looked at tells when a server listens at a device. A client is early if it is told that nobody
# does (reason 8, ECONNREFUSED); whatever else goes wrong is not tried again.
was_early() { # FILE
    grep -q 'REJECTED, error 8$\|Connection refused' "$1"
}

# cm_server_there NAME "GUEST COMMAND" "SOFTNIC COMMAND": as server_there.
cm_server_there() {
    wanted "$1" || return 0
    local name=$1 server rc i
    guest "$limit" "$2" >"$work/$name.guest" 2>&1 &
    server=$!
    for ((i = 0; i < 10; i++)); do
        sleep 0.5
        # shellcheck disable=SC2086
        (softnic "$limit" $3) >"$work/$name.softnic" 2>&1
        rc=$?
        [ $rc != 0 ] && was_early "$work/$name.softnic" || break
    done
    [ $rc = 0 ] || guest 5 "killall ${2%% *}" >/dev/null
    wait "$server"
    judge "$name" $rc $?
}
cm_client_there() {
    wanted "$1" || return 0
    local name=$1 server rc i
    # shellcheck disable=SC2086
    softnic "$limit" $3 >"$work/$name.softnic" 2>&1 &
    server=$!
    pids+=("$server")
    for ((i = 0; i < 10; i++)); do
        sleep 0.5
        guest "$limit" "$2" >"$work/$name.guest" 2>&1
        rc=$?
        [ $rc != 0 ] && was_early "$work/$name.guest" || break
    done
    [ $rc = 0 ] || kill "$server" 2>/dev/null
    wait "$server"
    judge "$name" $? $rc
}

cm_server_there rping-to-guest "rping -s -a $guest_ip -C 20 -V" "rping -c -a $guest_ip -C 20 -V"
cm_client_there rping-from-guest "rping -c -a $soft_ip -C 20 -V" "rping -s -a $soft_ip -C 20 -V"
cm_server_there rstream-to-guest "rstream -T r -S 4096 -C 50" "rstream -s $guest_ip -T r -S 4096 -C 50"
cm_client_there rstream-from-guest "rstream -s $soft_ip -T r -S 4096 -C 50" "rstream -T r -S 4096 -C 50"
