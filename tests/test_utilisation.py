"""Energy of an epoch from that of some steps."""

import pytest

from batchscope.timing import utilisation


@pytest.mark.parametrize(
    ("watts", "seconds", "steps", "batch_size", "examples", "joules"),
    [
        (100.0, 5.0, 50, 10, 1000, 1000.0),  # half an epoch
        (100.0, 5.0, 50, 10, 500, 500.0),
        (250.0, 2.0, 8, 32, 64, 125.0),  # four epochs
    ],
)
def test_energy_of_an_epoch(watts, seconds, steps, batch_size, examples, joules):
    used = watts * seconds
    found = utilisation.joules_per_epoch(used, steps * batch_size, examples)
    assert found == pytest.approx(joules)
