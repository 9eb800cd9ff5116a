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
    assert found.axes == ([8, 16], [0.1, 0.2], [0, 1]) and found.tuned
    expected = [[[NAN, NAN]] * 2, [[1.0, NAN], [NAN, INF]]]
    assert np.array_equal(found.column("train_loss"), expected, equal_nan=True)
    assert not of((8, 0.1, 0, "finished", 1.0), (16, 0.2, 0, "finished", 1.0)).tuned
