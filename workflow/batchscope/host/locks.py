"""Lock files; the system releases a lock when its process ends."""

import contextlib
import fcntl
import os
import socket
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from batchscope.core.errors import UserError

TIMEOUT_SECONDS = 10.0  # a killed process may take a moment to end and release its lock


def take(path: Path | str) -> int | None:
    """Create and lock a file; return its descriptor, or None if another process holds it.

    Raises:
        OSError: If the file cannot be made, or its file system has no locks.
    """
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        with contextlib.ExitStack() as stack:
            stack.callback(os.close, descriptor)
            try:
                # Unlike `flock`, most shared file systems pass this lock between nodes.
                fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except (BlockingIOError, PermissionError):
                return None
            # The last holder may have removed the file between the two calls above.
            with contextlib.suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(descriptor), os.stat(path)):
                    stack.pop_all()
                    return descriptor


@contextlib.contextmanager
def lock(path: Path, task: str, seconds: float = TIMEOUT_SECONDS) -> Iterator[None]:
    """Hold a lock file inside the block and remove it afterwards.

    If the file system has no locks, print that and run the block without a lock.

    Args:
        task: Verb phrase for messages, such as `train this run`.

    Raises:
        UserError: If another process holds the file for longer than `seconds`.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    end = time.monotonic() + seconds
    try:
        while (descriptor := take(path)) is None:
            if time.monotonic() > end:
                raise UserError(
                    f"{path.parent}: received a second process that would {task}; one at a time is "
                    f"expected. Wait until {_holder(path)} has ended, or end it, and run again."
                )
            time.sleep(0.1)
    except OSError as error:
        print(f"{path}: no lock ({error}); see that no other process can {task}.", file=sys.stderr)
        yield
        return
    try:
        with contextlib.suppress(OSError):  # a full disk; only messages need the text
            os.ftruncate(descriptor, 0)
            os.write(descriptor, f"process {os.getpid()} on {socket.gethostname()}\n".encode())
        yield
    finally:
        path.unlink(missing_ok=True)  # before its release, as `take` expects
        os.close(descriptor)


def _holder(path: Path) -> str:
    with contextlib.suppress(OSError):
        if text := path.read_text(encoding="utf-8", errors="replace").strip():
            return text
    return "the other process"
