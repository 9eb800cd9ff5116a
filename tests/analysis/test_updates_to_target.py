"""Series, targets and what follows from a table of evaluations, against curves made by hand."""

import math

import numpy as np
import pandas
import pytest

from batchscope.analysis import updates_to_target
from batchscope.analysis.updates_to_target import Target

SIZES = (8, 16, 32, 64, 128)


def evaluations(critical=40.0, sizes=SIZES, seeds=(0, 1), **factors):
    """Trainings whose loss falls by a factor of e in 10 (1 + B_crit / B) updates."""
    rows = []
    for size in sizes:
        for seed in seeds:
            for updates in range(0, 501, 5):
                loss = 2 * math.exp(-updates / (10 * (1 + critical / size)))
                seconds = 0.5 + updates * (0.002 + 0.0001 * size)  # 0.5 s to start
                row = {"batch_size": size, "seed": seed, "updates": updates, "seconds": seconds}
                rows.append({**row, "examples": updates * size, "validation_loss": loss, **factors})
    return pandas.DataFrame(rows)


def test_a_series_is_found_whole():
    """The loss is straight in its logarithm, so that crossings are exact."""
    (found,) = updates_to_target.scalings(evaluations(), (), [Target("validation_loss", 0.2)])
    assert found.batch_sizes == list(SIZES)
    updates = math.log(10) * 10 * (1 + 40 / np.array(SIZES))
    assert found.measured["updates"] == pytest.approx(np.stack([updates, updates], axis=1))
    assert found.measured["examples"][:, 0] == pytest.approx(updates * SIZES)
    assert found.fit.critical_batch_size == pytest.approx(40)
    assert found.fit.updates_min == pytest.approx(10 * math.log(10))
    assert found.step == pytest.approx((0.002, 0.0001))  # whatever a training took to start
    assert found.fastest.batch_size == pytest.approx(math.sqrt(40 * 20))
    assert found.ratios()[SIZES.index(32)].mean == 1  # where the least measured seconds are


def test_three_targets_from_the_first_evaluation_to_the_lowest_of_all():
    rows = evaluations()
    rows = rows[rows["updates"] > 0]
    targets = updates_to_target.default_targets(rows)
    start = rows[rows["updates"] == 5]["validation_loss"].min()
    end = rows.groupby(["batch_size", "seed"])["validation_loss"].min().max()
    steps = start * (end / start) ** (np.arange(1, 4) / 3)
    assert [each.value for each in targets] == pytest.approx(steps)
    assert targets[-1].value == end
    found = updates_to_target.scalings(rows)
    assert [each.target for each in found] == targets
    assert all(each.fitted.all() for each in found)
    assert all(each.fit.critical_batch_size == pytest.approx(40) for each in found)


def test_accuracies_are_read_as_errors():
    rows = evaluations()
    rows["validation_accuracy"] = 1 - rows.pop("validation_loss") / 2
    (found,) = updates_to_target.scalings(rows, (), [Target("validation_accuracy", 0.9)])
    assert found.fit.updates_min == pytest.approx(10 * math.log(10))
    targets = updates_to_target.default_targets(rows[rows["updates"] > 0])
    assert len(targets) == 3 and targets[0].value < targets[1].value < targets[2].value < 1


def test_sizes_that_do_not_reach_the_target_are_left_out():
    rows = evaluations()
    rows.loc[(rows["batch_size"] == 8) & (rows["seed"] == 1), "validation_loss"] = math.nan
    (found,) = updates_to_target.scalings(rows, (), [Target("validation_loss", 0.2)])
    assert found.fitted.tolist() == [False, True, True, True, True]
    assert found.measured["updates"][0, 1] == math.inf
    assert (found.fit.points, found.fit.critical_batch_size) == (4, pytest.approx(40))
    (far,) = updates_to_target.scalings(rows, (), [Target("validation_loss", 1e-15)])
    assert far.fit is None and far.fastest is None
    (near,) = updates_to_target.scalings(rows, (), [Target("validation_loss", 5.0)])
    assert near.fit is None  # there before the first update
    assert updates_to_target.default_targets(rows) == []


def test_columns_tell_series_apart():
    rows = pandas.concat([evaluations(model="a"), evaluations(critical=90.0, model="b")])
    rows["learning_rate"] = rows["batch_size"] / 100  # follows from the batch size
    rows["same"] = "x"
    targets = [Target("validation_loss", 0.2)]
    first, second = updates_to_target.scalings(rows, ("same", "learning_rate", "model"), targets)
    assert (first.factors, second.factors) == ({"model": "a"}, {"model": "b"})
    assert first.along == {"learning_rate": [size / 100 for size in SIZES]}
    critical = [each.fit.critical_batch_size for each in (first, second)]
    assert critical == pytest.approx([40, 90])


def test_rates_that_were_tried_at_every_size_are_series():
    rows = [evaluations(learning_rate=rate) for rate in (0.1, 0.2)]
    found = updates_to_target.series(pandas.concat(rows), ["learning_rate"])
    assert [factors for factors, _, _ in found] == [{"learning_rate": 0.1}, {"learning_rate": 0.2}]


def test_a_single_row_at_the_target():
    updates = 100 * (1 + 40 / np.array(SIZES))
    rows = pandas.DataFrame({"batch_size": SIZES, "seed": 0, "updates": updates})
    rows = rows.assign(examples=rows["updates"] * rows["batch_size"])
    (found,) = updates_to_target.scalings(rows)
    assert found.target == Target()
    assert found.fit.critical_batch_size == pytest.approx(40)
    rows.loc[0, ["updates", "examples"]] = math.nan
    (found,) = updates_to_target.scalings(rows)
    assert found.measured["updates"][0, 0] == math.inf and not found.fitted[0]


def test_the_time_of_a_step_is_stated_or_fitted():
    targets = [Target("validation_loss", 0.2)]
    stated = updates_to_target.scalings(evaluations(), (), targets, (0.004, 0.0001))[0]
    assert stated.cost is None
    assert stated.fastest.batch_size == pytest.approx(math.sqrt(40 * 40))
    without = updates_to_target.scalings(evaluations().drop(columns="seconds"), (), targets)[0]
    assert without.step is None and without.fastest is None
    uneven = evaluations()
    uneven = uneven[(uneven["batch_size"] != 8) | (uneven["seed"] == 0)]
    assert updates_to_target.scalings(uneven, (), targets)[0].step == pytest.approx((0.002, 0.0001))
    falling = evaluations()
    falling["seconds"] = falling["updates"] * (0.02 - 0.0001 * falling["batch_size"])
    found = updates_to_target.scalings(falling, (), targets)[0]
    assert found.cost.per_image.value == pytest.approx(-0.0001)
    assert found.step is None and found.fastest is None
