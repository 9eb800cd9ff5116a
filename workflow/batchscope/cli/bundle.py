"""Makes the jobs of a bundle, each by a command of its own, as Snakemake would."""

from __future__ import annotations

import contextlib
import math
import os
import signal
import subprocess
import sys
import time
from collections import deque
from collections.abc import Iterator
from pathlib import Path

from batchscope import disk, project_files, wording
from batchscope.errors import Interrupted, UserError
from batchscope.host import fork_server
from batchscope.store import bundles, paths

_LAST_LINES = 5  # of a log that a failure shows


def make(folder: Path, name: str) -> str:
    """Makes what is missing of a bundle in its study's folder; returns what it did, in a line.

    A step that fails does not keep others from being made, but for those that need its files. After
    its `seconds_at_most` no other is begun, and none at all whose run is not there, as another
    bundle may have left it: what is left goes into other bundles.

    Raises:
        UserError: If steps failed.
        Interrupted: If a signal asked this process to stop; the step under way was asked too.
    """
    bundle, planned = bundles.read(folder, name)
    if fork_server.SNAKEMAKE_PID not in os.environ and not bundle.gpus:
        # Single jobs of one machine fork from one process with the imports behind it; so do these.
        fork_server.launch(project_files.WORKFLOW)
    most = math.inf if bundle.seconds_at_most is None else bundle.seconds_at_most
    failed, made, begun = [], 0, time.monotonic()
    with _stopped() as children:
        for step in bundle.steps:
            if step.made(planned) or not step.ready:
                continue
            if made and time.monotonic() - begun > most:
                break
            made += 1
            if children.run(step):
                failed.append(step)
    if failed:
        logs = "\n".join(f"{step.log}: {_end(Path(step.log))}" for step in failed)
        raise UserError(f"{len(failed)} of {made} jobs failed; the others are made.\n{logs}")
    left = sum(not step.made(planned) for step in bundle.steps)
    disk.write_json(paths.bundle_file(folder, name, paths.BUNDLE_MADE), {"jobs": made})
    return f"{wording.count(made, 'job')} made" + (f", {left} left for later." if left else ".")


class _Children:
    """The commands of a bundle, one at a time."""

    def __init__(self) -> None:
        self._running: subprocess.Popen | None = None
        self._asked = False

    def run(self, step: bundles.Step) -> int:
        """Runs a step, with its output in its log; returns its exit status."""
        if self._asked:
            raise Interrupted
        log = Path(step.log)
        log.parent.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, str(project_files.CLI), *step.words]
        if step.record:  # as Snakemake does: what is made again is not to be taken for it
            Path(step.record).unlink(missing_ok=True)
        with open(log, "w", encoding="utf-8") as output:
            self._running = subprocess.Popen(command, stdout=output, stderr=output)
            if self._asked:  # meanwhile
                self._running.send_signal(signal.SIGTERM)
            status = self._running.wait()
        if self._asked:
            raise Interrupted
        return status

    def stop(self, signum: int, _: object) -> None:
        """Passes on a signal that asks this process to stop."""
        self._asked = True
        if self._running:
            with contextlib.suppress(ProcessLookupError):
                self._running.send_signal(signum)


@contextlib.contextmanager
def _stopped() -> Iterator[_Children]:
    children = _Children()
    before = {each: signal.signal(each, children.stop) for each in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield children
    finally:
        for signum, handler in before.items():
            signal.signal(signum, handler)


def _end(log: Path) -> str:
    with open(log, encoding="utf-8", errors="replace") as file:
        lines = deque((line.rstrip() for line in file if line.strip()), _LAST_LINES)
    return "\n  ".join(lines)
