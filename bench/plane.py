#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The balancer's data plane beside DPDK's testpmd in macswap mode, with the same drivers: packets come from a file that
the pcap driver keeps in memory and plays again and again, and what is sent is thrown away.

    bench/plane.py BUILD [ROUNDS]     medians of 5 rounds, in turns, as root

Rates count the seconds that the forwarding thread ran, on processor CORE (1). *whole* packets have all their bytes, which
the driver copies; *headers* have none of the payload. SECONDS (2) is the length of a measurement. Prints in rows: packets
a second of ours and of testpmd, and the ratio. With CSV=FILE MACHINE=NAME it appends the rows to FILE, too.
"""
import os
import pathlib
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

CORE = int(os.environ.get("CORE", "1"))
SECONDS = float(os.environ.get("SECONDS", "2"))
BUFFERS, MEMORY = 300000, 1200  # the file has 262,144 packets


def ours(bench, file, forward):
    out = subprocess.run(["taskset", "-c", str(CORE), bench, "run", file, forward, str(SECONDS)], check=True, timeout=120,
                         stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout
    words = out.split()
    n = dict(zip(words[::2], map(float, words[1::2])))
    if n["forwarded"] < 0.999 * n["received"]:
        sys.exit(f"plane.py: packets were lost: {out}")
    return n["received"] / n["ran_ns"] * 1e3, n["opened"] / n["received"]


def ran_ns(pid):
    """Of the thread that forwards; the other one waits for commands."""
    for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
        if "worker" in (task / "comm").read_text():
            return int((task / "schedstat").read_text().split()[0])
    sys.exit("plane.py: testpmd has no forwarding thread")


class Testpmd:
    def __init__(self, file):
        main = 0 if CORE else 1
        self.p = subprocess.Popen(
            ["stdbuf", "-oL", "dpdk-testpmd", "-l", f"{main},{CORE}", "--main-lcore", str(main), "--no-huge", "-m", str(MEMORY), "--no-pci",
             "--no-shconf", "--no-telemetry", "--vdev", f"net_pcap0,rx_pcap={file},infinite_rx=1", "--", "-i", "--nb-cores=1",
             f"--total-num-mbufs={BUFFERS}", "--forward-mode=macswap", "--port-topology=loop", "--burst=64", "--rxd=1024",
             "--txd=1024"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, bufsize=1)
        self.ask("start", r"macswap packet forwarding")

    def ask(self, command, answer):
        """Its answer, where the pattern has found it; the prompt may come before or after."""
        self.p.stdin.write(command + "\n")
        self.p.stdin.flush()
        text = ""
        while True:
            line = self.p.stdout.readline()
            if not line:
                sys.exit(f"plane.py: testpmd ended: {text[-500:]}")
            text += line
            found = re.search(answer, line)
            if found:
                return found

    def sample(self):
        return int(self.ask("show port stats 0", r"RX-packets: (\d+)")[1]), ran_ns(self.p.pid)

    def rate(self):
        time.sleep(0.5)
        first = self.sample()
        time.sleep(SECONDS)
        last = self.sample()
        self.p.stdin.write("stop\nquit\n")
        self.p.stdin.flush()
        self.p.communicate(timeout=60)
        return (last[0] - first[0]) / (last[1] - first[1]) * 1e3


def add_row(what, mpps, peer):
    """A row for bench/results, where $CSV names a file."""
    if not os.environ.get("CSV"):
        return
    path = pathlib.Path(os.environ["CSV"])
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False).stdout.strip()
    with open(path, "a", encoding="utf-8") as f:
        if not f.tell():
            f.write("row,ours,unit,better,peer,peer_value,ratio,goal,command,machine,date,commit,note\n")
        f.write(f'"{what}",{mpps:.2f},Mpps,more,testpmd macswap,{peer:.2f},,>=0.6x,bench/plane.py BUILD,'
                f'{os.environ.get("MACHINE", "")},{time.strftime("%F")},{commit},\n')


def main():
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    bench, rounds = sys.argv[1] + "/bin/plane_bench", int(sys.argv[2]) if len(sys.argv) == 3 else 5
    if not shutil.which("dpdk-testpmd"):
        print("skipped: dpdk-testpmd is not installed (package dpdk)")
        return
    with tempfile.TemporaryDirectory() as folder:
        for mix in ("campus", "caida"):
            for what in ("whole", "headers"):
                file = f"{folder}/{mix}-{what}.pcap"
                subprocess.run([bench, "write", file, mix, what], check=True)
                rates = {"dr": [], "nat": [], "testpmd": []}
                opened = 0
                for _ in range(rounds):
                    rates["testpmd"].append(Testpmd(file).rate())
                    for forward in ("dr", "nat"):
                        rate, opened = ours(bench, file, forward)
                        rates[forward].append(rate)
                os.unlink(file)
                peer = statistics.median(rates["testpmd"])
                for forward in ("dr", "nat"):
                    mpps = statistics.median(rates[forward])
                    print(f"{mix}, {what} packets, {forward.upper()}: {mpps:.2f} Mpps, testpmd macswap {peer:.2f} Mpps: "
                          f"{mpps / peer:.2f}x ({100 * opened:.1f} of 100 packets open a connection)", flush=True)
                    add_row(f"{mix}, {what} packets, {forward.upper()}", mpps, peer)


main()
