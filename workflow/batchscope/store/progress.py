"""Running jobs: each has a file that `watch` reads; a training also writes lines into its log.

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

from batchscope.core import disk, display
from batchscope.core.errors import UserError

FOLDER = "running"  # below the results
SECONDS = 5.0  # shortest time between two reports
_SHARE = 1 / 20  # shortest time between two lines of a log, as a share of the time so far
_SILENT = 60.0  # seconds after which a line shows the age of the report


@dataclass(frozen=True)
class Running:
    """A running job."""

    step: str
    name: str  # of the run or timing
    text: str  # last report; empty before the first
    age: float  # seconds since the report, or the start
    host: str  # empty for this machine

    @property
    def line(self) -> str:
        job = f"{self.step} {self.name}" + (f" on {self.host}" if self.host else "")
        since = f"{display.duration(self.age)} ago"
        if not self.text:
            return f"{job}: started {since}"
        return f"{job}: {self.text}" + (f" (reported {since})" if self.age > _SILENT else "")


@contextlib.contextmanager
def running(results: Path | str, step: str, name: str) -> Iterator[None]:
    """List a job as running inside the block."""
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
        """Report complete epochs and the share of the next one, at most once in five seconds."""
        now, done = time.monotonic(), epoch + share
        self._first = self._first or (now, done)  # without the time of compilation
        if now - self._reported < SECONDS:
            return
        self._reported = now
        text = f"epoch {epoch + (share > 0)} of {self._epochs}"
        if share:
            text += f" ({display.percent(share, 0)} of it)"
        if history:
            train, validation = history[-1]["train_loss"], history[-1]["validation_loss"]
            losses = f"training loss {train:.4g}, validation loss {validation:.4g}"
            text += f": {losses} after epoch {epoch}"
        first_time, first_done = self._first
        if done > first_done:
            left = (now - first_time) / (done - first_done) * (self._epochs - done)
            text += f"; about {display.duration(left)} left"
        say(*self._job, text)
        if now - self._logged >= (now - self._started) * _SHARE:
            self._logged = now
            print(f"{display.capital(text)}.", flush=True)


def running_jobs(results: Path | str) -> list[Running]:
    """Return the running jobs of this machine and of others."""
    jobs = []
    for path in sorted(Path(results).glob(f"{FOLDER}/*.json")):
        # The job may have just ended; a later process may have the number of a killed one.
        with contextlib.suppress(UserError, psutil.NoSuchProcess):
            note = disk.read_json(path)
            is_local = note["host"] == platform.node()
            if is_local and psutil.Process(note["process"]).create_time() > note["time"]:
                continue
            age, host = time.time() - note["time"], "" if is_local else note["host"]
            jobs.append(Running(note["step"], note["name"], note["text"], age, host))
    return jobs
