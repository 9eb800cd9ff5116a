"""Figures of lines, surfaces and learning rates."""

import itertools
import math

import numpy as np
import pandas
import pytest
from matplotlib.contour import ContourSet

from batchscope import figures
from batchscope.figures.kinds import landscape
from drawing import drawn, legend, texts, titles

SIZES, RATES = (32, 64, 128, 256), (0.01, 0.02, 0.04, 0.08, 0.16)


def runs(rates=RATES, sizes=SIZES, failed=None):
    """Return tables of runs with a best rate that grows as the batch size to the power 0.8.

    Args:
        failed: (batch size, rate, seed) -> status of an unfinished run.
    """
    rows = []
    for size, rate, seed in itertools.product(sizes, rates, (0, 1, 2)):
        noise = np.random.default_rng([size, seed, int(rate * 1e6)]).normal(0, 0.15)
        distance = math.log2(rate / (0.02 * (size / 32) ** 0.8)) + noise
        row = {"run": f"{size}/{rate}/{seed}", "batch_size": size, "learning_rate": rate}
        row |= {"seed": seed, "status": (failed or {}).get((size, rate, seed), "finished")}
        if row["status"] != "missing":
            loss = 0.34 + 0.01 * distance**2 + 0.005 * abs(noise)
            row |= {"effective_learning_rate": rate, "best_validation_loss": loss}
        rows.append(row)
    return figures.FigureTables(runs=pandas.DataFrame(rows))


def test_a_line_has_its_seeds_and_its_mean(finished_tables):
    drawing, frame = drawn("line", finished_tables)
    axes = drawing.axes[0]
    first = frame[frame["learning_rate"] == frame["learning_rate"].iloc[0]]
    means = first[first["split"] == "train"].groupby("alpha")["loss"].mean()
    lines = [line for line in axes.lines if len(line.get_xdata()) == len(means)]
    assert lines[0].get_ydata() == pytest.approx(means.to_numpy())
    assert len([line for line in axes.lines if line.get_linewidth() == 0.5]) == 3 * 2
    assert {"batch size 16", "batch size 64"} <= texts(drawing)
    assert legend(drawing) == ["training data", "validation data", "test data"]
    assert titles(drawing)[:2] == ["Loss, learning rate 0.05", "Accuracy, learning rate 0.05"]


def test_levels_are_round_and_enclose_all_losses():
    levels = landscape.contour_levels(np.array([0.03, 2.0, 70.0, math.nan, math.inf]))
    assert levels == pytest.approx([0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100])
    for ends in ((0.31, 0.9), (-0.1, 5.0), (1e-9, 1e30), (0.5, 0.5)):
        levels = landscape.contour_levels(np.array(ends))
        assert levels[0] <= ends[0] and levels[-1] >= ends[1] and 1 < len(levels) <= 14
        assert ends[1] > 1e9 or np.ptp(np.diff(levels)) == pytest.approx(0)


def test_surfaces_share_levels_and_gaps_stay_open():
    axis = np.linspace(-1, 1, 9)
    a, b = (part.ravel() for part in np.meshgrid(axis, axis))
    shared = {"kind": "surface", "index": 0, "a": a, "b": b}
    loss = np.where(b == 0.5, math.nan, 1 + a + 0.1 * b)
    frames = [
        pandas.DataFrame({**shared, "seed": seed, "batch_size": size, "loss": loss * size})
        for seed, size in itertools.product((0, 1), (1, 2))
    ]
    drawing, _ = drawn("landscape", figures.FigureTables(landscapes=pandas.concat(frames)))
    seeds = [title for seed in (0, 1) for title in (f"seed {seed}, batch size 1", "batch size 2")]
    assert titles(drawing)[:4] == seeds
    *panels, bar = drawing.axes
    contours = [axes.findobj(ContourSet) for axes in panels]
    (levels,) = {tuple(item.levels) for pair in contours for item in pair}
    assert levels[0] <= -0.1 * 2 and levels[-1] >= 2.1 * 2
    assert list(bar.get_yticks()) == pytest.approx(levels)
    filled = contours[1][0]
    heights = np.concatenate([path.vertices[:, 1] for path in filled.get_paths()])
    assert not ((heights > 0.25 + 1e-9) & (heights < 0.75 - 1e-9)).any()


def test_the_rise_along_directions_is_a_mean_without_an_interval_for_two_seeds(finished_tables):
    drawing, frame = drawn("landscape_lines", finished_tables)
    assert (frame.loc[frame["a"] == 0, "rise"] == 0).all()
    table = finished_tables.landscapes
    lines = table[(table["kind"] == "line") & (table["batch_size"] == 16) & (table["seed"] == 0)]
    lines = lines[lines["learning_rate"] == 0.05]
    ends = [lines.loc[lines["a"] == a, "loss"].mean() for a in (0, 1)]
    rows = frame[(frame["batch_size"] == 16) & (frame["learning_rate"] == 0.05)]
    rises = rows[rows["a"] == 1.0].set_index("seed")["rise"]
    assert rises[0] == pytest.approx(ends[1] - ends[0])
    axes = drawing.axes[0]
    assert axes.lines[0].get_ydata()[-1] == pytest.approx(rises.mean())
    assert len(rises) == 2 and not axes.collections  # no interval


def test_one_line_per_batch_size_by_learning_rate():
    failed = {(32, 0.16, 1): "diverged", (256, 0.01, 2): "missing"}
    drawing, frame = drawn("learning_rate", runs(failed=failed))
    (axes,) = drawing.axes
    assert len(axes.containers) == 4
    assert [label.get_text() for label in axes.get_xticklabels()] == [str(rate) for rate in RATES]
    rows = frame[(frame["batch_size"] == 64) & (frame["learning_rate"] == 0.04)]
    at_64 = axes.containers[1].lines[0].get_ydata()[2]
    assert at_64 == pytest.approx(rows["best_validation_loss"].mean())
    rings = {2 ** item.get_xdata()[0] for item in axes.lines if item.get_markersize() == 10}
    assert sorted(rings) == pytest.approx([0.02, 0.04, 0.08])
    assert [item.get_marker() for item in axes.lines].count("x") == 1


def test_without_a_choice_of_rates_there_is_no_figure():
    for name in ("learning_rate", "best_learning_rate"):
        assert figures.select(runs(rates=(0.05,)), figures.FIGURES[name]).empty
    assert figures.select(runs(sizes=(32,)), figures.FIGURES["best_learning_rate"]).empty


@pytest.mark.parametrize(
    ("rates", "best", "markers"),
    [
        (RATES, [0.02, 0.04, 0.08, 0.08], ["o"] * 4),
        ((0.04, 0.08, 0.16, 0.32), [0.04, 0.04, 0.08, 0.08], ["v", "v", "o", "o"]),
    ],
)
def test_the_best_rates_and_their_exponent(rates, best, markers):
    drawing, frame = drawn("best_learning_rate", runs(rates))
    rows = frame.drop_duplicates("batch_size")
    assert rows["best_rate"].tolist() == best
    assert (rows["edge"] == "lowest").tolist() == [marker == "v" for marker in markers]
    large = [item for item in drawing.axes[0].lines if item.get_markersize() == 7]
    assert [2 ** item.get_ydata()[0] for item in large] == pytest.approx(best)
    assert [item.get_marker() for item in large] == markers
    if rates == RATES:
        assert frame["exponent"].unique() == pytest.approx([0.7], abs=0.01)
