"""Lock files; the system releases a lock when its process ends."""

import contextlib
import fcntl
import os
import socket
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from batchscope.core.errors import UserError

TIMEOUT_SECONDS = 10.0  # a killed process may take a moment to end and release its lock


@contextlib.contextmanager
def lock(path: Path, task: str) -> Iterator[None]:
    """Hold a lock file inside the block and remove it afterwards.

    If the file system has no locks, print that and run the block without a lock.

    Args:
        task: Verb phrase for messages, such as `train this run`.

    Raises:
        UserError: If another process holds the file for too long.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    end = time.monotonic() + TIMEOUT_SECONDS
    with open(path, "a+b", buffering=0) as file:
        try:
            while not _take(file):
                if time.monotonic() > end:
                    file.seek(0)
                    raise UserError(
                        f"{path.parent}: received a second process that would {task}; one at a "
                        f"time is expected. Wait until {file.read().decode().strip()} has ended, "
                        "or end it, and run again."
                    )
                time.sleep(0.1)
        except OSError as error:
            text = f"no lock ({error}); see that no other process can {task}."
            print(f"{path}: {text}", file=sys.stderr)
        with contextlib.suppress(OSError):  # a full disk; only messages need the text
            file.truncate(0)
            file.write(f"process {os.getpid()} on {socket.gethostname()}\n".encode())
        try:
            yield
        finally:
            path.unlink(missing_ok=True)


def _take(file: IO[bytes]) -> bool:
    """Lock a file, unless another process holds it; return whether this process holds it."""
    try:
        # Unlike `flock`, most shared file systems pass this lock between nodes.
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):
        return False
    return True
