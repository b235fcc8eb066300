# SPDX-License-Identifier: Apache-2.0
"""What can go wrong. Every exception carries one line that says what failed, on what, and what to do."""
import errno as _errno
from typing import Dict, Optional, Type


class Error(Exception):
    """A call failed. `errno` is the positive error number of the C library, or None."""

    def __init__(self, line: str, errno: Optional[int] = None):
        super().__init__(line)
        self.errno = errno


class NotFound(Error):
    """There is no such model, file or library."""


class Invalid(Error, ValueError):
    """An argument does not fit: a shape, an element type, a name, a number of rows."""


class Unsupported(Error):
    """The request is valid, but something here cannot do it. The line names what, and the kernel or node."""


class Busy(Error):
    """All sessions or slots are taken. Ask again later."""


class Disconnected(Error, ConnectionError):
    """The server cannot be reached, or it has gone. Close the client."""


class Timeout(Error, TimeoutError):
    """No answer came in time. The request may still be answered: ask its Future again."""


class Late(Error):
    """The server refused at once, because the answer would have come after the request's deadline."""


class Closing(Error):
    """The model is being stopped or replaced. Ask again later, or elsewhere."""


class ModelFailed(Error):
    """The model failed on this request. The server's log says why."""


_BY_ERRNO: Dict[int, Type[Error]] = {
    _errno.ENOENT: NotFound,
    _errno.EINVAL: Invalid,
    _errno.E2BIG: Invalid,
    _errno.ENOTSUP: Unsupported,
    _errno.ENODEV: Unsupported,
    _errno.EBUSY: Busy,
    _errno.ECONNREFUSED: Disconnected,
    _errno.ECONNRESET: Disconnected,
    _errno.ECONNABORTED: Disconnected,
    _errno.ENOTCONN: Disconnected,
    _errno.EHOSTUNREACH: Disconnected,
    _errno.EPIPE: Disconnected,
    _errno.EIO: Disconnected,
    _errno.ETIMEDOUT: Timeout,
    _errno.ETIME: Late,
    _errno.ESHUTDOWN: Closing,
    _errno.EREMOTEIO: ModelFailed,
}


def of_errno(error: int, line: str) -> Error:
    """The exception for a C function's negative result."""
    return _BY_ERRNO.get(-error, Error)(line, -error)
