"""Report the progress of running jobs: each has a note in a file, which `watch` reads.

A job deletes its note at its end. After `kill -9` the note stays, but its process does not exist.
`Reporter` does this for a training, and also writes lines into its log.
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

FOLDER = "running"  # folder of the notes below the results
REPORT_SECONDS = 5.0  # shortest time between two reports
_LOG_SHARE = 1 / 20  # shortest time between two lines of a log, as a share of the time so far
_SILENT_SECONDS = 60.0  # An older report is shown with its age.


@dataclass(frozen=True)
class RunningJob:
    """A running job with its last report."""

    step: str
    name: str  # name of the run or timing
    text: str  # the last report; empty before the first
    age: float  # seconds since the report or the start
    host: str  # name of another machine; empty for this machine

    @property
    def line(self) -> str:
        job = f"{self.step} {self.name}" + (f" on {self.host}" if self.host else "")
        since = f"{display.duration(self.age)} ago"
        if not self.text:
            return f"{job}: started {since}"
        return f"{job}: {self.text}" + (
            f" (reported {since})" if self.age > _SILENT_SECONDS else ""
        )


@contextlib.contextmanager
def listed_as_running(results: Path | str, step: str, name: str) -> Iterator[None]:
    """List a job as running inside the block."""
    note_progress(results, step, name, "")
    try:
        yield
    finally:
        _note_path(results, step, name).unlink(missing_ok=True)


def note_progress(results: Path | str, step: str, name: str, text: str) -> None:
    """Write the progress of a job into its note."""
    note = {"step": step, "name": name, "text": text}
    note |= {"host": platform.node(), "process": os.getpid(), "time": time.time()}
    with contextlib.suppress(OSError):  # A full disk must not stop the job.
        disk.write_json(_note_path(results, step, name), note)


def _note_path(results: Path | str, step: str, name: str) -> Path:
    digest = hashlib.sha256(f"{step} {name}".encode()).hexdigest()[:16]  # Names may be too long.
    return Path(results) / FOLDER / f"{digest}.json"


class Reporter:
    """The progress of a step that trains a run, as notes and as lines of its log."""

    def __init__(self, results: Path | str, run: str, epochs: int, step: str = "train") -> None:
        self._job, self._epochs = (results, step, run), epochs
        self._started = self._reported = self._logged = time.monotonic()
        self._first: tuple[float, float] | None = None  # time and epochs of the first call

    def listed_as_running(self) -> contextlib.AbstractContextManager[None]:
        return listed_as_running(*self._job)

    def report(self, epoch: int, share: float, history: Sequence[dict[str, Any]]) -> None:
        """Report complete epochs and the share of the next one, at most once in five seconds."""
        now, epochs = time.monotonic(), epoch + share
        self._first = self._first or (now, epochs)  # after the compilation
        if now - self._reported < REPORT_SECONDS:
            return
        self._reported = now
        text = f"epoch {epoch + (share > 0)} of {self._epochs}"
        if share:
            text += f" ({display.percent(share, 0)} of it)"
        if history:
            train, validation = history[-1]["train_loss"], history[-1]["validation_loss"]
            losses = f"training loss {train:.4g}, validation loss {validation:.4g}"
            text += f": {losses} after epoch {epoch}"
        first_time, first_epochs = self._first
        if epochs > first_epochs:
            seconds = (now - first_time) / (epochs - first_epochs) * (self._epochs - epochs)
            text += f"; about {display.duration(seconds)} left"
        note_progress(*self._job, text)
        if now - self._logged >= (now - self._started) * _LOG_SHARE:
            self._logged = now
            print(f"{display.capital(text)}.", flush=True)


def running_jobs(results: Path | str) -> list[RunningJob]:
    """Return the running jobs of this machine and of others."""
    jobs = []
    for path in sorted(Path(results).glob(f"{FOLDER}/*.json")):
        # The job may have just ended. A later process may have the number of a killed one.
        with contextlib.suppress(UserError, psutil.NoSuchProcess):
            note = disk.read_json(path)
            is_local = note["host"] == platform.node()
            if is_local and psutil.Process(note["process"]).create_time() > note["time"]:
                continue
            age, host = time.time() - note["time"], "" if is_local else note["host"]
            jobs.append(RunningJob(note["step"], note["name"], note["text"], age, host))
    return jobs
