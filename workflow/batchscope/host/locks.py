"""Files that one process at a time holds: the system lets go of them however it ends."""

import contextlib
import fcntl
import os
import socket
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from batchscope.errors import UserError

SECONDS = 10.0  # a process that was killed may take a moment to end


def take(path: Path | str) -> int | None:
    """Locks a file, made where there is none; returns its descriptor, or None where it is held.

    Raises:
        OSError: If the file cannot be made, or its file system has no locks.
    """
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        with contextlib.ExitStack() as stack:
            stack.callback(os.close, descriptor)
            try:
                # Most shared file systems pass it between nodes, other than `flock`.
                fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except (BlockingIOError, PermissionError):
                return None
            # Whoever held it before may have removed it in the meantime.
            with contextlib.suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(descriptor), os.stat(path)):
                    stack.pop_all()
                    return descriptor


@contextlib.contextmanager
def held(path: Path, what: str, seconds: float = SECONDS) -> Iterator[None]:
    """Holds a file inside the block and removes it afterwards, or raises `UserError`.

    Where the file system has no locks, that is reported, and the block runs without one.

    Args:
        what: What only one process at a time may do, for the messages.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    end = time.monotonic() + seconds
    try:
        while (descriptor := take(path)) is None:
            if time.monotonic() > end:
                raise UserError(
                    f"{path.parent}: received a second process that would {what}; one at a time is "
                    f"expected. Wait until {_holder(path)} has ended, or end it, and run again."
                )
            time.sleep(0.1)
    except OSError as error:
        print(f"{path}: no lock ({error}); see that no other process can {what}.", file=sys.stderr)
        yield
        return
    try:
        with contextlib.suppress(OSError):  # a full disk: it is for the message alone
            os.ftruncate(descriptor, 0)
            os.write(descriptor, f"process {os.getpid()} on {socket.gethostname()}\n".encode())
        yield
    finally:
        path.unlink(missing_ok=True)  # while it is held: see `take`
        os.close(descriptor)


def _holder(path: Path) -> str:
    with contextlib.suppress(OSError):
        if text := path.read_text(encoding="utf-8", errors="replace").strip():
            return text
    return "the other process"
