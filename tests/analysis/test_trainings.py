"""The trainings of a series: their numbers as cubes, read at the rates that are chosen."""

import numpy as np
import pandas

from batchscope.analysis.trainings import Trainings

NAN, INF = float("nan"), float("inf")


def of(*rows):
    """Returns trainings of rows of batch size, rate, seed, status and loss."""
    names = ["batch_size", "learning_rate", "seed", "status", "train_loss"]
    runs = pandas.DataFrame(rows, columns=names)
    return Trainings({}, runs, runs[:0].assign(run=""))


def test_runs_are_read_as_a_cube():
    found = of(
        (16, 0.1, 0, "finished", 1.0),
        (16, 0.2, 1, "diverged", 9.0),
        (8, 0.1, 1, "missing", 3.0),
    )
    assert found.axes == ([8, 16], [0.1, 0.2], [0, 1]) and found.has_several_rates
    expected = [[[NAN, NAN]] * 2, [[1.0, NAN], [NAN, INF]]]
    assert np.array_equal(found.column_cube("train_loss"), expected, equal_nan=True)
    assert not of((8, 0.1, 0, "finished", 1.0), (16, 0.2, 0, "finished", 1.0)).has_several_rates


def test_a_seed_is_read_at_the_rate_of_all_or_at_that_of_the_others():
    """At .1 seed 0 alone is best; without it .2 is better."""
    losses = {(0.1, 0): 0.1, (0.1, 1): 0.6, (0.2, 0): 0.4, (0.2, 1): 0.5}
    each = of(*((8, *key, "finished", loss) for key, loss in losses.items()))
    cube = each.column_cube("train_loss")
    for found in (each.choose_by_losses(cube, cube, True), each.choose_by_costs(cube)):
        assert found.rates.tolist() == [0.1] and found.on_edge.all() and found.tuned.all()
        assert each.rates_at(found.rate_index).tolist() == [[0.2, 0.1]]
        assert found.values.tolist() == [[0.4, 0.6]]
    found = each.choose_by_losses(cube, -cube, False)
    assert found.values.tolist() == [[-0.1, -0.6]] and found.tuned.all()
