"""The job of a run that a command makes: one process at a time, its end, and what it leaves."""

from __future__ import annotations

import contextlib
import json
import math
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas

from batchscope import disk, wording
from batchscope.errors import UserError
from batchscope.external import external_runs
from batchscope.host import absence, control_groups, description, guard, job, locks
from batchscope.store import memory_kills, paths, progress, records
from batchscope.study import commands, tasks
from batchscope.study.log_keys import CommandLog
from batchscope.study.own_columns import AXES
from batchscope.study.versions import VERSIONS
from batchscope.timing import step_errors
from batchscope.timing.instruments import samples
from batchscope.timing.instruments.processes import Family
from batchscope.timing.instruments.sampler import Sampler

INTERVAL = 0.5  # seconds between two samples
_SHOWN = 30  # lines of a failed command's output that are shown
_READ = 100_000  # last bytes of the output that are searched
_KILLED = (-signal.SIGKILL, 128 + signal.SIGKILL)  # the latter of a shell whose child was killed
# What libraries take the number of their threads from.
_THREADS = (
    *("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"),
    *("TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS"),
)
_UNSUCCESSFUL = ("failed", "killed")  # by what a log says, though the command ended
_MEASURED = ("foreign_cores", "gpu_memory_peak_mb", "gpu_energy_joules")


@dataclass(frozen=True)
class Ended:
    """How a command ended, and what it used."""

    status: int  # -n where signal n ended it
    output: str  # the end of what it printed
    stopped: bool = False  # whether a signal asked it to end
    limit_mb: float | None = None  # at which the kernel killed for memory meanwhile
    seconds: float | None = None
    used: dict[str, Any] | None = None  # what the record says of it
    series: samples.Series | None = None  # samples of CPU, GPU and memory

    @property
    def lines(self) -> list[str]:
        return [line for line in self.output.splitlines() if line.strip()][-_SHOWN:]

    @property
    def how(self) -> str:
        if self.status < 0:
            return f"an end by {signal.Signals(-self.status).name}"
        return f"the exit status {self.status}"


def make(results: Path | str, name: str) -> str:
    """Makes one run and writes its record; returns its status.

    Raises:
        UserError: If the command fails, is stopped, or leaves no log that can be read.
    """
    folder = paths.run_folder(results, name)
    run = _planned(folder, name)
    with locks.held(folder / "run.lock", "make this run"):
        if killed := memory_kills.record_or_retry(folder, None):
            ended, rows = None, pandas.DataFrame()
            status, message = records.OUT_OF_MEMORY, killed
        else:
            ended = _run(folder, run)
            status, message, rows = _judged(folder, run, ended)
        _write(folder, run, ended, status, message, rows)
    return status


def _planned(folder: Path, name: str) -> commands.CommandRun:
    """Returns what makes a run; raises `UserError` where an input has changed meanwhile."""
    run = commands.CommandRun.of(disk.read_json(folder / paths.COMMAND_NOTE, "command", "factors"))
    for path, planned in run.command.inputs.items():
        here = Path(run.command.folder, os.path.expanduser(path))
        if commands.sha256(here) != planned:
            raise UserError(
                f"{here}: received a change after the study was planned; what it was then is "
                "expected. Run snakemake again: a change makes new runs."
            )
    if run.name != name:
        raise UserError(f"{folder / paths.COMMAND_NOTE}: received {run.name}; {name} is expected.")
    return run


def _run(folder: Path, run: commands.CommandRun) -> Ended:
    """Runs a command to its end, in an emptied folder, or in one from which it goes on."""
    command, files = run.command, folder.resolve() / paths.COMMAND_FOLDER
    output = folder / paths.COMMAND_OUTPUT
    if not command.resume:
        shutil.rmtree(files, ignore_errors=True)
    files.mkdir(parents=True, exist_ok=True)
    resumed = any(files.iterdir())
    words, env = run.resolved(str(files))
    before = control_groups.count()
    guard.adopt()
    here, there = socket.socketpair()
    with here, open(output, "wb") as out:
        with there:
            process = subprocess.Popen(
                [sys.executable, "-I", guard.__file__, *words],
                cwd=command.folder,
                env=_environment(command) | env,
                stdin=there,
                stdout=out,
                stderr=out,
                start_new_session=True,
            )
        gpu, family = (0 if command.gpus else None), Family(process.pid)
        with job.signals_sent(here), Sampler(INTERVAL, command.threads, gpu, family) as sampler:
            said = _said(here, folder, output)
        guard.kill_all()  # where the guard was killed
        process.wait()
    series = sampler.series()
    found = samples.summary(series)
    seconds, peaks = said.get("seconds"), (found["memory_peak_mb"], said.get("largest_mb"))
    used = {name: found[name] for name in _MEASURED}
    used |= {"memory_peak_mb": max(filter(None, peaks), default=None), "resumed": resumed}
    return Ended(
        said.get("status", -signal.SIGKILL),
        _tail(output),
        bool(said.get("signals")),
        control_groups.limit_met(before),
        None if resumed else seconds,
        {**used, "gpu_device": sampler.gpu_device},
        series,
    )


def utilisation(series: samples.Series, rows: pandas.DataFrame) -> dict[str, float | None]:
    """Return the mean use of CPU and GPU, in percent, while a command trained.

    The log's `seconds` begin when the training does. So the use counts over that many seconds
    before the command's end: imports and compilation are left out. Without `seconds` in the log
    it counts over the whole run.
    """
    trained = rows["seconds"].max() if "seconds" in rows else math.nan
    start = series["seconds"][-1] - trained if math.isfinite(trained) else 0.0
    weights = np.clip(series["seconds"] - start, 0.0, samples.intervals(series))
    return {
        name: samples.spread(series[name], weights)["mean"]
        for name in ("process_percent", "gpu_percent")
    }


def throughput(rows: pandas.DataFrame) -> float | None:
    """Return the examples per second between the first and the last row with seconds."""
    timed = rows.reindex(columns=["examples", "seconds"]).dropna()
    if len(timed) < 2:
        return None
    examples, seconds = timed.iloc[-1] - timed.iloc[0]
    return float(examples / seconds) if seconds > 0 else None


def _environment(command: commands.Command) -> dict[str, str]:
    """Returns the environment of a command, but for what the study adds."""
    own = {job.VARIABLE, absence.VARIABLE}
    hidden = {} if command.gpus else {"CUDA_VISIBLE_DEVICES": ""}
    threads = dict.fromkeys(_THREADS, str(command.threads))
    return {name: each for name, each in os.environ.items() if name not in own} | threads | hidden


def _said(here: socket.socket, folder: Path, output: Path) -> dict[str, Any]:
    """Returns what the guard says when the command has ended; nothing where it was killed."""
    begun = time.monotonic()
    run_job = (folder.parents[1], "run_command", folder.name)
    with progress.running(*run_job):
        while not select.select([here], [], [], progress.SECONDS)[0]:
            printed = _tail(output).strip().rpartition("\n")[2][: step_errors.MESSAGE_LENGTH]
            text = f"{wording.duration(time.monotonic() - begun)} so far"
            progress.say(*run_job, f"{text}: {printed}" if printed else text)
    with contextlib.suppress(OSError, ValueError), here.makefile() as answer:
        return json.loads(answer.readline())
    return {}


def _tail(output: Path) -> str:
    with open(output, "rb") as file:
        file.seek(max(0, output.stat().st_size - _READ))
        return file.read().decode(errors="replace")


def _judged(
    folder: Path, run: commands.CommandRun, ended: Ended
) -> tuple[str, str, pandas.DataFrame]:
    """Returns a run's status, what is to be said of it, and its evaluations.

    Raises:
        UserError: Where it has no result.
    """
    if ended.stopped:
        raise UserError(f"{folder.name}: received a signal to stop; its end is expected.")
    rows, stated = pandas.DataFrame(), ""
    try:
        rows, stated = _evaluated(folder, run)
    except UserError:
        if ended.status == 0:
            raise
    if ended.status and (refusal := step_errors.refusal("\n".join(reversed(ended.lines)))):
        return records.OUT_OF_MEMORY, refusal, rows
    if ended.status in _KILLED and ended.limit_mb is not None:
        return records.OUT_OF_MEMORY, memory_kills.record_or_retry(folder, ended.limit_mb), rows
    if stated == records.DIVERGED:
        return records.DIVERGED, "A loss of the log is no longer finite.", rows
    if stated == records.OUT_OF_MEMORY:
        return records.OUT_OF_MEMORY, "The log says so.", rows
    if ended.status:
        print(*ended.lines, sep="\n")
        last = ended.lines[-1] if ended.lines else "nothing was printed"
        raise UserError(
            f"{folder.name}: received {ended.how} of the command; 0 is expected. It printed last: "
            f"{last[: step_errors.MESSAGE_LENGTH]} ({folder / paths.COMMAND_OUTPUT})"
        )
    if stated in _UNSUCCESSFUL:
        raise UserError(
            f"{folder.name}: received {stated} in the log; a run that ended is expected."
        )
    return records.FINISHED, "", rows


def _evaluated(folder: Path, run: commands.CommandRun) -> tuple[pandas.DataFrame, str]:
    """Returns a run's evaluations, in order, and what its log says became of it.

    Raises:
        UserError: If the log cannot be read, or contradicts itself.
    """
    log, size = dict(run.command.log), run.factors["batch_size"]
    files = str(folder.resolve() / paths.COMMAND_FOLDER)
    tasks.set_user_metrics(metrics := log.pop("metrics", {}))
    keys = CommandLog.model_validate(log)
    path = keys.file.replace("{run_dir}", files) or str(folder / paths.COMMAND_OUTPUT)
    return external_runs.of_command(path, size, keys, metrics)


def _write(
    folder: Path,
    run: commands.CommandRun,
    ended: Ended | None,
    status: str,
    message: str,
    rows: pandas.DataFrame,
) -> None:
    """Writes evaluations and record of a run that is over; the record last."""
    command = run.command
    seconds = ended.seconds if ended else None
    alone = seconds if command.alone else None
    text = _timed(rows, alone).to_csv(index=False, lineterminator="\n")
    disk.write_text(folder / paths.TRAJECTORY, text)
    record = {
        "run": folder.name,
        "version": VERSIONS["run_command"],
        "factors": run.factors,
        "command": run.resolved("{run_dir}")[0],
        "status": status,
        "message": message,
        "exit_status": ended and ended.status,
        "contended_seconds": seconds,
        "train_seconds": alone,
        "alone": command.alone,
        "examples_per_second": throughput(rows) if alone else None,
        **(ended.used if ended else {"memory_peak_mb": control_groups.limit_mb()}),
        **(utilisation(ended.series, rows) if ended else {}),
        **command.needs,
        "versions": {},  # whatever the command runs in
        "machine": description.describe(),
        "finished_at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    }
    disk.write_json(paths.run_record(folder), record)
    (folder / memory_kills.NOTE).unlink(missing_ok=True)


def _timed(rows: pandas.DataFrame, seconds: float | None) -> pandas.DataFrame:
    """Returns the evaluations of a run with the seconds until each, where it took some in all.

    Those of its log, where it has them; else each example is taken to have lasted as long.
    """
    rows = rows.reindex(columns=dict.fromkeys([*AXES[:2], *rows]))
    if seconds is None or rows.empty:
        return rows.drop(columns="seconds", errors="ignore")
    if "seconds" in rows:
        return rows
    return rows.assign(seconds=seconds * rows["examples"] / rows["examples"].max())
