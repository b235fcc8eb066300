#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The leader is cut off from etcd, and from nothing else. Another one leads, and a client that knows only the old one's address
goes on with the new one: cut.py GPUWIRE"""
import re
import time

from fleet import GPUWIRE, run, until

ROW = re.compile(r"^\s+60\s+([\d.]+).*?(\d+)\s+(\d+)\s+(\d+)\s+(\d+)\s+([\d.]+)%", re.M)  # late, failed, refused, lost, kept


def main(fleet):
    fleet.start("w", GPUWIRE, "fleet", "emulate", "--etcd", fleet.url, "--models", "3", "--workers", "2")
    first, term = until(lambda: fleet.leader(2))
    load = fleet.start("load", GPUWIRE, "load", "resnet50-1", "--fleet", fleet.where[first], "--deadline", "400ms", "--rate", "60",
                       "--window", "1", "--windows", "5", "--stability", "0.1")
    until(lambda: fleet.table(fleet.where[first])["leases"] > 0)
    time.sleep(0.5)
    assert fleet.moves(f"c{first}")
    fleet.wires[first].whole.clear()
    second, later = until(lambda: (found := fleet.leader(2, but=first)) and found[0] != first and found)
    assert later > term
    until(lambda: "leads no more" in fleet.log(f"c{first}"))
    moved = until(lambda: (t := fleet.table(fleet.where[second])) and t["clients"] and t["leases"] and t)
    assert moved["term"] == later, moved
    assert moved["places_in_etcd"] == sum(w["models"] for w in moved["workers"]) > 0, moved
    assert load.wait(60) in (0, 1), fleet.log("load")
    late, failed, refused, lost, kept = (float(x) for x in ROW.search(fleet.log("load")).groups()[1:])
    print(f"late {late:g}, failed {failed:g}, refused {refused:g}, lost {lost:g}, kept {kept} %")
    assert failed == 0 and lost <= 30 and kept > 80, fleet.log("load")
    # The new leader found all where it was.
    assert not fleet.moves(f"c{second}"), fleet.moves(f"c{second}")
    # The wire is whole again: the old one stands by, and sends its peers to the new one.
    fleet.wires[first].whole.set()
    time.sleep(0.5)
    assert fleet.table(fleet.where[first])["controller"] == f"c{second}"
    return 0


run(main, wires=True)
