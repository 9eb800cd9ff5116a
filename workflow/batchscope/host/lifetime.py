"""Jobs end with the Snakemake that started them, also where that alone was killed.

Between Snakemake and a job stands a shell, which outlives it. So Snakemake holds the lock of a
file in a temporary folder, and every job waits for that lock in a thread: it gets it when
Snakemake is gone, however it went. A file without a holder also says which temporary folders
were left behind.

On a cluster there is no such file: a job's processes are the scheduler's, to end and to wait for.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import sys
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

PREFIX = "batchscope-jobs-"
_FILE = "held"


def claim() -> Path:
    """Makes a private temporary folder that is this process's until it ends; sweeps old ones."""
    # Imported here: every job imports this module, and only follows.
    import tempfile
    from pathlib import Path

    from batchscope.host import locks

    sweep()
    while True:
        folder = Path(tempfile.mkdtemp(prefix=PREFIX))
        # flock: services that clean temporary folders leave alone what is locked so.
        with contextlib.suppress(FileNotFoundError):  # swept before it was locked
            if locks.take(folder / _FILE, fcntl.flock) is not None:
                return folder


def sweep() -> None:
    """Removes the folders of processes that are gone."""
    import shutil
    import tempfile
    from pathlib import Path

    for file in Path(tempfile.gettempdir()).glob(f"{PREFIX}*/{_FILE}"):
        with contextlib.suppress(OSError):  # another user's, or just swept by another process
            descriptor = os.open(file, os.O_RDWR)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(file.parent, ignore_errors=True)
            finally:
                os.close(descriptor)


def remove(folder: Path) -> None:
    """Waits until a folder's process is gone, and removes the folder."""
    import shutil

    _wait(folder)
    shutil.rmtree(folder, ignore_errors=True)


def follow(folder: Path | str) -> None:
    """Ends this process, and what it started, as soon as a folder's process is gone."""
    threading.Thread(target=_end_after, args=(folder,), daemon=True).start()


def _end_after(folder: Path | str) -> None:
    _wait(folder)
    print("Snakemake was killed, and its job with it.", file=sys.stderr, flush=True)
    import psutil  # here, for it is mostly not needed

    for child in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.Error):
            child.kill()
    os._exit(128 + signal.SIGKILL)


def _wait(folder: Path | str) -> None:
    """Returns when the lock is to be had; a folder that is not there any more was swept."""
    with contextlib.suppress(FileNotFoundError), open(os.path.join(folder, _FILE), "rb+") as file:
        fcntl.flock(file, fcntl.LOCK_SH)  # shared: none waits for another to end
