"""Trainings that others disturb, and the rests between them."""

import numpy as np
import psutil
import pytest

from batchscope.timing import processes, utilisation
from batchscope.timing.samples import Sampler


class Machine:
    """A clock of a machine with one busy process, and others that take `levels` after each rest."""

    def __init__(self, levels):
        self.seconds = self.process = self.machine = 0.0
        self.levels, self.others, self.steps_per_call = iter(levels), 0.0, 1

    def __call__(self):
        return processes.CpuReading(self.seconds, self.process, self.machine)

    def run(self, batch_size, steps):
        self.seconds += 0.5 * steps
        self.process += 0.5 * steps
        self.machine += 0.5 * steps * (1 + self.others)
        return 0.5 * steps

    def sleep(self, seconds):
        self.seconds += seconds
        self.others = next(self.levels)


@pytest.mark.parametrize(
    ("levels", "repeats", "disturbed"),
    [
        ([0.1], 0, False),
        ([0.5, 0.5, 0.1], 2, False),
        ([0.5, 0.4, 0.3], 2, True),
    ],
)
def test_a_disturbed_training_is_repeated_and_flagged_where_that_does_not_help(
    levels, repeats, disturbed, monkeypatch
):
    machine = Machine(levels)
    monkeypatch.setattr(processes, "cpu_times", machine)
    monkeypatch.setattr(utilisation.time, "sleep", machine.sleep)
    settings = {"seconds": 2.0, "pause_seconds": 1.0}
    with Sampler(interval=60) as sampler:
        done = utilisation.train(machine, sampler, 8, 2, settings)
    expected = {"steps": 4, "seconds": 2.0, "disturbed": disturbed, "repeats": repeats}
    assert done == expected and not list(machine.levels)
    used = sampler.summary((utilisation.TRAINING_PHASE, 8))
    assert used["foreign_cores"] == pytest.approx(levels[-1])
    assert used["process_percent"] == pytest.approx(100, rel=0.05)  # less the sampling itself

    samples = utilisation.sample_lists(sampler)
    busy = 100 * (1 + levels[-1]) / psutil.cpu_count()
    assert samples["machine_percent"][-2] == pytest.approx(busy, rel=1e-3)
    spans = np.diff(samples["seconds"], prepend=0.0)
    by_phase: dict[str | None, float] = {}
    for phase, span in zip(samples["phase"], spans, strict=True):
        by_phase[phase] = by_phase.get(phase, 0.0) + span
    # Only the pauses are outside all phases.
    assert by_phase.pop("repeated", 0.0) == 2.0 * repeats
    assert by_phase == {"lead_in": 0.5, "batch_size": 2.0, None: 1.0 + repeats}
    assert samples["batch_size"].count(8) == samples["phase"].count("batch_size")
    assert "gpu_percent" not in samples
