#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""gpuwire app faceverify faces and enrol: what memcached has afterwards is what a plain reference makes of the aligned pictures."""
import contextlib
import os
import re
import socket
import threading

import rig
import with_numpy  # noqa: F401
import numpy as np
import reference
import png_file


def turn(grey, points, degrees):
    """The picture and the points in it, turned clockwise around its middle."""
    height, width = grey.shape
    c, s, mx, my = np.cos(np.radians(degrees)), np.sin(np.radians(degrees)), (width - 1) / 2, (height - 1) / 2
    y, x = np.mgrid[0:height, 0:width]
    u = np.clip(c * (x - mx) + s * (y - my) + mx, 0, width - 1.001)
    v = np.clip(-s * (x - mx) + c * (y - my) + my, 0, height - 1.001)
    i, j = u.astype(int), v.astype(int)
    a, b = u - i, v - j
    g = grey.astype(float)
    out = (g[j, i] * (1 - a) + g[j, i + 1] * a) * (1 - b) + (g[j + 1, i] * (1 - a) + g[j + 1, i + 1] * a) * b
    return out.round().astype(np.uint8), [(c * (x - mx) - s * (y - my) + mx, s * (x - mx) + c * (y - my) + my) for x, y in points]


def enrol(port, *args):
    return rig.run("enrol", "--memcached", f"127.0.0.1:{port}", *args)


def aligned(port, d):
    """A picture whose eyes are given, scaled, turned: the aligned ones are close to each other."""
    rig.run("faces", d, "--persons", 2, "--views", 1, "--width", 400, "--eyes", "--spread", "0.2")
    saved, histograms = f"{d}/saved.png", {}
    picture = png_file.read(f"{d}/person-0001/1.png")
    x1, y1, x2, y2 = map(float, open(f"{d}/person-0001/1.eyes").read().split())
    height, width = picture.shape
    turned, ((u1, v1), (u2, v2)) = turn(picture, ((x1, y1), (x2, y2)), 20)
    half = picture[:height // 2 * 2, :width // 2 * 2].reshape(height // 2, 2, width // 2, 2).mean((1, 3)).astype(np.uint8)
    kinds = {
        "as it is": (picture, (x1, y1, x2, y2)),
        "the other eye first": (picture, (x2, y2, x1, y1)),
        "half as large": (half, [(v - .5) / 2 for v in (x1, y1, x2, y2)]),
        "turned by 20°": (turned, (u1, v1, u2, v2)),
    }
    for name, (grey, eyes) in kinds.items():
        png_file.write(f"{d}/one.png", grey)
        rc, out, err = enrol(port, "--save", saved, "--eyes", ",".join(map(str, eyes)), "one", f"{d}/one.png")
        rig.check(f"a picture, {name}", rc == 0, out + err)
        histograms[name] = reference.histogram(png_file.read(saved).tobytes())
        rig.check("memcached has its histogram", np.array_equal(reference.fetch(port, b"one"), histograms[name]))
    enrol(port, "two", f"{d}/person-0002/1.png")
    other = reference.distance(reference.fetch(port, b"two"), histograms["as it is"])
    for name, h in histograms.items():
        far = reference.distance(h, histograms["as it is"])
        most = 0 if name == "the other eye first" else 0.7 * other
        rig.check(f"{name}: near", far <= most, f"{far}, another person {other}")
        print(f"     {far:.3f}; another person: {other:.3f}")


def folders(port, d):
    rig.run("faces", f"{d}/all", "--persons", 3, "--views", 3, "--eyes")
    rc, out, err = enrol(port, f"{d}/all")
    rig.check("a folder", rc == 0 and "3 people are enrolled" in out and out.count("eyes at") == 9, out + err)
    each = []
    for view in (1, 2, 3):
        enrol(port, "--save", f"{d}/saved.png", "x", f"{d}/all/person-0002/{view}.png")
        each.append(reference.histogram(png_file.read(f"{d}/saved.png").tobytes()))
    rig.check("the mean of a person's pictures", np.array_equal(reference.fetch(port, b"person-0002"), reference.mean(each)))
    with open(f"{d}/all/person-0003/2.png", "r+b") as f:
        f.truncate(1000)
    rc, out, err = enrol(port, f"{d}/all")
    rig.check("a damaged picture is left out, and told", rc == 1 and "3 people" in out and "2.png: damaged PNG" in err, out + err)
    png_file.write(f"{d}/flat.png", np.full((200, 200), 90, np.uint8))
    rig.refused("no eyes: it asks for them", "--eyes", "enrol", "--memcached", f"127.0.0.1:{port}", "x", f"{d}/flat.png")
    png_file.write(f"{d}/dot.png", np.zeros((1, 1), np.uint8))
    rig.refused("one pixel", "no eyes found", "enrol", "--memcached", f"127.0.0.1:{port}", "x", f"{d}/dot.png")
    png_file.write(f"{d}/wide.png", np.zeros((4, 20000), np.uint8))
    rig.refused("20,000 pixels wide", "wide.png", "enrol", "--memcached", f"127.0.0.1:{port}", "x", f"{d}/wide.png")
    rig.refused("eyes outside", "outside", "enrol", "--memcached", f"127.0.0.1:{port}", "--eyes", "1,1,900,1", "x", f"{d}/flat.png")
    rig.refused("eyes too near", "apart", "enrol", "--memcached", f"127.0.0.1:{port}", "--eyes", "1,1,3,1", "x", f"{d}/flat.png")
    with open(f"{d}/flat.eyes", "w") as f:
        f.write("nonsense")
    rig.refused("a side file that makes no sense", "flat.eyes", "enrol", "--memcached", f"127.0.0.1:{port}", "x", f"{d}/flat.png")


def finder(port, d):
    """Where the eyes are found, against where they were drawn. What is not found is said, never guessed."""
    rig.run("faces", d, "--persons", 6, "--views", 2, "--seed", 7, "--eyes")
    found, wrong = 0, []
    for p in range(1, 7):
        for v in (1, 2):
            path = f"{d}/person-{p:04}/{v}"
            x1, y1, x2, y2 = map(float, open(f"{path}.eyes").read().split())
            os.remove(f"{path}.eyes")
            rc, out, err = enrol(port, "x", f"{path}.png")
            if rc:
                continue
            at = list(map(float, re.search(r"eyes at (\d+),(\d+) and (\d+),(\d+)", out).groups()))
            off = max(np.hypot(at[0] - x1, at[1] - y1), np.hypot(at[2] - x2, at[3] - y2)) / np.hypot(x2 - x1, y2 - y1)
            found += 1
            if off > 0.06:
                wrong.append((path, off))
    rig.check("eyes are found", found >= 10, found)
    rig.check("where they are", not wrong, wrong)


class Lying:
    """A memcached that says one thing to all that connect, and ends the connection if that is None."""

    def __init__(self, says):
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port, self.says = self.listener.getsockname()[1], says
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while True:
            s, _ = self.listener.accept()
            s.recv(100)
            if self.says:
                s.sendall(self.says)
                s.settimeout(5)
                with contextlib.suppress(OSError):
                    while s.recv(1 << 16):
                        pass
            s.close()


def lies():
    for what, says, words in (("is full", b"SERVER_ERROR out of memory storing object\r\n", "out of memory"), ("ends", None, "memcached 127.0.0.1"),
                              ("sends no line", b"x" * 100000, "no line"), ("speaks otherwise", b"HTTP/1.1 400 Bad Request\r\n\r\n", "says: HTTP")):
        rig.refused(f"a memcached that {what}", words, "enrol", "--memcached", f"127.0.0.1:{Lying(says).port}", "--drawn", "--persons", 1, "--views", 1)
    rig.refused("too large a crowd", "pictures are more than", "enrol", "--memcached", "127.0.0.1:1", "--drawn", "--persons", 20000, "--views", 1000)


def calls(port, d):
    at = ["--memcached", f"127.0.0.1:{port}"]
    rig.refused("no memcached", "--memcached", "enrol", "x", "y", code=2)
    rig.refused("eyes that are none", "--eyes", "enrol", *at, "--eyes", "1,2,3", "x", "y", code=2)
    rig.refused("a name with a blank", "no blanks", "enrol", *at, "a b", "y")
    rig.refused("a spread that is none", "--spread", "enrol", *at, "--spread", "x", "x", "y", code=2)
    rig.refused("a memcached that is gone", "cannot connect", "enrol", "--memcached", "127.0.0.1:1", "--drawn", "--persons", 1)
    rig.refused("an empty folder", "no pictures", "enrol", *at, d)
    enrol(port, "--drawn", "--persons", 1, "--views", 1)
    rc, out, err = enrol(port, "--remove", "person-0001")
    rig.check("a person is forgotten", rc == 0 and reference.fetch(port, b"person-0001") is None, out + err)
    rig.refused("only once", "not enrolled", "enrol", *at, "--remove", "person-0001")


rig.need("memcached")
with rig.memcached() as port, rig.folder() as d:
    os.mkdir(f"{d}/empty")
    calls(port, f"{d}/empty")
    aligned(port, f"{d}/aligned")
    folders(port, d)
    finder(port, f"{d}/finder")
    lies()
rig.end()
