#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""gpuwire app faceverify roc against a plain reference; verify against a server in Python."""
import csv
import re
import xml.dom.minidom

import rig
import with_numpy  # noqa: F401
import numpy as np
import reference
import png_file

PERSONS, VIEWS, ENROLLED = 4, 5, 2


def distances(d, port):
    """Aligns each picture with `enrol --save`; the rest is numpy's."""
    h = {}
    for p in range(1, PERSONS + 1):
        for v in range(1, VIEWS + 1):
            rig.run("enrol", "--memcached", f"127.0.0.1:{port}", "--save", f"{d}/saved.png", "x", f"{d}/all/person-{p:04}/{v}.png")
            h[p, v] = reference.histogram(png_file.read(f"{d}/saved.png").tobytes())
    means = {p: reference.mean([h[p, v] for v in range(1, ENROLLED + 1)]) for p in range(1, PERSONS + 1)}
    genuine, impostor = [], []
    for p in means:
        for (q, v), one in h.items():
            if v > ENROLLED:
                (genuine if p == q else impostor).append(reference.distance(means[p], one))
    return np.array(genuine), np.array(impostor)


def against_reference(d, port):
    rig.run("faces", f"{d}/all", "--persons", PERSONS, "--views", VIEWS, "--eyes")
    genuine, impostor = distances(d, port)
    rc, out, err = rig.run("roc", f"{d}/all", "--enrolled", ENROLLED, "--far", 0.1, "--csv", f"{d}/roc.csv", "--out", f"{d}/roc.svg", "--threshold-to", f"{d}/t")
    rig.check("it runs", rc == 0 and f"{len(genuine)} comparisons with the same person, {len(impostor)} with others" in out, out + err)
    wrong = []
    for row in csv.DictReader(open(f"{d}/roc.csv")):
        t = np.float32(float(row["threshold"]))
        far, frr = (impostor <= t).mean(), (genuine > t).mean()
        if abs(far - float(row["far"])) > 2e-6 or abs(frr - float(row["frr"])) > 2e-6:
            wrong.append((row, far, frr))
    rig.check("every rate is the reference's", not wrong, wrong[:3])
    t = float(open(f"{d}/t").read())
    within = (impostor <= np.float32(t)).mean() <= 0.1 < (impostor <= np.float32(t + 2e-4)).mean()
    rig.check("the threshold is the largest that --far allows", within, (t, sorted(impostor)[:6]))
    least = min((abs((impostor <= x).mean() - (genuine > x).mean()), x) for x in np.concatenate((genuine, impostor)))[1]
    equal = 50 * ((impostor <= least).mean() + (genuine > least).mean())
    rig.check("the equal error rate", f"equal error rate: {equal:.2f} % at {least:.4f}" in out, (equal, least, out))
    rig.check("the picture is XML", xml.dom.minidom.parse(f"{d}/roc.svg").documentElement.tagName == "svg")
    rig.check("a picture of letters", re.search(r"#+ ", out) and re.search(r" o+", out) and "<- threshold" in out, out)


def calls(d):
    rig.refused("no folder", "whose pictures?", "roc", code=2)
    rig.refused("all are enrolled", "smaller --enrolled", "roc", f"{d}/all", "--enrolled", VIEWS)
    rig.refused("a folder that is not there", "nowhere", "roc", f"{d}/nowhere")
    rig.refused("a rate that is none", "--far 2", "roc", "--drawn", "--far", "2", code=2)


def verify(d, port):
    server = reference.Server(port, threshold=0.14)
    at = ["--server", f"127.0.0.1:{server.port}"]
    rig.run("enrol", "--memcached", f"127.0.0.1:{port}", "anna", f"{d}/all/person-0001/1.png")
    rc, out, err = rig.run("verify", "anna", f"{d}/all/person-0001/1.png", *at)
    rig.check("yes", rc == 0 and out.startswith("yes, this is anna: distance 0.0000"), out + err)
    rc, out, err = rig.run("verify", "anna", f"{d}/all/person-0003/1.png", *at)
    rig.check("no", rc == 3 and out.startswith("no, this is not anna"), out + err)
    rc, out, err = rig.run("verify", "berta", f"{d}/all/person-0003/1.png", *at)
    rig.check("a name that is not enrolled", rc == 3 and "no one is enrolled as berta" in out, out + err)
    rig.refused("no server", "cannot connect", "verify", "anna", f"{d}/all/person-0001/1.png", "--server", "127.0.0.1:1")
    for fault in ("garbage", "ends", "busy"):
        wrong = reference.Server(port, fault)
        wrong.answered = {"garbage": 19, "ends": 20, "busy": 9}[fault]
        rc, out, err = rig.run("verify", "anna", f"{d}/all/person-0001/1.png", "--server", f"127.0.0.1:{wrong.port}")
        rig.check(f"a server: {fault}", rc == 1 and not out and err.count("\n") == 1, out + err)
    rig.refused("a name with a blank", "no blanks", "verify", "a b", "x.png", *at, code=2)


rig.need("memcached")
with rig.memcached() as port, rig.folder() as d:
    against_reference(d, port)
    calls(d)
    verify(d, port)
rig.end()
