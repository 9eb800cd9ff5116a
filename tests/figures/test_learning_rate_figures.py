"""Figures of learning rates, from tables made up by hand."""

import itertools

import pytest
from test_surfaces_figures import RATES, Tables, runs

from batchscope import figures, wording
from batchscope.figures import best_learning_rate, learning_rate
from drawing import drawn, texts


def test_one_line_per_batch_size_against_learning_rate():
    failed = {(32, 0.16, 1): "diverged", (256, 0.01, 2): "missing"}
    drawing, frame = drawn("learning_rate", Tables(runs(rates=RATES, failed=failed)))
    axes = drawing.axes[0]
    assert len(axes.containers) == 4 and len(drawing.axes[1].containers) == 5
    assert [label.get_text() for label in axes.get_xticklabels()] == [str(rate) for rate in RATES]
    rows = frame[(frame["batch_size"] == 64) & (frame["learning_rate"] == 0.04)]
    at_64 = axes.containers[1].lines[0].get_ydata()[2]
    assert at_64 == pytest.approx(rows["best_validation_loss"].mean())
    assert len([item for item in axes.lines if item.get_markersize() == 10]) == 4
    assert any("×: a run diverged there" in text for text in texts(drawing))
    assert "at learning rate 0.02 for batch size 32" in learning_rate.found(frame)


def test_the_rates_are_effective_ones():
    cases = ({"learning_rate_scaling": "linear"},)
    table = runs(rates=(0.01, 0.02), cases=cases, failed={(64, 0.02, 0): "missing"})
    drawing, frame = drawn("learning_rate", Tables(table))
    assert sorted(frame["effective_learning_rate"].unique()) == pytest.approx(
        [0.01, 0.02, 0.04, 0.08, 0.16]
    )
    assert frame["effective_learning_rate"].notna().all()


def test_nothing_to_choose_is_reported():
    for name in ("learning_rate", "best_learning_rate"):
        drawing, frame = drawn(name, Tables(runs()))
        assert learning_rate.NO_CHOICE in texts(drawing)
        assert figures.FIGURES[name].found(frame) == ""


def test_the_best_rate_is_chosen_on_validation_and_reported_on_test():
    table = runs(rates=RATES)
    # A rate that does better on test data alone is not chosen.
    table.loc[table["learning_rate"] == 0.16, "test_accuracy"] = 0.99
    drawing, frame = drawn("best_learning_rate", Tables(table))
    chosen = frame[frame["chosen"]]
    rates = chosen.groupby("batch_size")["learning_rate"].unique()
    assert rates.map(list).to_dict() == {32: [0.02], 64: [0.04], 128: [0.08], 256: [0.08]}
    at_32 = chosen.loc[chosen["batch_size"] == 32, "test_accuracy"]
    assert drawing.axes[2].containers[0].lines[0].get_ydata()[0] == pytest.approx(at_32.mean())
    found = best_learning_rate.found(frame)
    assert f"0.02 at batch size 32 (mean test accuracy {wording.percent(at_32.mean())}" in found
    assert "to the power 0.70 (95 % interval 0" in found
    assert {"linear rule (k = 1)", "square root rule (k = 1/2)"} <= texts(drawing)


def test_a_best_rate_on_the_edge_is_warned_of():
    drawing, frame = drawn("best_learning_rate", Tables(runs(rates=(0.04, 0.08, 0.16, 0.32))))
    found = {text.replace("\n", " ") for text in texts(drawing)}
    warning = "On the edge of the grid at batch size 32 (lowest, 0.04), 64 (lowest, 0.04)"
    assert any(warning in text for text in found)
    assert any("k = at least 0.40" in text and "on an edge" in text for text in found)
    assert "↓" in found
    assert "0.04, the lowest tried, at batch size 32" in best_learning_rate.found(frame)


def test_labels_and_legends_of_many_rates_have_room():
    rates = (0.0005, 0.000707, 0.001, 0.00141, 0.002, 0.00283, 0.004, 0.00566, 0.008, 0.016)
    drawing, _ = drawn("learning_rate", Tables(runs(rates=rates)), rendered=True)
    shown = [one for one in drawing.axes[0].get_xticklabels() if one.get_text()]
    boxes = [one.get_window_extent() for one in shown]
    assert len(boxes) > 3
    assert all(left.x1 < right.x0 for left, right in itertools.pairwise(boxes))
    sizes, others = (legend.get_window_extent() for legend in drawing.legends)
    assert sizes.x1 <= others.x0
