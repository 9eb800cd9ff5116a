"""Timing jobs, each alone on the machine: of a training's configuration, or of a sweep.

Nothing is trained to its end here, and nothing is fitted over jobs: batchscope.analysis does.

The entry of a timing stands in batchscope.catalogue.timings. Its module, of the same name, has the
function `measure(job, settings) -> Timed`, which gets every setting by full name. `write` writes
the record; other files lie beside `job.output`.
"""

from __future__ import annotations

import contextlib
import importlib
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from batchscope import disk
from batchscope.catalogue import incompatible_factors, names
from batchscope.catalogue.names import Configuration, Sweep
from batchscope.catalogue.timings import TIMINGS
from batchscope.host import description, tensorflow_start
from batchscope.store import records
from batchscope.training.runs import Setup

if TYPE_CHECKING:
    from batchscope.timing.loops import Runner


@dataclass(frozen=True)
class TimingJob(Setup):
    """What one job times: a sweep, or a training's configuration."""

    results: Path | str
    subject: Sweep | Configuration
    model_file: Path | str | None = None
    output: Path | str | None = None  # the record's file; one try of a batch size writes none

    @property
    def factors(self) -> dict[str, Any]:
        return self.subject.factors

    @property
    def gpu(self) -> int | None:
        """Index of the GPU to sample; None where none is used."""
        return 0 if self.factors["device"] == "gpu" else None

    @contextlib.contextmanager
    def runner(self) -> Iterator[Runner]:
        """Open the loop that runs a sweep's steps; TensorFlow must have been started.

        Raises:
            UserError: If the data are missing or fewer than the largest batch.
        """
        from batchscope.timing import loops
        from batchscope.training import augmentations

        factors = self.factors
        train = augmentations.extended(factors["augmentation"], self.data.examples("train"))
        largest = max(self.subject.batch_sizes)
        incompatible_factors.check_batch_size(factors, largest, len(train.labels))
        with tempfile.TemporaryDirectory(prefix="batchscope-") as folder:
            runner = loops.of_factors(factors, self.network(), train, Path(folder) / "jpeg")
            runner.threads = tensorflow_start.threads_of(factors["threads"])
            yield runner


@dataclass(frozen=True)
class Timed:
    """What a timing found."""

    status: str
    details: dict[str, Any]  # of the record; `threads` among them
    # Column of runs.csv -> number; what is left out, or None, has no value.
    values: dict[str, float | None] = field(default_factory=dict)


def write(timing: str, job: TimingJob, machine_name: str, settings: str) -> None:
    """Times a job and writes the record; raises `UserError` if that cannot be done here."""
    parsed = names.parse_settings(timing, settings)
    before, described = description.load(), description.describe()
    # Imported here: a search leaves TensorFlow to its children.
    found: Timed = importlib.import_module(f"{__name__}.{timing}").measure(job, parsed)
    record = records.measure_record(
        timing,
        job.subject.name,
        parsed,
        found.status,
        {**dict.fromkeys(TIMINGS[timing].columns), **found.values},
        factors=job.factors,
        device=job.factors["device"],
        **found.details,
        load={"before": before, "after": description.load()},
        versions=description.versions(),
        machine={"name": machine_name, **described},
    )
    disk.write_json(job.output, record)
