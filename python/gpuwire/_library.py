# SPDX-License-Identifier: Apache-2.0
"""Loads gpuwire's shared libraries, and runs their long calls so that Ctrl-C works."""
import ctypes
import os
import pathlib
import threading
from typing import Any, Callable, Dict, List, Optional

from . import errors

_HERE = pathlib.Path(__file__).resolve().parent / "lib"
# In the order in which each needs those before it. libmlx5 is found as the provider that libibverbs looks for.
_VERBS = ("libnl-3.so.200", "libnl-route-3.so.200", "libibverbs.so.1", "libmlx5-*.so", "librdmacm.so.1")
_lock = threading.Lock()
_loaded: Dict[str, ctypes.CDLL] = {}


def _load(path: str, mode: int = ctypes.RTLD_LOCAL) -> ctypes.CDLL:
    try:
        return ctypes.CDLL(path, mode=mode)
    except OSError as error:
        raise errors.NotFound(f"cannot load {path}: {error}; gpuwire needs glibc 2.36 or newer") from None


def _machine_has_verbs() -> bool:
    # libmlx5 first: it draws in the libibverbs that it was made for, so that nothing stays loaded when it is not there.
    try:
        ctypes.CDLL("libmlx5.so.1", mode=ctypes.RTLD_GLOBAL)
        ctypes.CDLL("librdmacm.so.1", mode=ctypes.RTLD_GLOBAL)
        return True
    except OSError:
        return False


def _load_verbs() -> None:
    """RDMA's libraries are the machine's where it has them: they fit its driver. Otherwise they are the wheel's. Both at once
    would be two drivers for one device, so all come from one place."""
    folder = _HERE / "verbs"
    want = os.environ.get("GPUWIRE_VERBS", "")
    if want not in ("", "system", "own"):
        raise errors.Invalid(f"GPUWIRE_VERBS={want}: must be system or own")
    if not folder.is_dir() or (want != "own" and _machine_has_verbs()):
        return
    if want == "system":
        raise errors.NotFound("GPUWIRE_VERBS=system, but libmlx5.so.1 and librdmacm.so.1 are not both installed")
    for pattern in _VERBS:
        for file in folder.glob(pattern):
            _load(str(file), ctypes.RTLD_GLOBAL)


def load(name: str) -> ctypes.CDLL:
    """The library libNAME.so: below GPUWIRE_LIBRARIES if that is set, inside the package, or where the loader looks."""
    with _lock:
        if name in _loaded:
            return _loaded[name]
        if not _loaded:
            _load_verbs()
        folder = pathlib.Path(os.environ.get("GPUWIRE_LIBRARIES") or _HERE)
        file = next((f for f in (folder / f"lib{name}.so.0", folder / f"lib{name}.so") if f.exists()), None)
        _loaded[name] = _load(str(file) if file else f"lib{name}.so.0")
        return _loaded[name]


def declare(lib: ctypes.CDLL, name: str, result: Any, *arguments: Any) -> None:
    """Gives a C function its types, so that a wrong argument is an exception and no crash."""
    function = getattr(lib, name)
    function.restype = result
    function.argtypes = list(arguments)


def last_error() -> str:
    lib = load("gpuwire")
    declare(lib, "gw_last_error", ctypes.c_char_p)
    return lib.gw_last_error().decode("utf-8", "replace")


def check(result: int) -> int:
    """Returns what a C function returned, or raises the exception for its error."""
    if result < 0:
        raise errors.of_errno(result, last_error())
    return result


def interruptible(call: Callable[[], Any], give_up: Optional[Callable[[], None]] = None) -> Any:
    """Runs a C call that may take seconds. Python runs signal handlers on the main thread alone and only between its own
    steps, so the call runs on another thread. An exception on this one (Ctrl-C) calls give_up, and is raised
    when the call has come back."""
    if threading.current_thread() is not threading.main_thread():
        return call()
    result: List[Any] = []
    failed: List[BaseException] = []

    def body() -> None:
        try:
            result.append(call())
        except BaseException as error:  # handed to the caller below
            failed.append(error)

    thread = threading.Thread(target=body, name="gpuwire-call", daemon=True)
    thread.start()
    interrupted: Optional[BaseException] = None
    while thread.is_alive():
        try:
            thread.join(0.1)
        except BaseException as error:
            interrupted = interrupted or error
            if give_up:
                give_up()
    if interrupted:
        raise interrupted
    if failed:
        raise failed[0]
    return result[0]
