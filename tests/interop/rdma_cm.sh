# SPDX-License-Identifier: Apache-2.0
# Programs that connect through rdma_cm, over the link itself. Sourced by suite.sh.
soft_ip=10.77.0.1
# The path MTU that a client asks for is its port's, and who listens must be able to do with it: larger is refused.
nic=$v4,mtu=4096

# Nothing that could be looked at tells when a server listens at a device. A client is early if it is told that no program does
# (reason 8, ECONNREFUSED); other failures are not tried again.
was_early() { # FILE
    grep -q 'REJECTED, error 8$\|Connection refused' "$1"
}

# A program of ours in softnic's place: it opens the software NIC by itself.
kernel() {
    local seconds=$1
    shift
    GPUWIRE_NIC=$nic exec timeout -k 2 "$seconds" "$@"
}

# cm_server_there NAME "GUEST COMMAND" "SOFTNIC COMMAND": as server_there. $by runs the command that is here.
by=softnic
cm_server_there() {
    wanted "$1" || return 0
    local name=$1 server rc i
    guest "$limit" "$2" >"$work/$name.guest" 2>&1 &
    server=$!
    for ((i = 0; i < 10; i++)); do
        sleep 0.5
        # shellcheck disable=SC2086
        ($by "$limit" $3) >"$work/$name.softnic" 2>&1
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
    $by "$limit" $3 >"$work/$name.softnic" 2>&1 &
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

# A kernel's stream socket here, on CPU threads, and rsockets there; each checks every byte that the other one sends.
by=kernel
peer=${GPUWIRE%/*}/test_socket_peer
streams() { # NAME SIZE ITERATIONS COUNT "RSTREAM OPTIONS" "KERNEL OPTIONS"
    local there="rstream -T v $5 -S $2 -I $3 -C $4" what="$2 $3 $4 $6"
    cm_server_there "$1-to-guest" "$there -p 7480" "$peer client $guest_ip 7480 $what"
    cm_client_there "$1-from-guest" "$there -p 7481 -s $soft_ip" "$peer server $soft_ip 7481 $what"
}
streams kernel-blocking 4096 5 10 "-T b" "block 4"
streams kernel-large 300000 2 2 "-T b" "block 4 65536"
# Direct access: each writes into the other's memory.
rio="riostream -T v -T b -S 10000 -I 3 -C 4"
cm_server_there kernel-direct-to-guest "$rio -p 7482" "$peer rio-client $guest_ip 7482 10000 3 4 block 4"
cm_client_there kernel-direct-from-guest "$rio -p 7483 -s $soft_ip" "$peer rio-server $soft_ip 7483 10000 3 4 block 4"
by=softnic
