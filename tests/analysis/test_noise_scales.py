"""The noise scale along a training, and beside critical batch sizes."""

import math

import pandas
import pytest

import made_trainings
from batchscope.analysis import noise_scales, ratio_intervals, to_target_tables
from batchscope.analysis.updates_to_target import Target

SAME = {"dataset": "digits", "model": "mlp", "optimizer": "sgd"}


def _runs(**given):
    """Two seeds at two batch sizes whose noise scales are 60 and 90 examples, to a hair."""
    rows = [
        {"batch_size": size, "seed": seed, "gradient_variance": noise * square}
        | {"gradient_norm_squared": square, "status": "finished"}
        for size, noise in ((16, 60.0), (256, 90.0))
        for seed, square in enumerate((1.0, 1.0))
    ]
    return pandas.DataFrame(rows).assign(**{**SAME, **given})


def _places(**given):
    """Two seeds at the start, at epoch 2 and at ends of their own, and a third that diverged."""
    rows = [
        {"batch_size": 16, "place": place, "epoch": epoch, "status": status}
        | {"gradient_variance": variance, "gradient_norm_squared": square}
        for place, epochs in (("start", (0, 0)), ("epoch", (2, 2)), ("end", (8, 12)))
        for epoch, variance, square, status in (
            (epochs[0], 40.0, 1.0, "finished"),
            (epochs[1], 60.0, 3.0, "finished"),
            (epochs[1], 900.0, 1.0, "diverged"),
        )
    ]
    frame = pandas.DataFrame(rows).assign(gradient_noise_scale_error=5.0, **given)
    return pandas.concat([frame, frame.assign(batch_size=32, gradient_variance=1.0)])


def test_a_point_is_the_ratio_of_means_at_a_place_of_the_training():
    found = noise_scales.points(_places(), 16)
    assert [(point.place, point.epoch) for point in found] == [
        ("start", 0),
        ("epoch", 2),
        ("end", 10),
    ]
    fieller = ratio_intervals.fieller([40, 60], [1, 3])
    assert all(point.found == fieller and point.found.ratio == 25 for point in found)
    assert found[0].ends == fieller[1:3]
    frame = _places()
    assert noise_scales.points(frame.assign(gradient_variance=math.nan), 16) == []


def test_the_error_over_examples_is_that_of_a_single_run():
    frame = _places()
    (alone, *_) = noise_scales.points(frame[frame["gradient_variance"] == 40], 16)
    assert alone.ends == (35, 45)
    # Of two runs of which one has no gradient it is not: nothing is known of the other.
    first, *_ = noise_scales.points(_places(gradient_norm_squared=[2.0, math.nan, 1.0] * 3), 16)
    assert first.found.ratio == 20 and all(map(math.isnan, first.ends))


def test_it_stands_beside_the_critical_batch_size_of_its_trainings():
    """At the size next to 40, and at its rate; at the end it is open upwards."""
    trajectories, runs = made_trainings.tables()
    scalings = to_target_tables.of_study(trajectories, runs, [Target("validation_loss", 0.2)])
    tables = (to_target_tables.fits(scalings), to_target_tables.trainings(scalings))
    frame = to_target_tables.joined(*tables)
    start = {"gradient_variance_start": runs["batch_size"] * runs["learning_rate"]}
    squares = 0.05 + 0.2 * (runs["seed"] - 1)
    end = {"gradient_variance": 40.0, "gradient_norm_squared": squares}
    made = runs.assign(**start, gradient_norm_squared_start=2.0, **end)
    found = noise_scales.beside(frame, made)
    assert set(found["noise_batch_size"]) == {32}
    row = found.iloc[0]
    for ending in ("", "_low", "_high"):
        assert row[f"noise_scale_start{ending}"] == pytest.approx(32 * 0.2 / 2)
    low = ratio_intervals.fieller([40] * 3, [-0.15, 0.05, 0.25]).low
    assert math.isnan(row["noise_scale_end"]) and math.isinf(row["noise_scale_end_high"])
    assert row["noise_scale_end_low"] == pytest.approx(low)
    assert noise_scales.beside(frame, runs)["noise_scale_start"].isna().all()


def _critical(values=(30.0,), **given):
    """Targets 0.5, 0.25 and so on, of which one without a value is open upwards."""
    targets = [0.5 ** (1 + at) for at in range(len(values))]
    rows = [
        {"target": f"validation_loss={target}", "points": 3, "critical_batch_size": value}
        | {"target_column": "validation_loss", "target_value": target}
        | {"critical_batch_size_low": value / 2, "critical_batch_size_high": value * 2}
        for target, value in zip(targets, values, strict=True)
    ]
    return pandas.DataFrame(rows).assign(**{**SAME, **given})


def test_a_noise_scale_is_reported_as_a_multiple_with_the_ends_of_both_intervals():
    assert noise_scales.sentence(_runs(), _critical()) == (
        "At the end of the training the noise scale is 2.0 times the critical batch size to a "
        "validation loss of 0.5 at batch size 16 (1.0 to 4.0 by the ends of both intervals) and "
        "3.0 times at batch size 256 (1.5 to 6.0)."
    )
    # Of several targets the last one, as the figure of the critical batch size reports it.
    text = "20 times the critical batch size to a validation loss of 0.25 at"
    assert text in noise_scales.sentence(_runs(), _critical((30.0, 3.0)))


def test_a_last_target_whose_critical_batch_size_is_open_is_compared_with_nothing():
    critical = _critical((30.0, math.nan))
    assert noise_scales.sentence(_runs(), critical) == ""
    # One that too few sizes reached is no target.
    critical["points"] = [3, 0]
    assert "2.0 times the" in noise_scales.sentence(_runs(), critical)


def test_an_open_end_leaves_the_multiple_without_a_range():
    open_end = _critical(critical_batch_size_high=math.nan)
    text = "2 times the critical batch size to a validation loss of 0.5 at batch size 16 and"
    assert text in noise_scales.sentence(_runs(), open_end)


@pytest.mark.parametrize(
    ("runs", "critical"),
    [
        (_runs().drop(columns="gradient_variance"), _critical()),
        (_runs(optimizer="adam"), _critical()),  # another training
        (_runs(), _critical().iloc[:0]),
        (_runs(), _critical(critical_batch_size=math.nan)),
        (_runs(), pandas.concat([_critical(), _critical()])),  # of two series: which is not stated
        (_runs(gradient_norm_squared=-1.0), _critical()),  # not resolved
        (pandas.concat([_runs(learning_rate=0.1), _runs(learning_rate=0.2)]), _critical()),
    ],
)
def test_nothing_is_reported_where_either_is_not_known_or_of_several(runs, critical):
    assert noise_scales.sentence(runs, critical) == ""
