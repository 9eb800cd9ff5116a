"""Series, targets and what follows from a table of evaluations, against curves made by hand."""

import itertools
import math

import numpy as np
import pandas
import pytest

from batchscope.analysis import targets, trainings, updates_to_target
from batchscope.analysis.targets import Target

SIZES = (8, 16, 32, 64, 128)


def evaluations(critical=40.0, sizes=SIZES, seeds=(0, 1), start=0, **factors):
    """Trainings whose loss falls by a factor of e in 10 (1 + B_crit / B) updates."""
    rows = []
    for size, seed in itertools.product(sizes, seeds):
        for updates in range(start, 501, 5):
            loss = 2 * math.exp(-updates / (10 * (1 + critical / size)))
            seconds = 0.5 + updates * (0.002 + 0.0001 * size)  # 0.5 s to start
            row = {"batch_size": size, "seed": seed, "updates": updates, "seconds": seconds}
            rows.append({**row, "examples": updates * size, "validation_loss": loss, **factors})
    return pandas.DataFrame(rows)


def scaling(rows, value=0.2, factors=()):
    """Returns the scaling of the only series to a validation loss."""
    (found,) = updates_to_target.scalings(rows, factors, [Target("validation_loss", value)])
    return found


def costs(found):
    """Returns the costs of a step, fixed and per example."""
    return found.step.fixed.value, found.step.per_image.value


def read(found):
    """Returns the rates at which the updates are read, shape (sizes, seeds)."""
    return found.trainings.rates(found.taken["updates"].read)


def default_targets(rows):
    """Returns the default targets of the only series."""
    (found,) = trainings.of_evaluations(rows, ())
    return targets.default_targets(found)


def exact(sizes=SIZES):
    """Returns the updates that `evaluations` take to a validation loss of .2."""
    return math.log(10) * 10 * (1 + 40 / np.array(sizes))


def test_a_series_is_found_whole():
    """The loss is straight in its logarithm, so that crossings are exact."""
    rows = evaluations()
    blank = pandas.concat([rows, rows.assign(updates=rows["updates"] + 2.5)])
    blank.loc[blank["updates"] % 5 > 0, "validation_loss"] = math.nan  # which is passed over
    updates = exact()
    for found in (scaling(rows), scaling(blank)):
        assert found.taken["updates"].values == pytest.approx(np.stack([updates, updates], axis=1))
    found = scaling(rows)
    assert found.batch_sizes == list(SIZES)
    assert found.taken["examples"].values[:, 0] == pytest.approx(updates * SIZES)
    assert found.fit.critical_batch_size == pytest.approx(40)
    assert found.fit.updates_min == pytest.approx(10 * math.log(10))
    assert costs(found) == pytest.approx((0.002, 0.0001))  # whatever a training took to start
    assert found.fastest.batch_size == pytest.approx(math.sqrt(40 * 20))
    assert found.measured_fastest("seconds") == 32


def test_three_targets_from_the_first_evaluation_to_the_lowest_of_all():
    rows = evaluations(start=5)
    found = default_targets(rows)
    start = rows[rows["updates"] == 5]["validation_loss"].min()
    end = rows.groupby(["batch_size", "seed"])["validation_loss"].min().max()
    steps = start * (end / start) ** (np.arange(1, 4) / 3)
    assert [each.value for each in found] == pytest.approx(steps)
    assert found[-1].value == end
    fitted = updates_to_target.scalings(rows)
    assert [each.target for each in fitted] == found
    assert all(each.fit.critical_batch_size == pytest.approx(40) for each in fitted)
    rows = rows.assign(train_loss=rows["validation_loss"], validation_loss=math.nan)
    assert {each.column for each in default_targets(rows)} == {"train_loss"}
    rows = rows.drop(columns=["train_loss", "validation_loss"])
    assert default_targets(rows) == []


def test_the_last_target_is_what_every_seed_reached_at_one_rate_of_every_size():
    """An empty column of rates is one; a rate that was tried with some seeds decides nothing."""
    rows = evaluations(start=5)
    rows = rows[(rows["seed"] == 0) | (rows["updates"] <= 200)]
    known = rows.groupby(["batch_size", "seed"])["validation_loss"].min().max()
    stray = rows[rows["seed"] == 0].assign(learning_rate=0.2)
    some = pandas.concat([rows.assign(learning_rate=0.1), stray])
    for frame in (rows, rows.assign(learning_rate=math.nan), some):
        assert default_targets(frame)[-1].value == known
    rows = tuned()
    rows = rows[rows["updates"] > 0]
    best = rows[(rows["learning_rate"] == 0.2) & (rows["batch_size"] == 8)]
    lowest = best.groupby("seed")["validation_loss"].min().max()
    assert default_targets(rows)[-1].value == pytest.approx(lowest)


def test_a_target_that_holds_by_the_first_evaluation_is_an_upper_bound():
    rows = evaluations()
    late = rows[rows["updates"] >= 20]  # at 8 the loss is 1.4 by then, at 128 it is .43
    assert scaling(late, 0.6).at_first.any(axis=1).tolist() == [False, False, False, True, True]
    assert not scaling(rows, 0.6).at_first.any()
    tried = pandas.concat([late.assign(learning_rate=0.1), rows.assign(learning_rate=0.2)])
    found = scaling(tried, 0.6, ["learning_rate"])
    assert read(found)[-1].tolist() == [0.2, 0.2] and not found.at_first.any()


def test_accuracies_are_read_as_errors():
    rows = evaluations()
    rows["validation_accuracy"] = 1 - rows.pop("validation_loss") / 2
    (found,) = updates_to_target.scalings(rows, (), [Target("validation_accuracy", 0.9)])
    assert found.fit.updates_min == pytest.approx(10 * math.log(10))
    found = default_targets(rows[rows["updates"] > 0])
    assert len(found) == 3 and found[0].value < found[1].value < found[2].value < 1


def test_sizes_that_do_not_reach_the_target_are_left_out():
    rows = evaluations()
    rows.loc[(rows["batch_size"] == 8) & (rows["seed"] == 1), "validation_loss"] = math.nan
    found = scaling(rows)
    assert found.fitted.tolist() == [False, True, True, True, True]
    assert found.taken["updates"].values[0, 1] == math.inf
    assert (found.fit.points, found.fit.critical_batch_size) == (4, pytest.approx(40))
    far = scaling(rows, 1e-15)
    assert far.fit is None and far.fastest is None
    assert scaling(rows, 5.0).fit is None  # there before the first update
    failed = evaluations(start=5, status="finished")
    failed.loc[(failed["batch_size"] == 128) & (failed["seed"] == 1), "status"] = "diverged"
    assert [each.fitted.tolist() for each in updates_to_target.scalings(failed)] == [
        [True] * 4 + [False]
    ] * 3
    few = rows[rows["batch_size"].isin([8, 16, 32])]
    assert default_targets(few) == []


def test_columns_distinguish_series():
    rows = pandas.concat([evaluations(model="a"), evaluations(critical=90.0, model="b")])
    rows["learning_rate"] = rows["batch_size"] / 100  # follows from the batch size
    rows["same"] = "x"
    to = [Target("validation_loss", 0.2)]
    first, second = updates_to_target.scalings(rows, ("same", "learning_rate", "model"), to)
    assert (first.factors, second.factors) == ({"model": "a"}, {"model": "b"})
    assert first.trainings.along == {"learning_rate": [size / 100 for size in SIZES]}
    critical = [each.fit.critical_batch_size for each in (first, second)]
    assert critical == pytest.approx([40, 90])
    texts = [evaluations(learning_rate=rate) for rate in ("cosine", "constant")]
    found = trainings.of_evaluations(pandas.concat(texts), ["learning_rate"])
    assert [each.factors["learning_rate"] for each in found] == ["cosine", "constant"]


def tuned(seeds=(0, 1, 2)):
    """Three rates: one too slow, one that is right, and one that diverges from batch size 32 on.

    The best of a size is .2 at 8 and 16, where .4 takes a tenth longer, and .4 above; there seed 0
    alone is faster at .2.
    """
    parts = []
    for size, seed in itertools.product(SIZES, seeds):
        for rate, times in ((0.1, 2.0), (0.2, 1.0), (0.4, 1.1), (0.8, 1.05)):
            rows = evaluations(sizes=[size], seeds=[seed], learning_rate=rate, status="finished")
            if size >= 32:
                times = {0.2: 0.95 if seed == 0 else 1.3, 0.4: 1.0}.get(rate, times)
            rows["validation_loss"] = 2 * (rows["validation_loss"] / 2) ** (1 / times)
            if rate == 0.8 and seed == 1:  # there first, and away later
                rows.loc[rows["updates"] > 300, "validation_loss"] = math.nan
                rows["status"] = "diverged"
            parts.append(rows)
    return pandas.concat(parts, ignore_index=True)


def test_rates_that_were_tried_are_chosen_and_distinguish_no_series():
    found = scaling(tuned(), factors=["learning_rate"])
    assert found.factors == {} and found.trainings.along == {}
    chosen = found.taken["updates"]
    assert found.trainings.tuned and found.trainings.axes[1] == [0.1, 0.2, 0.4, 0.8]
    assert chosen.rates.tolist() == [0.2, 0.2, 0.4, 0.4, 0.4] and not chosen.on_edge.any()
    none = [()] * len(SIZES)
    assert found.left_out() == {"diverged": [(0.8,)] * len(SIZES), "never": none}
    # Seed 0 reads above 16 what the others choose, .4, though it is faster at .2 itself.
    assert found.taken["updates"].values[:, 0] == pytest.approx(exact())
    seconds = 0.5 + exact() * (0.002 + 0.0001 * np.array(SIZES))
    assert found.taken["seconds"].values[:, 0] == pytest.approx(seconds)
    assert costs(found) == pytest.approx((0.002, 0.0001))
    unknown = scaling(tuned().drop(columns="status"), 1e-15, ["learning_rate"]).left_out()
    assert unknown["never"][-1] == (0.1, 0.2, 0.8) and unknown["diverged"] == none


def test_the_rate_of_a_seed_is_chosen_by_the_others():
    """Of two seeds each prefers another rate, and so reads the other's, which is slower for it."""
    parts = []
    for size, seed, rate in itertools.product(SIZES, (0, 1), (0.1, 0.2)):
        rows = evaluations(sizes=[size], seeds=[seed], learning_rate=rate)
        slow = (seed == 0) == (rate == 0.2)
        rows["validation_loss"] = 2 * (rows["validation_loss"] / 2) ** (0.5 if slow else 1.0)
        parts.append(rows)
    frame = pandas.concat(parts)
    found = scaling(frame, factors=["learning_rate"])
    assert read(found)[0].tolist() == [0.2, 0.1] and found.taken["updates"].tuned.all()
    twice = 2 * exact()
    assert found.taken["updates"].values == pytest.approx(np.stack([twice, twice], axis=1))
    assert found.taken["updates"].on_edge.all()
    alone = scaling(frame[frame["seed"] == 0], factors=["learning_rate"])
    assert read(alone)[:, 0].tolist() == [0.1] * len(SIZES)
    assert alone.taken["updates"].values[:, 0] == pytest.approx(twice / 2)


def test_a_single_row_at_the_target():
    updates = 100 * (1 + 40 / np.array(SIZES))
    rows = pandas.DataFrame({"batch_size": SIZES, "seed": 0, "updates": updates})
    rows = rows.assign(examples=rows["updates"] * rows["batch_size"])
    (found,) = updates_to_target.scalings(rows)
    assert not found.target.column and math.isnan(found.target.value)
    assert found.fit.critical_batch_size == pytest.approx(40)
    rows.loc[0, ["updates", "examples"]] = math.nan
    (found,) = updates_to_target.scalings(rows)
    assert found.taken["updates"].values[0, 0] == math.inf and not found.fitted[0]


def test_the_time_of_a_step_is_stated_or_fitted():
    targets = [Target("validation_loss", 0.2)]
    (stated,) = updates_to_target.scalings(evaluations(), (), targets, (0.004, 0.0001))
    assert stated.fastest.batch_size == pytest.approx(math.sqrt(40 * 40))
    without = scaling(evaluations().drop(columns="seconds"))
    assert without.step is None and without.fastest is None
    uneven = evaluations(seeds=(0, 1, 2))
    uneven = uneven[(uneven["batch_size"] != 8) | (uneven["seed"] > 0)]
    assert costs(scaling(uneven)) == pytest.approx((0.002, 0.0001))


def test_a_step_that_is_no_line_or_has_no_fixed_cost_gives_no_closed_form():
    rows = evaluations(seeds=range(6))
    noise = np.exp(np.random.default_rng(0).normal(0, 0.02, (6, 129)))
    size, times = rows["batch_size"], noise[rows["seed"], rows["batch_size"]]
    for step in ((1e-6 + 1e-4 * size) * times, 0.002 + 1e-6 * size**2, 0.02 - 1e-4 * size):
        found = scaling(rows.assign(seconds=rows["updates"] * step))
        assert found.step is None and found.fastest is None


def test_a_step_has_the_examples_that_it_had_and_not_a_whole_batch():
    rows = evaluations(seeds=range(3))
    share = np.where(rows["batch_size"] > 32, 0.8, 1)
    rows["examples"] = rows["updates"] * rows["batch_size"] * share
    per_step = 0.002 + 0.0001 * rows["examples"] / rows["updates"]
    rows["seconds"] = (rows["updates"] * per_step).fillna(0)
    assert costs(scaling(rows)) == pytest.approx((0.002, 0.0001))
