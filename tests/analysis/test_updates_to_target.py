"""Series, targets and what follows from a table of evaluations, against curves made by hand."""

import itertools
import math

import numpy as np
import pandas
import pytest

from batchscope.analysis import step_cost, to_target_tables, updates_to_target
from batchscope.analysis.updates_to_target import Target

SIZES = (8, 16, 32, 64, 128)


def evaluations(critical=40.0, sizes=SIZES, seeds=(0, 1), start=0, **factors):
    """Trainings whose loss falls by a factor of e in 10 (1 + B_crit / B) updates."""
    rows = []
    for size in sizes:
        for seed in seeds:
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


def exact(sizes=SIZES):
    """Returns the updates that `evaluations` take to a validation loss of .2."""
    return math.log(10) * 10 * (1 + 40 / np.array(sizes))


def test_a_series_is_found_whole():
    """The loss is straight in its logarithm, so that crossings are exact."""
    found = scaling(evaluations())
    assert found.batch_sizes == list(SIZES)
    updates = exact()
    assert found.measured["updates"] == pytest.approx(np.stack([updates, updates], axis=1))
    assert found.measured["examples"][:, 0] == pytest.approx(updates * SIZES)
    assert found.fit.critical_batch_size == pytest.approx(40)
    assert found.fit.updates_min == pytest.approx(10 * math.log(10))
    assert found.step.costs == pytest.approx((0.002, 0.0001))  # whatever a training took to start
    assert found.fastest.batch_size == pytest.approx(math.sqrt(40 * 20))
    assert found.ratios()[SIZES.index(32)].mean == 1  # where the least measured seconds are


def test_three_targets_from_the_first_evaluation_to_the_lowest_of_all():
    rows = evaluations(start=5)
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


def test_the_last_target_is_what_every_seed_reached_where_no_rate_is_known():
    """Trainings made elsewhere may have none: an empty column of rates is one, and not several."""
    rows = evaluations(start=5)
    rows = rows[(rows["seed"] == 0) | (rows["updates"] <= 200)]
    known = rows.groupby(["batch_size", "seed"])["validation_loss"].min().max()
    for frame in (rows, rows.assign(learning_rate=math.nan)):
        assert updates_to_target.default_targets(frame)[-1].value == known


def test_a_target_that_holds_by_the_first_evaluation_is_an_upper_bound():
    rows = evaluations()
    late = rows[rows["updates"] >= 20]  # at 8 the loss is 1.4 by then, at 128 it is .43
    assert scaling(late, 0.6).at_first.any(axis=1).tolist() == [False, False, False, True, True]
    assert not scaling(rows, 0.6).at_first.any()
    without = rows.assign(validation_loss=rows["validation_loss"].where(rows["seed"] == 0))
    found = scaling(without, 0.6)
    assert not found.at_first.any() and np.isinf(found.measured["updates"][:, 1]).all()
    tried = pandas.concat([late.assign(learning_rate=0.1), rows.assign(learning_rate=0.2)])
    found = scaling(tried, 0.6, ["learning_rate"])
    assert found.rates["updates"].read[-1].tolist() == [0.2, 0.2] and not found.at_first.any()


def test_default_targets_are_of_what_has_values():
    rows = evaluations(start=5)
    rows = rows.assign(train_loss=rows["validation_loss"], validation_loss=math.nan)
    assert {each.column for each in updates_to_target.default_targets(rows)} == {"train_loss"}


def test_evaluations_without_a_value_are_passed_over():
    rows = evaluations()
    blank = pandas.concat([rows, rows.assign(updates=rows["updates"] + 2.5)])
    blank.loc[blank["updates"] % 5 > 0, "validation_loss"] = math.nan
    expected = scaling(rows).measured["updates"]
    assert scaling(blank).measured["updates"] == pytest.approx(expected)


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
    found = scaling(rows)
    assert found.fitted.tolist() == [False, True, True, True, True]
    assert found.measured["updates"][0, 1] == math.inf
    assert (found.fit.points, found.fit.critical_batch_size) == (4, pytest.approx(40))
    far = scaling(rows, 1e-15)
    assert far.fit is None and far.fastest is None
    assert scaling(rows, 5.0).fit is None  # there before the first update
    # Nor has it a say in what all others reached.
    found, expected = (
        [each.value for each in updates_to_target.default_targets(given)]
        for given in (rows, rows[rows["batch_size"] > 8])
    )
    assert found == pytest.approx(expected)
    few = rows[rows["batch_size"].isin([8, 16, 32])]
    assert updates_to_target.default_targets(few) == []


def test_columns_distinguish_series():
    rows = pandas.concat([evaluations(model="a"), evaluations(critical=90.0, model="b")])
    rows["learning_rate"] = rows["batch_size"] / 100  # follows from the batch size
    rows["same"] = "x"
    targets = [Target("validation_loss", 0.2)]
    first, second = updates_to_target.scalings(rows, ("same", "learning_rate", "model"), targets)
    assert (first.factors, second.factors) == ({"model": "a"}, {"model": "b"})
    assert first.along == {"learning_rate": [size / 100 for size in SIZES]}
    critical = [each.fit.critical_batch_size for each in (first, second)]
    assert critical == pytest.approx([40, 90])


def tuned(seeds=(0, 1, 2), status=True):
    """Three rates: one too slow, one that is right, and one that diverges from batch size 32 on.

    The best of a size is .2 at 8 and 16, where .4 takes a tenth longer, and .4 above; there seed 0
    alone is faster at .2.
    """
    parts = []
    for size, seed in itertools.product(SIZES, seeds):
        for rate, times in ((0.1, 2.0), (0.2, 1.0), (0.4, 1.1), (0.8, 1.05)):
            rows = evaluations(sizes=[size], seeds=[seed], learning_rate=rate)
            if size >= 32:
                times = {0.2: 0.95 if seed == 0 else 1.3, 0.4: 1.0}.get(rate, times)
            slower = rows["validation_loss"] / 2
            rows["validation_loss"] = 2 * slower ** (1 / times)
            rows["status"] = "finished"
            if rate == 0.8 and seed == 1:  # there first, and away later
                last = rows["updates"] > 300
                rows.loc[last, "validation_loss"] = math.nan
                rows["status"] = "diverged"
            parts.append(rows if status else rows.drop(columns="status"))
    return pandas.concat(parts, ignore_index=True)


def test_rates_that_were_tried_are_chosen_and_distinguish_no_series():
    found = scaling(tuned(), factors=["learning_rate"])
    assert found.factors == {} and found.along == {}
    rates = found.rates["updates"]
    assert rates.tried == (0.1, 0.2, 0.4, 0.8)
    assert rates.chosen.tolist() == [0.2, 0.2, 0.4, 0.4, 0.4]
    assert not rates.on_edge.any()
    assert rates.diverged == ((0.8,),) * len(SIZES) and rates.never == ((),) * len(SIZES)
    # Seed 0 reads above 16 what the others choose, .4, though it is faster at .2 itself.
    assert found.measured["updates"][:, 0] == pytest.approx(exact())
    assert found.fit.critical_batch_size == pytest.approx(40)
    seconds = 0.5 + exact() * (0.002 + 0.0001 * np.array(SIZES))
    assert found.measured["seconds"][:, 0] == pytest.approx(seconds)
    assert found.step.costs == pytest.approx((0.002, 0.0001))


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
    assert found.rates["updates"].read[0].tolist() == [0.2, 0.1]
    twice = 2 * exact()
    assert found.measured["updates"] == pytest.approx(np.stack([twice, twice], axis=1))
    assert found.rates["updates"].on_edge.all()
    alone = scaling(frame[frame["seed"] == 0], factors=["learning_rate"])
    assert alone.rates["updates"].read[:, 0].tolist() == [0.1] * len(SIZES)
    assert alone.measured["updates"][:, 0] == pytest.approx(twice / 2)


def test_what_diverged_without_a_status_is_read_as_far_as_it_went():
    # At 345 updates and more: never of that seed.
    rates = scaling(tuned(status=False), 1e-15, ["learning_rate"]).rates["updates"]
    assert rates.never[-1] == (0.1, 0.2, 0.8) and rates.diverged[-1] == ()


def test_the_lowest_loss_that_all_sizes_reached_at_one_of_their_rates():
    rows = tuned()
    rows = rows[rows["updates"] > 0]
    targets = updates_to_target.default_targets(rows)
    at_best = rows[rows["learning_rate"] == 0.2]
    at_8 = at_best[at_best["batch_size"] == 8]
    assert targets[-1].value == pytest.approx(at_8.groupby("seed")["validation_loss"].min().max())
    found = updates_to_target.scalings(rows, ["learning_rate"])
    assert [each.target for each in found] == targets
    assert all(each.fitted.all() for each in found)


def test_a_rate_tried_with_some_seeds_alone_decides_no_target():
    rows = pandas.concat([evaluations(start=5, learning_rate=rate) for rate in (0.1, 0.2)])
    stray = (rows["learning_rate"] == 0.2) & (rows["seed"] == 0)
    short = (rows["learning_rate"] == 0.1) & (rows["updates"] > 200)
    lowest = rows[~short & (rows["learning_rate"] == 0.1)]
    known = lowest.groupby(["batch_size", "seed"])["validation_loss"].min().max()
    rows = rows[~short & ((rows["learning_rate"] == 0.1) | stray)]
    assert updates_to_target.default_targets(rows)[-1].value == pytest.approx(known)


def test_a_rate_of_another_model_is_no_choice():
    rows = [evaluations(model="a", learning_rate=0.1), evaluations(model="b", learning_rate=0.2)]
    found = updates_to_target.series(pandas.concat(rows), ["learning_rate", "model"])
    assert [factors for factors, _, _ in found] == [{"model": "a"}, {"model": "b"}]
    texts = [evaluations(learning_rate=rate) for rate in ("cosine", "constant")]
    found = updates_to_target.series(pandas.concat(texts), ["learning_rate"])
    assert [factors["learning_rate"] for factors, _, _ in found] == ["cosine", "constant"]


def test_a_batch_size_that_failed_leaves_the_others_their_targets():
    rows = evaluations(start=5, status="finished")
    rows.loc[(rows["batch_size"] == 128) & (rows["seed"] == 1), "status"] = "diverged"
    found = updates_to_target.scalings(rows)
    assert [each.fitted.tolist() for each in found] == [[True] * 4 + [False]] * 3
    assert found[0].measured["updates"][-1, 1] == math.inf


def test_a_single_row_at_the_target():
    updates = 100 * (1 + 40 / np.array(SIZES))
    rows = pandas.DataFrame({"batch_size": SIZES, "seed": 0, "updates": updates})
    rows = rows.assign(examples=rows["updates"] * rows["batch_size"])
    (found,) = updates_to_target.scalings(rows)
    assert not found.target.column and math.isnan(found.target.value)
    assert found.fit.critical_batch_size == pytest.approx(40)
    rows.loc[0, ["updates", "examples"]] = math.nan
    (found,) = updates_to_target.scalings(rows)
    assert found.measured["updates"][0, 0] == math.inf and not found.fitted[0]


def test_the_time_of_a_step_is_stated_or_fitted():
    targets = [Target("validation_loss", 0.2)]
    stated = updates_to_target.scalings(evaluations(), (), targets, (0.004, 0.0001))[0]
    assert stated.cost is None
    assert stated.fastest.batch_size == pytest.approx(math.sqrt(40 * 40))
    without = scaling(evaluations().drop(columns="seconds"))
    assert without.step is None and without.fastest is None
    uneven = evaluations(seeds=(0, 1, 2))
    uneven = uneven[(uneven["batch_size"] != 8) | (uneven["seed"] > 0)]
    assert scaling(uneven).step.costs == pytest.approx((0.002, 0.0001))
    falling = evaluations()
    falling["seconds"] = falling["updates"] * (0.02 - 0.0001 * falling["batch_size"])
    found = scaling(falling)
    assert found.cost.per_image.value == pytest.approx(-0.0001)
    assert found.step is None and found.fastest is None


def test_a_fixed_cost_that_is_not_resolved_or_no_line_gives_no_closed_form():
    rows = evaluations(seeds=range(6))
    noise = np.exp(np.random.default_rng(0).normal(0, 0.02, (6, 129)))
    times = noise[rows["seed"], rows["batch_size"]]
    rows["seconds"] = rows["updates"] * (1e-6 + 0.0001 * rows["batch_size"]) * times
    found = scaling(rows)
    half = found.cost.half_batch
    assert half.high > 3 * abs(half.value) or found.cost.fixed.value < 0
    assert found.step is None and found.fastest is None
    rows["seconds"] = rows["updates"] * (0.002 + 1e-6 * rows["batch_size"] ** 2)
    found = scaling(rows)
    assert found.cost.half_batch.value > 0 and found.cost.residual > step_cost.LINE_FITS
    assert found.step is None and found.fastest is None


def test_a_step_has_the_examples_that_it_had_and_not_a_whole_batch():
    rows = evaluations(seeds=range(3))
    share = np.where(rows["batch_size"] > 32, 0.8, 1)
    rows["examples"] = rows["updates"] * rows["batch_size"] * share
    per_step = 0.002 + 0.0001 * rows["examples"] / rows["updates"]
    rows["seconds"] = (rows["updates"] * per_step).fillna(0)
    found = scaling(rows)
    assert found.step.costs == pytest.approx((0.002, 0.0001)) and found.cost.residual < 1e-9
    largest = rows["batch_size"] == 128  # as many examples a step as 64 has
    rows.loc[largest, "examples"] = rows.loc[largest, "updates"] * 51.2
    rows.loc[largest, "seconds"] = rows.loc[largest, "updates"] * (0.002 + 0.0001 * 51.2)
    found = scaling(rows)
    assert found.step.costs == pytest.approx((0.002, 0.0001)) and found.cost.sizes == len(SIZES) - 1


def test_a_rate_that_two_sizes_share_is_given_for_each():
    rates = dict(zip(SIZES, (0.1, 0.2, 0.2, 0.4, 0.4), strict=True))
    rows = evaluations()
    rows["learning_rate"] = rows["batch_size"].map(rates)
    ((_, along, _),) = updates_to_target.series(rows, ["learning_rate"])
    assert along == {"learning_rate": list(rates.values())}
    found = updates_to_target.scalings(rows, ["learning_rate"], [Target("validation_loss", 0.2)])
    each = to_target_tables.trainings(found).drop_duplicates("batch_size")
    assert each["learning_rate"].tolist() == list(rates.values())


def timed_by_seed(rates=(0.1, 0.2)):
    """Trainings of six seeds, whose jobs differ in the fixed cost of a step by 30 %."""
    fixed = 0.002 * np.exp(np.random.default_rng(0).normal(0, 0.3, 6))
    rows = pandas.concat([evaluations(seeds=range(6), learning_rate=rate) for rate in rates])
    rows["seconds"] = rows["updates"] * (fixed[rows["seed"]] + 0.0001 * rows["batch_size"])
    return rows, fixed


def test_the_time_of_a_step_is_of_one_job_per_seed():
    """Trainings at further rates share the job of their seed, and narrow no interval."""
    costs = []
    for rates in ((0.1,), (0.1, 0.2, 0.4)):
        rows, fixed = timed_by_seed(rates)
        costs.append(scaling(rows, factors=["learning_rate"]).cost)
    assert costs[0].fixed == pytest.approx(costs[1].fixed)
    assert costs[0].half_batch == pytest.approx(costs[1].half_batch)
    seconds = [fixed + 0.0001 * size for size in SIZES]
    of_jobs = step_cost.fixed_cost(SIZES, seconds, of_jobs=True)
    assert costs[0].half_batch == pytest.approx(of_jobs.half_batch)
    # The jobs' own fixed costs scatter by 30 %.
    assert costs[0].fixed.low < 0.002 * 0.9 and costs[0].fixed.high > 0.002 * 1.1


def test_jobs_that_a_batch_size_lacks_have_no_part_in_the_interval():
    rows, _ = timed_by_seed((0.1,))
    found = scaling(rows[(rows["batch_size"] != 8) | (rows["seed"] > 1)])
    shared = scaling(rows[rows["seed"] > 1])
    assert found.cost.half_batch == pytest.approx(shared.cost.half_batch)
    found = scaling(rows[(rows["batch_size"] == 8) == (rows["seed"] > 2)])
    assert math.isnan(found.cost.fixed.low) and found.cost.sizes == len(SIZES)
