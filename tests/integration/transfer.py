# SPDX-License-Identifier: Apache-2.0
"""One end of a transfer between two processes, by a library that serves inference.

transfer.py nixl|mooncake|peercache serve|ask FOLDER ADDRESS
The server has 128 MiB. The client writes the first half, reads the second, and each end compares what it got.
"""
import ctypes
import json
import os
import random
import sys
import time
import types

HALF = 64 << 20
WRITTEN, READ = (random.Random(seed).randbytes(HALF) for seed in (1, 2))


def put(path, content):
    with open(path + ".new", "wb") as f:
        f.write(content)
    os.rename(path + ".new", path)


def get(path):
    while not os.path.exists(path):  # the caller has a limit
        time.sleep(0.02)
    with open(path, "rb") as f:
        return f.read()


def shuffled(n):
    """Offset and length of n pieces of a half, in a random order."""
    pieces = [(i * HALF // n, HALF // n) for i in range(n)]
    random.Random(3).shuffle(pieces)
    return pieces


class Memory:
    def __init__(self, content):
        self.buffer = ctypes.create_string_buffer(content, len(content))
        self.address = ctypes.addressof(self.buffer)

    def check(self, at, expected):
        if ctypes.string_at(self.address + at, len(expected)) != expected:
            raise SystemExit("wrong bytes at %d" % at)


class Nixl:
    def __init__(self, address):
        try:
            import torch  # noqa: F401
        except ImportError:  # nixl asks it for the type of tensors, and does nothing else with it here
            torch = sys.modules["torch"] = types.ModuleType("torch")
            torch.Tensor = type("Tensor", (), {})
        from nixl._api import nixl_agent, nixl_agent_config

        self.name = "end-%d" % os.getpid()
        self.agent = nixl_agent(self.name, nixl_agent_config(backends=["UCX"]))

    def register(self, memory, size):
        self.own = self.agent.register_memory([(memory.address, size, 0, "")], "DRAM")

    def card(self, memory):
        return {"metadata": self.agent.get_agent_metadata().hex(), "address": memory.address}

    def meet(self, card):
        self.address, self.peer = card["address"], self.agent.add_remote_agent(bytes.fromhex(card["metadata"]))

    def move(self, operation, memory, at):
        pieces = shuffled(2048)
        local = self.agent.get_xfer_descs([(memory.address + at + o, n, 0) for o, n in pieces], "DRAM")
        remote = self.agent.get_xfer_descs([(self.address + at + o, n, 0) for o, n in pieces], "DRAM")
        handle = self.agent.initialize_xfer(operation, local, remote, self.peer, b"moved")
        state = self.agent.transfer(handle)
        while state == "PROC":
            state = self.agent.check_xfer_state(handle)
        if state != "DONE":
            raise SystemExit("%s: %s" % (operation, state))
        self.agent.release_xfer_handle(handle)

    def end(self):
        self.agent.deregister_memory(self.own)


class Mooncake:
    def __init__(self, address):
        from mooncake.engine import TransferEngine

        self.engine, self.host = TransferEngine(), address
        if self.engine.initialize(address, "P2PHANDSHAKE", "rdma", ""):
            raise SystemExit("the engine does not start")

    def register(self, memory, size):
        if self.engine.register_memory(memory.address, size):
            raise SystemExit("the memory is not registered")

    def card(self, memory):
        return {"session": "%s:%d" % (self.host, self.engine.get_rpc_port()), "address": memory.address}

    def meet(self, card):
        self.address, self.peer = card["address"], card["session"]

    def move(self, operation, memory, at):
        call = self.engine.transfer_sync_write if operation == "WRITE" else self.engine.transfer_sync_read
        if call(self.peer, memory.address + at, self.address + at, HALF):
            raise SystemExit("%s failed" % operation)

    def end(self):
        pass


class Peercache:
    """It asks for GID index 3 unless told otherwise."""

    def __init__(self, address):
        from peercache.transport import RdmaTransport

        self.transport = RdmaTransport(types.SimpleNamespace(device_name="mlx5_0", ib_port=1, gid_index=3,
                                                             local_hostname=address, rdma_port=23510))

    def register(self, memory, size):
        self.region = self.transport.register_mr(memory.address, size)

    def card(self, memory):
        return {"endpoint": self.transport.local_endpoint(), "address": memory.address, "key": self.region.rkey}

    def meet(self, card):
        self.peer = card

    def move(self, operation, memory, at):
        call = self.transport.batch_write_v if operation == "WRITE" else self.transport.batch_read_v
        pieces = shuffled(512)
        done = call([self.peer["endpoint"]] * len(pieces), [memory.address + at + o for o, _ in pieces],
                    [self.peer["address"] + at + o for o, _ in pieces], [self.peer["key"]] * len(pieces), [n for _, n in pieces])
        if not all(done):
            raise SystemExit("%s: %d of %d failed" % (operation, done.count(False), len(done)))

    def end(self):
        pass


def serve(library, folder, address):
    memory = Memory(bytes(HALF) + READ)
    library.register(memory, 2 * HALF)
    put(folder + "/card", json.dumps(library.card(memory)).encode())
    get(folder + "/done")
    memory.check(0, WRITTEN)
    memory.check(HALF, READ)


def ask(library, folder, address):
    memory = Memory(WRITTEN + bytes(HALF))
    library.register(memory, 2 * HALF)
    library.meet(json.loads(get(folder + "/card")))
    library.move("WRITE", memory, 0)
    library.move("READ", memory, HALF)
    memory.check(0, WRITTEN)
    memory.check(HALF, READ)
    put(folder + "/done", b"")


if __name__ == "__main__":
    which, role, where, address = sys.argv[1:]
    library = {"nixl": Nixl, "mooncake": Mooncake, "peercache": Peercache}[which](address)
    {"serve": serve, "ask": ask}[role](library, where, address)
    library.end()
    print("right")
