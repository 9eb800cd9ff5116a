"""Signals that ask a process to stop, passed on to the one that does its work."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Callable, Iterator


@contextlib.contextmanager
def passing_on(send: Callable[[int], object]) -> Iterator[None]:
    """Hands the signals that ask this process to stop to `send`, for which it may be too late."""

    def handle(signum: int, _: object) -> None:
        with contextlib.suppress(OSError):
            send(signum)

    handlers = {signum: signal.signal(signum, handle) for signum in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for signum, handler in handlers.items():
            signal.signal(signum, handler)
