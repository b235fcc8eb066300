#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A NIC runs in a user namespace without a map, where its own user and every stranger have the same number. A stranger
# asks its control socket, and connects to its memory channel.
. "$(dirname "$0")/lib.sh"
in_own_net "$0" "$@"
PATH=/usr/bin:/bin:$PATH # a stranger cannot run what lies in root's home
need python3 ibv_rc_pingpong
readable_tool
unshare --user true 2>/dev/null || { echo "skipped: this system makes no user namespace"; exit 77; }

port=$(free_port)
as_neighbour unshare --user "${gpuwire[@]}" run -- ibv_rc_pingpong -g 0 -p "$port" >"$work/victim.out" 2>&1 &
victim=$!
pids+=("$victim")
wait_listen "$port" "$victim" || fail "the victim does not start"

as_stranger python3 - <<'PYTHON' || fail "a stranger got in"
import contextlib, re, socket, sys

def names(pattern):
    with open("/proc/net/unix") as f:
        return sorted(set(re.findall("@(" + pattern + ")$", f.read(), re.M)))

def connect(name, kind):
    s = socket.socket(socket.AF_UNIX, kind)
    s.settimeout(30)
    s.connect("\0" + name)
    return s

bad = 0
control = names("gpuwire-nic-.*")
if not control:
    sys.exit("the victim has no control socket to attack")
for name in control:
    for request in "show", "fault loss=100%":
        s = connect(name, socket.SOCK_STREAM)
        answer = b""
        with contextlib.suppress(BrokenPipeError):  # it is refused before it asks
            s.sendall(request.encode() + b"\n")
        with contextlib.suppress(ConnectionResetError):
            while part := s.recv(65536):
                answer += part
        print(f"{request}: {answer[:100]!r}")
        bad |= b"qps" in answer or b"faults" in answer
        bad |= b"another user" not in answer  # the line that says why
for name in names("gpuwire/65534/[0-9a-f]{32}/[0-9]+"):
    s = connect(name, socket.SOCK_SEQPACKET)
    s.settimeout(3)
    try:
        bad |= s.recv(100) != b""
    except TimeoutError:
        print(f"{name}: lets a stranger say hello")
        bad = 1
sys.exit(bad)
PYTHON
kill -0 "$victim" || fail "the victim died of it"
echo "the stranger was refused"
