# SPDX-License-Identifier: Apache-2.0
"""Moves a guest from one QEMU to another, and compares their memories.

qemu_migrate.py image FOLDER                 makes FOLDER/bios and FOLDER/filling
qemu_migrate.py migrate FOLDER URI stopped|running
    FOLDER/from and FOLDER/to are QMP sockets. A stopped guest's memory is registered piece by piece, a running one's at once.
"""
import json
import os
import socket
import sys
import time

MEMORY = 128 << 20


def image(folder):
    """The firmware is the whole guest: it counts, and fills half a megabyte with the count, forever."""
    code = bytes.fromhex(
        "fc31c08ed0bc0070"  # cld; ss:sp = 0:7000
        "b80010"  # ax = 1000, the first segment
        "8ec031ffb90080"  # es = ax; di = 0; cx = 8000
        "5089d8f3ab4358"  # push ax; ax = bx; rep stosw; inc bx; pop ax
        "0500103d009072ea"  # the next segment, below 9000
        "ebe5"  # from the first again
    )
    rom = bytearray(65536)
    rom[: len(code)] = code
    rom[0xFFF0:0xFFF5] = bytes.fromhex("ea000000f0")  # where a processor begins: jump to f000:0
    with open(folder + "/bios", "wb") as f:
        f.write(rom)
    with open(folder + "/filling", "wb") as f:
        f.write(os.urandom(48 << 20))


class Monitor:
    def __init__(self, path):
        while True:  # the caller has a limit
            try:
                self.socket = socket.socket(socket.AF_UNIX)
                self.socket.connect(path)
                break
            except OSError:
                time.sleep(0.05)
        self.lines = self.socket.makefile("r")
        self.lines.readline()
        self("qmp_capabilities")

    def __call__(self, command, **arguments):
        self.socket.sendall(json.dumps({"execute": command, "arguments": arguments}).encode())
        for line in self.lines:
            answer = json.loads(line)
            if "error" in answer:
                raise RuntimeError("%s: %s" % (command, answer["error"]["desc"]))
            if "return" in answer:
                return answer["return"]
        raise RuntimeError("%s: QEMU has ended" % command)


def settled(monitor):
    while True:
        state = monitor("query-migrate")
        if state.get("status") == "completed":
            return state
        if state.get("status") in ("failed", "cancelled"):
            raise RuntimeError("migration: %s" % state)
        time.sleep(0.05)


def memory(monitor, path):
    monitor("pmemsave", val=0, size=MEMORY, filename=path)
    with open(path, "rb") as f:
        content = f.read()
    os.unlink(path)
    return content


def write_begun(monitor, path):
    while True:
        monitor("pmemsave", val=0x10000, size=4096, filename=path)
        with open(path, "rb") as f:
            if any(f.read()):
                return os.unlink(path)


def same(moved, kept, running):
    """QEMU's emulated processors lose track of what a running guest writes. So what it writes is left out then."""
    writes = range(0x6000, 0x90000) if running else range(0)
    wrong = [i for i in range(0, MEMORY, 4096) if i not in writes and moved[i : i + 4096] != kept[i : i + 4096]]
    if wrong:
        at = next(i for i in range(wrong[0], MEMORY) if moved[i] != kept[i])
        got, had = (memory[at : at + 16].hex() for memory in (moved, kept))
        raise RuntimeError("%d pages differ, the first at %#x: %s for %s" % (len(wrong), at, got, had))


def migrate(folder, uri, running):
    ends = target, source = Monitor(folder + "/to"), Monitor(folder + "/from")
    write_begun(source, folder + "/memory")
    if running:
        for end in ends:
            end("migrate-set-capabilities", capabilities=[{"capability": "rdma-pin-all", "state": True}])
    else:
        source("stop")
    target("migrate-incoming", uri=uri)
    source("migrate", uri=uri)
    state = settled(source)["ram"]
    settled(target)
    moved, kept = (memory(end, folder + "/memory") for end in ends)
    with open(folder + "/filling", "rb") as f:
        filling = f.read()
    if kept[16 << 20 : (16 << 20) + len(filling)] != filling or not any(kept[0x10000:0x90000]):
        raise RuntimeError("the source's memory is not what it should be: this proves nothing")
    if not any(moved[0x10000:0x90000]):
        raise RuntimeError("what the guest wrote has not arrived")
    same(moved, kept, running)
    print("running:" if running else "stopped:", state["dirty-sync-count"], "rounds,", state["transferred"] >> 20, "MiB")
    for end in ends:
        end("quit")


if sys.argv[1] == "image":
    image(sys.argv[2])
else:
    migrate(sys.argv[2], sys.argv[3], sys.argv[4] == "running")
