"""Time a sweep or a training's configuration in one job, and write its record.

`TimingJob` has the job's data, model and loop. `measure` of the timing's own module times it.
"""

from __future__ import annotations

import contextlib
import importlib
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from batchscope.core import disk
from batchscope.host import tensorflow_start
from batchscope.store import records
from batchscope.study import incompatible_factors, names, run_factors
from batchscope.study.names import Configuration, Sweep
from batchscope.study.registry import TIMINGS
from batchscope.training.runs import Setup

if TYPE_CHECKING:
    from batchscope.datasets import Examples
    from batchscope.timing import Timed
    from batchscope.timing.loops import Runner


@dataclass(frozen=True)
class TimingJob(Setup):
    """A job that times a sweep, or a training's configuration. `Setup` has data and network."""

    results: Path | str
    subject: Sweep | Configuration
    model_file: Path | str | None
    output: Path  # file of the record, or of the reply of a try

    @property
    def factors(self) -> dict[str, Any]:
        return self.subject.factors

    @property
    def threads(self) -> int:
        return tensorflow_start.thread_count(self.factors["threads"])

    @property
    def gpus(self) -> int:
        return run_factors.gpu_count(self.factors)

    def training_examples(self, batch_size: int) -> Examples:
        """Return the augmented training examples.

        Raises:
            UserError: If the data are missing or have fewer examples than a batch.
        """
        from batchscope.training import inputs

        factors = self.factors
        train = inputs.extended_examples(factors["augmentation"], self.data.examples("train"))
        incompatible_factors.check_batch_size(factors, batch_size, len(train.labels))
        return train

    @contextlib.contextmanager
    def runner(self) -> Iterator[Runner]:
        """Yield the loop that runs a sweep's steps; TensorFlow must have been started."""
        from batchscope.timing import loops

        train = self.training_examples(max(self.subject.batch_sizes))
        with tempfile.TemporaryDirectory(prefix="batchscope-") as folder:
            yield loops.make_runner(self.factors, self.network(), train, Path(folder) / "jpeg")


def time_and_write(timing: str, job: TimingJob, machine_name: str, settings: str) -> None:
    """Time a job and write its record; raise `UserError` if this machine cannot time it."""
    parsed = names.parse_settings(timing, settings)
    started = time.monotonic()
    timed: Timed = importlib.import_module(f"batchscope.timing.{timing}").measure(job, parsed)
    record = records.measure_record(
        timing,
        job.subject.name,
        parsed,
        timed.status,
        {**dict.fromkeys(TIMINGS[timing].columns), **timed.values},
        factors=job.factors,
        device=job.factors["device"],
        threads=job.threads,
        **timed.details,
        job_seconds=time.monotonic() - started,
        versions=records.package_versions(),
        machine={"name": machine_name, **records.machine_description()},
    )
    disk.write_json(job.output, record)
