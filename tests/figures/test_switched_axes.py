"""Figures over epochs come with the same over the other budgets."""

import matplotlib.figure
import numpy as np
import pandas
import pytest

from batchscope import figures
from batchscope.figures.drawing import against_epoch
from batchscope.study import planner

UPDATES, EXAMPLES, SECONDS = (
    f"loss_curves_by_{axis}" for axis in ("updates", "examples", "seconds")
)


def drawn(sizes=(16, 32), **keys):
    """Returns the figures over epochs, and what comes with them, of an experiment."""
    body = {
        "set": {"model": "small_cnn", "dataset": "digits", "optimizer": "sgd"},
        "vary": {"batch_size": [*sizes], "learning_rate": [0.1], "epochs": [2]},
        "seeds": 2,
        **keys,
    }
    study = planner.make({"study": "s", "experiments": {"gap": body}})
    return [name for name in figures.drawn(study.experiments["gap"]) if "best_" not in name]


@pytest.mark.parametrize(
    ("keys", "names"),
    [
        ({}, ["loss_curves", UPDATES]),
        ({"measure": ["time_epoch"]}, ["loss_curves", UPDATES, SECONDS, "time"]),
        # An epoch has as many updates in every run: the axis would be the same.
        ({"sizes": (16,)}, ["loss_curves"]),
        ({"figures": ["loss_curves"]}, ["loss_curves", UPDATES]),
        ({"figures": [UPDATES]}, [UPDATES]),
        ({"figures": ["loss_curves", EXAMPLES, UPDATES]}, ["loss_curves", UPDATES, EXAMPLES]),
    ],
)
def test_budgets_come_with_epochs(keys, names):
    assert drawn(**keys) == names


@pytest.mark.parametrize("counted", ["epoch", "updates"])
def test_means_of_seeds_with_times_of_their_own_are_of_equal_updates(counted):
    frame = pandas.DataFrame(
        {
            "batch_size": 16,
            "seed": [0, 0, 0, 1, 1, 1],
            "status": "finished",
            counted: [1, 2, 3] * 2,
            "seconds": [1.0, 2.0, 3.0, 1.2, 2.4, 3.6],
            "loss": [4.0, 3.0, 2.0, 6.0, 5.0, 4.0],
        }
    )
    axes = matplotlib.figure.Figure().subplots()
    lines = against_epoch.Lines("seconds", {16: {"color": "k"}}, 9, 9, singles=False)
    lines.draw(axes, frame, "loss")
    (mean,) = axes.lines
    assert mean.get_xdata() == pytest.approx([1.1, 2.2, 3.3])
    assert mean.get_ydata() == pytest.approx([5, 4, 3])
    (band,) = axes.collections
    assert len(np.unique(band.get_paths()[0].vertices[:, 0])) == 3


@pytest.mark.parametrize(
    ("axis", "seeds", "alone"),
    [("updates", 200, True), ("updates", 201, False), ("epoch", 201, True)],
)
def test_many_runs_have_lines_of_their_own_over_epochs_alone(axis, seeds, alone):
    frame = pandas.DataFrame({"batch_size": 16, "seed": range(seeds), "status": "finished"})
    frame["epoch"] = frame[axis] = 1
    assert against_epoch.Lines.of(frame, 1, 1).singles == alone
    drawing = figures.FIGURES["loss_curves"].draw(frame.assign(train_loss=1.0, validation_loss=1.0))
    assert (len(drawing.axes[0].lines) > seeds) == alone
    assert ("Thin: every run" in drawing.get_supxlabel().replace("\n", " ")) == alone


@pytest.mark.parametrize(
    ("small", "expected"),
    [
        (
            [[1.0, 2.0], [1.0, 2.0]],
            "within 2 s, which every finished run has used, was 4 at batch size 16 (2 of 2 seeds). "
            "Mean validation loss at its end was 5 at batch size 16 (2 of 2 seeds). No epoch of "
            "every seed ends within 2 s, which every finished run has used, at batch size 64.",
        ),
        (
            [[2.0], [2.5]],
            "No epoch of every seed ends within 2 s, which every finished run has used.",
        ),
    ],
)
def test_batch_sizes_are_compared_where_all_their_seeds_have_a_value(small, expected):
    """One seed of batch size 64 ends its first epoch after the shortest training."""
    ends = {16: small, 64: [[1.5, 3.0], [2.2, 4.4]]}
    rows = [
        (size, seed, "finished", epoch, seconds, 4.0, 5.0)
        for size, runs in ends.items()
        for seed, run in enumerate(runs)
        for epoch, seconds in enumerate(run, 1)
    ]
    named = ["batch_size", "seed", "status", "epoch", "seconds", "train_loss", "validation_loss"]
    assert expected in figures.FIGURES["loss_curves"].found(pandas.DataFrame(rows, columns=named))
