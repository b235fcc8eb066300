# SPDX-License-Identifier: Apache-2.0
# What the tests of gpuwire cat share: files in $work/a and $work/b that are to arrive as they left. Sourced.
. "${BASH_SOURCE[0]%/*}/../integration/lib.sh"
head -c 3000001 /dev/urandom >"$work/a"
head -c 1234567 /dev/urandom >"$work/b"

# between NAME WAIT SERVER… :: CLIENT…: the server sends file $there and the client $back, at the same time.
there=$work/a back=$work/b
between() {
    local name=$1 wait=$2 words=()
    shift 2
    while [ "$1" != :: ]; do words+=("$1"); shift; done
    shift
    GPUWIRE_NIC=addr=$net.1 timeout -k 5 "$patience" "${words[@]}" <"$there" >"$work/$name.server" 2>"$work/$name.server.out" &
    local server=$!
    pids+=("$server")
    "$wait" "$port" "$server" || fail "$name: the server does not listen"
    GPUWIRE_NIC=addr=$net.2 timeout -k 5 "$patience" "$@" <"$back" >"$work/$name.client" 2>"$work/$name.client.out" || fail "$name: the client ended with $?"
    wait "$server" || fail "$name: the server ended with $?"
    cmp "$there" "$work/$name.client" || fail "$name: from the server"
    cmp "$back" "$work/$name.server" || fail "$name: to the server"
    echo "$name: ok"
    port=$(free_port)
}
over_rdma() { wait_service "$net.1" "$1" "$2"; }
over_unix() { eventually grep -q "$path" /proc/net/unix; }

# An end that knows nothing of gpuwire: the script below, with listen|connect|echo ADDRESS PORT. echo listens, and says what it
# hears.
cat >"$work/peer.py" <<'PY'
import socket, sys, threading
s = socket.socket()
if sys.argv[1] != "connect":
    s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    s.bind((sys.argv[2], int(sys.argv[3])))
    s.listen(1)
    s = s.accept()[0]
else:
    s.connect((sys.argv[2], int(sys.argv[3])))
if sys.argv[1] == "echo":
    while part := s.recv(100000):
        s.sendall(part)
    sys.exit()
def send():
    s.sendall(sys.stdin.buffer.read())
    s.shutdown(socket.SHUT_WR)
t = threading.Thread(target=send)
t.start()
while part := s.recv(100000):
    sys.stdout.buffer.write(part)
t.join()
PY
have_python() {
    python3 -c 'import sys; sys.exit(sys.version_info < (3, 8))' 2>/dev/null || return 1
    python=$(python3 -c 'import sys; print(sys.executable)')
}
