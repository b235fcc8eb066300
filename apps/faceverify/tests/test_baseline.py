#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A baseline gives the same replies as the server, so that the comparison is fair. Argument: its program."""
from serve_rig import *


def main():
    memcacheds, port = [Memcached(), Memcached()], free_port()
    servers = ",".join(f"127.0.0.1:{m.port}" for m in memcacheds)
    p = started(subprocess.Popen([sys.argv[1], servers, str(port), "2"], stdout=subprocess.PIPE, text=True))
    assert "listening" in p.stdout.readline()
    names = [b"p%d" % i for i in range(16)]
    for i, name in enumerate(names):
        for m in memcacheds:
            m.set(b"face:" + name, value(name, picture(i)))
    c = Client(port, 60)
    c.send(b"".join(request(n, picture(i + i % 2), i) for i, n in enumerate(names)) + request(b"nobody", picture(0), 99))
    seen = {r.id: r for r in (c.reply() for _ in range(17))}
    for i in range(16):
        want = distance(histogram(picture(i)), histogram(picture(i + i % 2)))
        assert seen[i].distance == want and seen[i].verdict == (MATCH if want <= seen[i].threshold else NO_MATCH), i
    assert seen[99].verdict == UNKNOWN
    wrong = value(b"p0", picture(0))[:-2] + b"\1\1"
    for m in memcacheds:
        m.set(b"face:p0", wrong)
    assert c.ask(b"p0", picture(0)).verdict == UNAVAILABLE


main()
