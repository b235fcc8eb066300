# SPDX-License-Identifier: Apache-2.0
# A kernel that serves programs of the host. Sourced after lib.sh; $1 is test_socket_serve.
serve=$1

# server NAME WHAT AT [BLOCKS]: a kernel that serves there until its input ends.
server() {
    mkfifo "$work/$1.in"
    timeout -k 5 "$patience" "$serve" "$2" "$3" 1 "${4:-1}" <"$work/$1.in" >"$work/$1.out" 2>&1 &
    server=$!
    pids+=("$server")
    exec {input}>"$work/$1.in"
    if [ "${3#/}" != "$3" ]; then
        eventually test -S "$3"
    else
        wait_listen "$3" "$server" || fail "$1: the kernel does not listen"
    fi
}

# end NAME [REQUESTS]: the kernel ends well, and has answered REQUESTS at least.
end() {
    exec {input}>&-
    wait "$server" || fail "$1: the kernel ended with $?"
    local n
    n=$(sed -n 's/ requests//p' "$work/$1.out")
    [ "${n:-0}" -ge "${2:-1}" ] || fail "$1: ${n:-no} requests were answered"
    echo "$1: ok"
}
