"""Jobs that run now: a file for each, which `watch` reads, and lines in the log of a training.

A job deletes its file at its end. After `kill -9` the file stays, but its process does not exist.
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
SECONDS = 5.0  # shortest time between two reports
_SHARE = 1 / 20  # of a training's time so far: shortest time between two lines in its log
_SILENT = 60.0  # seconds after which the age of a report is shown


@dataclass(frozen=True)
class Running:
    """A job that runs now."""

    step: str
    name: str  # of its run or timing
    text: str  # of its last report; empty if it has only started
    age: float  # seconds since then
    host: str  # empty for this machine

    @property
    def line(self) -> str:
        job = f"{self.step} {self.name}" + (f" on {self.host}" if self.host else "")
        since = f"{wording.duration(self.age)} ago"
        if not self.text:
            return f"{job}: started {since}"
        return f"{job}: {self.text}" + (f" (reported {since})" if self.age > _SILENT else "")


@contextlib.contextmanager
def running(results: Path | str, step: str, name: str) -> Iterator[None]:
    """Show a job as running within the block."""
    say(results, step, name, "")
    try:
        yield
    finally:
        _path(results, step, name).unlink(missing_ok=True)


def say(results: Path | str, step: str, name: str, text: str) -> None:
    """Report the progress of a job."""
    note = {"step": step, "name": name, "text": text}
    note |= {"host": platform.node(), "process": os.getpid(), "time": time.time()}
    with contextlib.suppress(OSError):  # a full disk must not stop the job
        disk.write_json(_path(results, step, name), note)


def _path(results: Path | str, step: str, name: str) -> Path:
    digest = hashlib.sha256(f"{step} {name}".encode()).hexdigest()[:16]  # names may be long
    return Path(results) / FOLDER / f"{digest}.json"


class Reporter:
    """Reports the progress of a training."""

    def __init__(self, results: Path | str, run: str, epochs: int) -> None:
        self._job, self._epochs = (results, "train", run), epochs
        self._started = self._reported = self._logged = time.monotonic()
        self._first: tuple[float, float] | None = None  # time and epochs of the first call

    def running(self) -> contextlib.AbstractContextManager[None]:
        return running(*self._job)

    def report(self, epoch: int, share: float, history: Sequence[dict[str, Any]]) -> None:
        """Report complete epochs and the share of the next one, unless the last report is new."""
        now, done = time.monotonic(), epoch + share
        self._first = self._first or (now, done)  # compilation came before
        if now - self._reported < SECONDS:
            return
        self._reported = now
        text = f"epoch {epoch + (share > 0)} of {self._epochs}"
        if share:
            text += f" ({wording.percent(share, 0)} of it)"
        if history:
            train, validation = history[-1]["train_loss"], history[-1]["validation_loss"]
            losses = f"training loss {train:.4g}, validation loss {validation:.4g}"
            text += f": {losses} after epoch {epoch}"
        first, before = self._first
        if done > before:
            left = (now - first) / (done - before) * (self._epochs - done)
            text += f"; about {wording.duration(left)} left"
        say(*self._job, text)
        if now - self._logged >= (now - self._started) * _SHARE:
            self._logged = now
            print(f"{wording.capital(text)}.", flush=True)


def running_jobs(results: Path | str) -> list[Running]:
    """Return the jobs that run now, on this machine and on others."""
    jobs = []
    for path in sorted(Path(results).glob(f"{FOLDER}/*.json")):
        with contextlib.suppress(UserError):  # the job has just ended
            note = disk.read_json(path)
            here = note["host"] == platform.node()
            if not here or _is_alive(note["process"], note["time"]):
                age, host = time.time() - note["time"], "" if here else note["host"]
                jobs.append(Running(note["step"], note["name"], note["text"], age, host))
    return jobs


def _is_alive(process: int, at: float) -> bool:
    """Return whether a process of that time still exists; a later one may have its number."""
    try:
        return psutil.Process(process).create_time() <= at
    except psutil.NoSuchProcess:
        return False
