#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Two controllers, three emulated workers and a real etcd, under load. The leader is killed, then etcd is silent for a while,
then a worker is killed: leaders.py GPUWIRE"""
import re
import signal
import time

from fleet import GPUWIRE, run, until

ROW = re.compile(r"^\s+60\s+([\d.]+).*?(\d+)\s+(\d+)\s+(\d+)\s+(\d+)\s+([\d.]+)%", re.M)  # late, failed, refused, lost, kept
AWAY = 12  # seconds: longer than a lease is valid


def main(fleet):
    lists = ",".join(fleet.where)
    workers = [fleet.start(f"w{i}", GPUWIRE, "fleet", "emulate", "--controller", lists, "--models", "3", "--name", f"w{i}") for i in range(3)]
    first, term = until(lambda: fleet.leader(3))
    load = fleet.start("load", GPUWIRE, "load", "resnet50-1", "--fleet", lists, "--deadline", "400ms", "--rate", "60", "--window", "1",
                       "--windows", "17", "--stability", "0.1")
    until(lambda: fleet.table(fleet.where[first])["leases"] > 0)
    time.sleep(0.5)
    # Silence of etcd: the leader knows that it may not lead. It goes on to renew, beyond the end of what was granted.
    fleet.etcd.send_signal(signal.SIGSTOP)
    until(lambda: "may lead no more" in fleet.log(f"c{first}"))
    time.sleep(AWAY)
    silent = fleet.table(fleet.where[first])
    assert silent["frozen"] and silent["leases"] > 0 and sum(w["state"] == "active" for w in silent["workers"]) == 3, silent
    fleet.etcd.send_signal(signal.SIGCONT)
    until(lambda: fleet.leader(3, frozen=False))
    # A worker dies.
    workers[0].kill()
    until(lambda: fleet.leader(2))
    assert load.wait(90) in (0, 1), fleet.log("load")
    late, failed, refused, lost, kept = (float(x) for x in ROW.search(fleet.log("load")).groups()[1:])
    print(f"late {late:g}, failed {failed:g}, refused {refused:g}, lost {lost:g}, kept {kept} %")
    assert failed == 0 and lost <= 30 and kept > 80, fleet.log("load")
    # The leader is stopped, and another one leads, with a larger term and with what was granted. Then the old one finds out.
    first, term = until(lambda: fleet.leader(2, frozen=False))
    fleet.controllers[first].send_signal(signal.SIGSTOP)
    second, later = until(lambda: fleet.leader(2, but=first))
    assert second != first and later > term
    fleet.controllers[first].send_signal(signal.SIGCONT)
    until(lambda: "leads no more" in fleet.log(f"c{first}"))
    return 0


run(main)
