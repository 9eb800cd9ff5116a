"""From six series on they stand in panels of few, by what they share."""

import itertools

import pandas
import pytest

from batchscope.analysis import run_series
from batchscope.figures.drawing import against_batch_size, canvas

OPTIMIZERS, METHODS = ("sgd", "adam"), ("plain", "conservative", "robust")
AUGMENTATIONS = ("none", "crop", "random")
# One remedy at a time: Adam has six of seven series, plain updates four.
REMEDIES = [{"optimizer": "sgd", "augmentation": "none", "method": "plain"}] + [
    {"optimizer": "adam", "augmentation": augmentation, "method": method}
    for augmentation, method in (
        *(("none", "plain"), ("crop", "plain"), ("random", "plain")),
        *(("none", "conservative"), ("none", "robust"), ("crop", "robust")),
    )
]


def _parts(cases):
    """Returns title and number of series of every part, of series with these factors."""
    frame = pandas.DataFrame([{"batch_size": 16, "seed": 0, **case} for case in cases])
    parts = against_batch_size.facets(run_series.series(frame))
    return {part.title: len(part.groups) for part in parts}


def test_no_panel_has_six_series_where_another_factor_leaves_fewer():
    assert _parts(REMEDIES) == {"plain updates": 4, "conservative updates": 1, "robust updates": 2}


def test_all_combinations_stand_in_panels_by_two_factors():
    cases = [
        {"optimizer": optimizer, "augmentation": augmentation, "method": method}
        for optimizer, augmentation, method in itertools.product(OPTIMIZERS, AUGMENTATIONS, METHODS)
    ]
    parts = _parts(cases)
    assert len(parts) == 6 and set(parts.values()) == {3}
    assert "SGD, conservative updates" in parts


def test_a_series_hides_by_its_own_entry_of_the_legend():
    """Seven series in three parts: the one that stands alone is not the first of the legend."""
    rows = [
        {**case, "batch_size": size, "seed": 0, "status": "finished", "distance": 1.0}
        for case in REMEDIES
        for size in (16, 64)
    ]
    panel = against_batch_size.Panel("distance", "Distance", "‖w‖")
    drawing = against_batch_size.draw(pandas.DataFrame(rows), [panel])
    marked = vars(drawing)["batchscope_marks"]
    lines = [line for axes in drawing.axes for line in axes.lines]
    numbers = [int(marked[line.get_gid()].attributes["data-series"]) for line in lines]
    assert [line.get_color() for line in lines] == [canvas.COLOURS[at] for at in numbers]
    assert len(set(numbers)) == len(drawing.legends[0].get_texts()) == 4


@pytest.mark.parametrize("momenta", [5, 9])
def test_where_no_factor_leaves_few_the_largest_part_is_smallest(momenta):
    cases = [
        {"optimizer": optimizer, "momentum": at / 10}
        for optimizer, at in itertools.product(("sgd", "rmsprop"), range(momenta))
    ]
    assert _parts(cases) == {"SGD": momenta, "RMSprop": momenta}
    assert _parts(cases[:momenta]) == {"": momenta}
