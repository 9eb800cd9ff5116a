"""Run a user's command, sample its use of the machine, and write the record of the run.

The exit status, the output and the log decide the run's status in `_judge`. A new number of a run
is a key of the record in `_write_results`.
"""

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
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas

from batchscope.core import disk, display
from batchscope.core.errors import UserError
from batchscope.external import external_runs
from batchscope.host import fork_server, memory_limits, requirements, supervisor
from batchscope.store import paths, progress, records
from batchscope.study import commands, tasks
from batchscope.study.log_format import COST_COLUMNS, CommandLog
from batchscope.study.registry import VERSIONS
from batchscope.timing import samples
from batchscope.timing.samples import ProcessTree, Sampler

SAMPLE_SECONDS = 0.5  # time between two samples of CPU, GPU and memory
_SHOWN_LINES = 30  # largest number of lines that are shown of a failed command's output
_READ_BYTES = 100_000  # Only the end of a long output is searched.
_KILLED_STATUSES = (-signal.SIGKILL, 128 + signal.SIGKILL)  # A shell adds 128.
# Environment variables that set the number of threads of libraries.
_THREAD_VARIABLES = (
    *("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"),
    *("TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS"),
)
_FAILED_LOG_STATUSES = ("failed", "killed")  # statuses in a log that overrule the exit status 0
_SUMMARY_KEYS = ("foreign_cores", "gpu_memory_peak_mb", "gpu_energy_joules")


class CommandEnd(NamedTuple):
    """End of a command, and its use of the machine."""

    status: int | None  # exit status; -n after signal n; None if an earlier attempt was killed
    lines: list[str]  # last lines that the command printed
    stopped: bool = False  # whether a signal asked the job to stop
    limit_mb: float | None = None  # memory limit at which the kernel killed a process
    seconds: float | None = None
    usage: dict[str, Any] = {}  # keys of the record about memory and energy
    series: samples.Series | None = None  # samples of CPU, GPU and memory


def make_run(results: Path | str, name: str) -> str:
    """Run the command of one run and write its record; return its status.

    Raises:
        UserError: If the command fails, is stopped, or leaves no readable log.
    """
    folder = paths.run_folder(results, name)
    run = _planned_run(folder)
    with disk.lock(folder / "run.lock", "make this run"):
        if killed := memory_limits.record_or_retry(folder, None):
            end = CommandEnd(None, [], usage={"memory_peak_mb": memory_limits.limit_mb()})
            status, message, rows = records.OUT_OF_MEMORY, killed, pandas.DataFrame()
        else:
            end = _run_command(folder, run)
            status, message, rows = _judge(folder, run, end)
        _write_results(folder, run, end, status, message, rows)
    return status


def _planned_run(folder: Path) -> commands.CommandRun:
    """Return the planned run; raise a `UserError` if one of its inputs has changed since."""
    run = commands.CommandRun.model_validate(
        disk.read_json(folder / paths.COMMAND_NOTE, "command", "factors")
    )
    for path, planned in run.command.inputs.items():
        file = Path(run.command.folder, os.path.expanduser(path))
        if commands.sha256(file) != planned:
            raise UserError(f"{file}: changed after the study was planned. Run snakemake again.")
    return run


def _run_command(folder: Path, run: commands.CommandRun) -> CommandEnd:
    """Run a command to its end, in an empty folder unless it resumes."""
    command, files = run.command, folder.resolve() / paths.COMMAND_FOLDER
    output = folder / paths.COMMAND_OUTPUT
    if not command.resume:
        shutil.rmtree(files, ignore_errors=True)
    files.mkdir(parents=True, exist_ok=True)
    resumed = any(files.iterdir())
    arguments, env = run.resolved(str(files))
    kills_before = memory_limits.kill_count()
    supervisor.become_subreaper()
    socket_here, socket_there = socket.socketpair()
    with socket_here, open(output, "wb") as out:
        with socket_there:
            process = subprocess.Popen(
                [sys.executable, "-I", supervisor.__file__, *arguments],
                cwd=command.folder,
                env=_environment(command) | env,
                stdin=socket_there,
                stdout=out,
                stderr=out,
                start_new_session=True,
            )
        sampler = Sampler(SAMPLE_SECONDS, command.threads, command.gpus, ProcessTree(process.pid))
        with (
            fork_server.forwarded_signals(lambda signum: socket_here.sendall(bytes([signum]))),
            sampler,
        ):
            answer = _wait_for_answer(socket_here, folder, output)
        supervisor.kill_descendants()  # A killed supervisor leaves them.
        process.wait()
    series = sampler.series()
    summary, seconds = samples.summarise(series), answer.get("seconds")
    peaks = filter(None, (summary["memory_peak_mb"], answer.get("largest_mb")))
    usage = {name: summary[name] for name in _SUMMARY_KEYS}
    usage |= {"memory_peak_mb": max(peaks, default=None), "resumed": resumed}
    return CommandEnd(
        answer.get("status", -signal.SIGKILL),
        _last_lines(output),
        bool(answer.get("signals")),
        memory_limits.limit_after_kill(kills_before),
        None if resumed else seconds,
        {**usage, "gpu_device": sampler.gpu_device},
        series,
    )


def utilisation(series: samples.Series, rows: pandas.DataFrame) -> dict[str, float | None]:
    """Return the mean use of CPU and GPU, in percent, while a command trained.

    The log's `seconds` begin with the training. So the last seconds of the command count, and
    imports and compilation are left out. Without `seconds` in the log, the whole run counts.
    """
    trained = rows["seconds"].max() if "seconds" in rows else math.nan
    start = series["seconds"][-1] - trained if math.isfinite(trained) else 0.0
    weights = np.clip(series["seconds"] - start, 0.0, samples.sample_seconds(series))
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
    inherited = {**os.environ}
    inherited.pop(requirements.REMOTE_GPUS_VARIABLE, None)
    hidden = {} if command.gpus else {"CUDA_VISIBLE_DEVICES": ""}
    return inherited | dict.fromkeys(_THREAD_VARIABLES, str(command.threads)) | hidden


def _wait_for_answer(connection: socket.socket, folder: Path, output: Path) -> dict[str, Any]:
    """Report progress until the command ends; return the supervisor's answer, or {}."""
    start = time.monotonic()
    run_job = (folder.parents[1], "run_command", folder.name)
    with progress.listed_as_running(*run_job):
        while not select.select([connection], [], [], progress.REPORT_SECONDS)[0]:
            printed = "".join(_last_lines(output)[-1:])[: memory_limits.MESSAGE_LENGTH]
            text = f"{display.duration(time.monotonic() - start)} so far"
            progress.note_progress(*run_job, f"{text}: {printed}" if printed else text)
    with contextlib.suppress(OSError, ValueError), connection.makefile() as lines:
        return json.loads(lines.readline())
    return {}


def _last_lines(output: Path) -> list[str]:
    """Return the last lines that a command printed, without control characters."""
    with open(output, "rb") as file:
        file.seek(max(0, output.stat().st_size - _READ_BYTES))
        lines = file.read().decode(errors="replace").splitlines()
    # Progress bars contain backspaces.
    printed = (display.printable(line.strip("\b").rstrip()) for line in lines)
    return [line for line in printed if line][-_SHOWN_LINES:]


def _judge(
    folder: Path, run: commands.CommandRun, end: CommandEnd
) -> tuple[str, str, pandas.DataFrame]:
    """Return the status of a run, a message for its record, and its evaluations.

    Raises:
        UserError: If the run has no result.
    """
    if end.stopped:
        raise UserError(f"{folder.name}: stopped by a signal.")
    rows, logged_status = pandas.DataFrame(), ""  # A command that fails may have no readable log.
    try:
        rows, logged_status = _read_log(folder, run)
    except UserError:
        if end.status == 0:
            raise
    if end.status and (refusal := memory_limits.text_refusal("\n".join(reversed(end.lines)))):
        return records.OUT_OF_MEMORY, refusal, rows
    if end.status in _KILLED_STATUSES and end.limit_mb is not None:
        return records.OUT_OF_MEMORY, memory_limits.record_or_retry(folder, end.limit_mb), rows
    if logged_status in (records.DIVERGED, records.OUT_OF_MEMORY):
        text = f"The log states {logged_status}, or its last loss is empty or not finite."
        return logged_status, text, rows
    if end.status:
        print(*end.lines, sep="\n")
        by_signal = f"by {signal.Signals(-end.status).name}" if end.status < 0 else ""
        last_line = "".join(end.lines[-1:])[: memory_limits.MESSAGE_LENGTH]
        raise UserError(
            f"{folder.name}: The command ended {by_signal or f'with exit status {end.status}'}. "
            f"Last line: {last_line or 'none'} ({folder / paths.COMMAND_OUTPUT})"
        )
    if logged_status in _FAILED_LOG_STATUSES:
        raise UserError(f"{folder.name}: The status of the log is {logged_status}.")
    return records.FINISHED, "", rows


def _read_log(folder: Path, run: commands.CommandRun) -> tuple[pandas.DataFrame, str]:
    """Return a run's evaluations, in order, and the status that the log states.

    Raises:
        UserError: If the log cannot be read, or contradicts itself.
    """
    log, size = dict(run.command.log), run.factors["batch_size"]
    files = str(folder.resolve() / paths.COMMAND_FOLDER)
    metrics = tasks.user_metrics(log.pop("metrics", {}))
    keys = CommandLog.model_validate(log)
    path = keys.file.replace("{run_dir}", files) or str(folder / paths.COMMAND_OUTPUT)
    return external_runs.read_command_log(path, size, keys, metrics)


def _write_results(
    folder: Path,
    run: commands.CommandRun,
    end: CommandEnd,
    status: str,
    message: str,
    rows: pandas.DataFrame,
) -> None:
    """Write the evaluations of a run, then its record."""
    command = run.command
    # The seconds of a run that shared the machine are no training time.
    train_seconds = end.seconds if command.alone else None
    text = _with_seconds(rows, train_seconds).to_csv(index=False, lineterminator="\n")
    disk.write_text(folder / paths.TRAJECTORY, text)
    files = (paths.TRAJECTORY, paths.COMMAND_NOTE, paths.COMMAND_OUTPUT)
    record = {
        "run": folder.name,
        "version": VERSIONS["run_command"],
        "factors": run.factors,
        "command": run.resolved("{run_dir}")[0],
        "status": status,
        "message": message,
        "sha256": records.file_sha256(folder, files),
        "exit_status": end.status,
        "contended_seconds": end.seconds,
        "train_seconds": train_seconds,
        "alone": command.alone,
        "examples_per_second": throughput(rows) if train_seconds else None,
        **end.usage,
        **(utilisation(end.series, rows) if end.series else {}),
        **command.needs,
        "versions": {},  # The versions of the command's libraries are unknown.
        "machine": records.machine_description(),
        "finished_at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    }
    disk.write_json(paths.run_record(folder), record)
    (folder / memory_limits.KILL_NOTE).unlink(missing_ok=True)


def _with_seconds(rows: pandas.DataFrame, seconds: float | None) -> pandas.DataFrame:
    """Return the evaluations of a run with the column `seconds`, or without it if they are None.

    If the log has no seconds, all examples are assumed to take the same time.
    """
    rows = rows.reindex(columns=dict.fromkeys([*COST_COLUMNS[:2], *rows]))
    if seconds is None or rows.empty:
        return rows.drop(columns="seconds", errors="ignore")
    if "seconds" in rows:
        return rows
    return rows.assign(seconds=seconds * rows["examples"] / rows["examples"].max())
