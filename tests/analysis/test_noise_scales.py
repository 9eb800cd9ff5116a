"""The noise scale as a multiple of the critical batch size of another experiment."""

import math

import pandas
import pytest

from batchscope.analysis import noise_scales

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
