"""How far the trainings are that run now: a line in the log, and a file each for `watch`.

The file is replaced as the training goes on, and deleted when it ends; one that `kill -9` left
is known by its process.
"""

from __future__ import annotations

import contextlib
import os
import platform
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import psutil

from batchscope import disk, wording
from batchscope.errors import UserError

FILE = "progress.json"
SECONDS = 5.0  # at least, between two words to `watch`
_SHARE = 1 / 20  # of a training's time, at least, between two lines: its log stays one to read
_SILENT = 60.0  # seconds without an update after which its age is shown


@contextlib.contextmanager
def running(folder: Path) -> Iterator[None]:
    """Keeps the file of a run while the block makes it."""
    say(folder, "starts")
    try:
        yield
    finally:
        (folder / FILE).unlink(missing_ok=True)


def say(folder: Path, text: str) -> None:
    own = {"host": platform.node(), "process": os.getpid(), "at": time.time(), "said": text}
    with contextlib.suppress(OSError):  # a full disk: `watch` alone reads it
        disk.write_json(folder / FILE, own)


class Reporter:
    """Reports how far one training is."""

    def __init__(self, folder: Path, epochs: int) -> None:
        self._folder, self._epochs = folder, epochs
        self._started = self._reported = self._logged = time.monotonic()
        self._begun: tuple[float, float] | None = None  # when, and after how many epochs

    def running(self) -> contextlib.AbstractContextManager[None]:
        return running(self._folder)

    def report(self, epoch: int, share: float, history: Sequence[dict[str, Any]]) -> None:
        """Says where the training is, so far in an epoch, where the last word is seconds old."""
        now, done = time.monotonic(), epoch + share
        if self._begun is None:  # what went before was compilation, or another process
            self._begun = (now, done)
        if now - self._reported < SECONDS:
            return
        self._reported = now
        text = f"epoch {epoch + (share > 0)} of {self._epochs}"
        if share:
            text += f" ({wording.percent(share, 0)} of it)"
        if history:
            last = history[-1]
            text += (
                f": training loss {last['train_loss']:.4g}, "
                f"validation loss {last['validation_loss']:.4g} after epoch {epoch}"
            )
        begun, before = self._begun
        if done > before:
            left = (now - begun) / (done - before) * (self._epochs - done)
            text += f"; about {wording.duration(left)} left"
        say(self._folder, text)
        if now - self._logged >= (now - self._started) * _SHARE:
            self._logged = now
            print(f"{wording.capital(text)}.", flush=True)


def _lives(process: int, at: float) -> bool:
    """Whether a process that said something at a time lives: its number may be another's by now."""
    try:
        return psutil.Process(process).create_time() <= at
    except psutil.NoSuchProcess:
        return False


def overview(results: Path | str) -> str:
    """Returns a line for every training that runs now."""
    lines = []
    for path in sorted(Path(results).glob(f"runs/*/{FILE}")):
        try:
            found = disk.read_json(path)
        except UserError:
            continue  # it ended in this moment
        here = found["host"] == platform.node()
        if here and not _lives(found["process"], found["at"]):
            continue
        where = "" if here else f" on {found['host']}"
        age = time.time() - found["at"]
        silent = f" (reported {wording.duration(age)} ago)" if age > _SILENT else ""
        lines.append(f"{path.parent.name}{where}: {found['said']}{silent}")
    return "\n".join(lines or ["No training runs now."])
