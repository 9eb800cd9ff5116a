"""How many steps are left untimed after a change of batch size."""

from __future__ import annotations

import math

import pytest

from batchscope.timing.steps import lead_in


@pytest.mark.parametrize(
    ("taken", "enough", "steps"),
    [
        ([0.001, 0.001, 0.001], 0.25, 3),
        ([0.2, 0.1, 0.1], 0.25, 2),
        ([7.0, 7.0, 7.0], 0.25, 1),
        ([0.25, 7.0, 7.0], 0.25, 1),
        ([7.0, 7.0, 7.0], math.inf, 3),
    ],
)
def test_a_lead_in_ends_after_its_steps_or_once_they_took_enough(taken, enough, steps):
    asked = []

    def run(count: int) -> float:
        asked.append(count)
        return taken[len(asked) - 1]

    lead_in.run(run, enough)
    assert asked == [1] * steps


def test_a_call_of_many_steps_is_a_lead_in():
    asked = []
    lead_in.run(lambda count: asked.append(count) or 0.0, math.inf, unit=32)
    assert asked == [32]


def test_a_lead_in_takes_all_batches_that_a_pipeline_keeps_ready():
    from batchscope.host import tensorflow_start

    tensorflow_start.quiet()
    from batchscope.timing.steps import loops, pipelines

    assert lead_in.STEPS > pipelines.PREFETCH_BATCHES
    assert loops.Runner.lead_in_seconds == lead_in.ENOUGH_SECONDS
