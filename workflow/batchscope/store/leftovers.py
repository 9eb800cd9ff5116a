"""Delete leftovers of killed processes below the results, which no job reads.

A killed process leaves temporary files and folders, or a checkpoint next to the record of the run.
The next call of Snakemake deletes them before its first job.
"""

import contextlib
import os
import shutil
from pathlib import Path

from batchscope.core import disk
from batchscope.host import memory_limits
from batchscope.store import paths


def delete_leftovers(results: Path | str) -> None:
    for name, folders, files in os.walk(results):
        folder = Path(name)
        if paths.COMMAND_FOLDER in folders and paths.COMMAND_NOTE in files:
            folders.remove(paths.COMMAND_FOLDER)  # It holds the user's files.
        with contextlib.suppress(FileNotFoundError):  # The process may still delete its files.
            for path in map(folder.joinpath, (*folders, *files)):
                if disk.is_abandoned(path):
                    shutil.rmtree(path) if path.is_dir() else path.unlink()
            if paths.RECORD in files:
                ended = (folder / paths.RECORD).stat().st_mtime
                for path in (folder / paths.CHECKPOINT, folder / memory_limits.KILL_NOTE):
                    if path.name in files and path.stat().st_mtime <= ended:
                        path.unlink()
