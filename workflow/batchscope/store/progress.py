"""The jobs that run now: a file each for `watch`, and lines in the log of a training.

A job replaces its file as it goes on, and deletes it at its end. `kill -9` leaves the file, but
the process in it no longer exists. The next attempt at the job replaces the file.
"""

import contextlib
import hashlib
import os
import platform
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from batchscope import disk, wording
from batchscope.errors import UserError

FOLDER = "running"  # below the results
SECONDS = 5.0  # at least, between two words to `watch`
_SHARE = 1 / 20  # of a training's time, at least, between two lines: its log stays one to read
_SILENT = 60.0  # seconds without an update after which its age is shown


@dataclass(frozen=True)
class Running:
    """A job that runs now."""

    step: str
    name: str  # of the run or the timing
    said: str  # its last words; empty of a job that only started
    age: float  # seconds since then
    host: str  # empty of this machine

    @property
    def line(self) -> str:
        """The job with its last words, and their age if they are old."""
        where = f" on {self.host}" if self.host else ""
        since = f"{wording.duration(self.age)} ago"
        if not self.said:
            return f"{self.step} {self.name}{where}: started {since}"
        silent = f" (reported {since})" if self.age > _SILENT else ""
        return f"{self.step} {self.name}{where}: {self.said}{silent}"


@contextlib.contextmanager
def running(results: Path | str, step: str, name: str) -> Iterator[None]:
    """Keep the file of a job while the block makes it."""
    say(results, step, name, "")
    try:
        yield
    finally:
        _file(results, step, name).unlink(missing_ok=True)


def say(results: Path | str, step: str, name: str, text: str) -> None:
    """Write how far a job is."""
    note = {"step": step, "name": name, "said": text}
    note |= {"host": platform.node(), "process": os.getpid(), "at": time.time()}
    with contextlib.suppress(OSError):  # a full disk: `watch` alone reads it
        disk.write_json(_file(results, step, name), note)


def _file(results: Path | str, step: str, name: str) -> Path:
    digest = hashlib.sha256(f"{step} {name}".encode()).hexdigest()[:16]  # names may be long
    return Path(results) / FOLDER / f"{digest}.json"


class Reporter:
    """Reports how far one training is."""

    def __init__(self, results: Path | str, run: str, epochs: int) -> None:
        self._job, self._epochs = (results, "train", run), epochs
        self._started = self._reported = self._logged = time.monotonic()
        self._begun: tuple[float, float] | None = None  # when, and after how many epochs

    def running(self) -> contextlib.AbstractContextManager[None]:
        return running(*self._job)

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
        say(*self._job, text)
        if now - self._logged >= (now - self._started) * _SHARE:
            self._logged = now
            print(f"{wording.capital(text)}.", flush=True)


def _is_alive(process: int, at: float) -> bool:
    """Return whether a process existed at a time and still does: its number may be reused."""
    try:
        return psutil.Process(process).create_time() <= at
    except psutil.NoSuchProcess:
        return False


def running_jobs(results: Path | str) -> list[Running]:
    """Return the jobs that run now, on this machine and on others."""
    found = []
    for path in sorted(Path(results).glob(f"{FOLDER}/*.json")):
        try:
            note = disk.read_json(path)
        except UserError:
            continue  # it ended in this moment
        here = note["host"] == platform.node()
        if not here or _is_alive(note["process"], note["at"]):
            age = time.time() - note["at"]
            host = "" if here else note["host"]
            found.append(Running(note["step"], note["name"], note["said"], age, host))
    return found
