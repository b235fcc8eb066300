# SPDX-License-Identifier: Apache-2.0
"""How the ranks of a group meet: rank 0 listens, and the others read its address in PyTorch's store."""
import ctypes
import datetime
import os
import secrets
import socket
import time
from typing import Any, Optional, Tuple

from . import _collective_abi as abi
from . import errors
from ._library import check

_ADDRESS = "GPUWIRE_RENDEZVOUS_ADDRESS"
_KEY = "gpuwire"  # in the store, which is the group's own
_LEAVE_NS = 5_000_000_000


def _route_to(host: str) -> Optional[str]:
    """This host's address on the way to another. No packet is sent."""
    try:
        family, kind, protocol, _, where = socket.getaddrinfo(host, 9, type=socket.SOCK_DGRAM)[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.connect(where)
            return str(probe.getsockname()[0])
    except OSError:
        return None


def _own_address(store: Any) -> str:
    """Where the other ranks reach this one: the address on the way to the store's host, which all of them reach."""
    if os.environ.get(_ADDRESS):
        return os.environ[_ADDRESS]
    while hasattr(store, "underlying_store"):
        store = store.underlying_store
    for host in (getattr(store, "host", None), os.environ.get("MASTER_ADDR"), socket.gethostname()):
        address = _route_to(host) if host else None
        if address:
            return address
    return "127.0.0.1"


class Ranks:
    """The ranks of a group, when they have met. From then on each learns of the death of others."""

    def __init__(self, store: Any, rank: int, size: int, deadline: int):
        self.rank = rank
        self.size = size
        self.name: str
        """Tells this group from the process's others."""
        self.handle = ctypes.c_void_p()
        attr = abi.RanksAttr(how=abi.RANKS_PLAIN, rank=rank, size=size)
        if rank == 0:
            listener, where = _listen(store, size)
            self.name, secret = secrets.token_hex(4), secrets.token_hex(24)
            store.set(_KEY, f"{where} {self.name} {secret}")
            attr.listener = 1 + listener.detach()
        else:
            where, self.name, secret = _look_up(store, deadline).split()
        attr.rendezvous, attr.secret = where.encode(), secret.encode()
        check(abi.library().gw_ranks_join(ctypes.byref(attr), deadline, ctypes.byref(self.handle)))

    def leave(self) -> None:
        """When nothing uses them any more. Rank 0 waits some seconds for the others, which need it."""
        if self.handle:
            abi.library().gw_ranks_leave(self.handle, time.monotonic_ns() + _LEAVE_NS)
            self.handle.value = None


def _listen(store: Any, size: int) -> Tuple[socket.socket, str]:
    address = _own_address(store)
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        listener = socket.create_server((address, 0), family=family, backlog=size)
    except OSError as error:
        raise errors.Invalid(f"gpuwire: {address}: cannot listen there: {error.strerror}; set {_ADDRESS} to an address of this "
                             "host that the other ranks reach", error.errno) from None
    port = listener.getsockname()[1]
    return listener, f"[{address}]:{port}" if ":" in address else f"{address}:{port}"


def _look_up(store: Any, deadline: int) -> str:
    left = datetime.timedelta(seconds=max(0.001, (deadline - time.monotonic_ns()) / 1e9))
    try:
        store.wait([_KEY], left)
    except RuntimeError:
        raise errors.Timeout("gpuwire: rank 0 of the group has not come: it is dead, or calls something else") from None
    return str(store.get(_KEY).decode())
