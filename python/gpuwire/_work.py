# SPDX-License-Identifier: Apache-2.0
"""A collective that has been started: PyTorch's Work, with a wait that raises, ends in time, and lets Ctrl-C through."""
import datetime
import threading
from typing import Any, List, Optional, Sequence

import torch
from torch._C._distributed_c10d import Work as _Base

from . import errors

_NO_LIMIT = datetime.timedelta(0)


class Work(_Base):
    """PyTorch's own works around futures do not tell errors to who waits for them."""

    def __init__(self, results: Sequence[torch.Tensor]):
        super().__init__()
        self._results = list(results)
        self._error: Optional[BaseException] = None
        self._done = False
        self._lock = threading.Condition()
        self._future: Any = None

    def finish(self, error: Optional[BaseException] = None) -> None:
        """Its end: called once, by who has run it."""
        with self._lock:
            self._error, self._done = error, True
            future = self._future
            self._lock.notify_all()
        if future:
            future.set_result(None)

    def wait(self, timeout: datetime.timedelta = _NO_LIMIT) -> bool:
        limit = timeout.total_seconds()
        with self._lock:
            if not self._lock.wait_for(lambda: self._done, limit if limit > 0 else None):
                raise errors.Timeout(f"gpuwire: the collective has not ended within {limit:g} s; it goes on")
        if self._error:
            raise self._error
        return True

    def get_future(self) -> Any:
        """A future with the result. A future's own set_exception is for Python alone; an exception of a callback reaches
        PyTorch's C++ code, too."""
        with self._lock:
            begun = self._future is not None
            if not begun:
                self._future = torch.futures.Future()
            done = self._done
        if done and not begun:
            self._future.set_result(None)
        return self._future.then(self._outcome)

    def _outcome(self, _: Any) -> List[torch.Tensor]:
        if self._error:
            raise self._error
        return self._results

    def is_completed(self) -> bool:
        return self._done

    def is_success(self) -> bool:
        return self._done and not self._error

    def exception(self) -> Optional[BaseException]:
        return self._error

    def result(self) -> List[torch.Tensor]:
        return self._results

    def synchronize(self) -> None:
        self.wait()

    def source_rank(self) -> int:
        raise errors.Unsupported("gpuwire: only a recv without a source would have a source rank")


class All(Work):
    """Several works as one. It ends when all have ended, with the first error of them."""

    def __init__(self, works: Sequence[Work]):
        super().__init__([tensor for work in works for tensor in work.result()])
        self._works = list(works)

    def wait(self, timeout: datetime.timedelta = _NO_LIMIT) -> bool:
        for work in self._works:
            work.wait(timeout)
        return True

    def get_future(self) -> Any:
        return torch.futures.collect_all([work.get_future() for work in self._works]).then(self._outcome)

    def _outcome(self, futures: Any) -> List[torch.Tensor]:
        for future in futures.value():
            future.value()
        return self._results

    def is_completed(self) -> bool:
        return all(work.is_completed() for work in self._works)

    def is_success(self) -> bool:
        return all(work.is_success() for work in self._works)

    def exception(self) -> Optional[BaseException]:
        return next((work.exception() for work in self._works if work.exception()), None)
