"""Figures of lines, surfaces and learning rates, from tables made up by hand."""

import functools
import itertools
import math

import numpy as np
import pandas
import pytest
from matplotlib.contour import ContourSet

from batchscope import figures
from batchscope.analysis import intervals
from batchscope.catalogue import run_factors
from batchscope.figures.drawing import canvas
from batchscope.figures.kinds import surface
from drawing import drawn, legend, reread, texts, titles

SIZES = (32, 64, 128, 256)
FACTORS = {name: factor.default for name, factor in run_factors.FACTORS.items()}
FACTORS |= {"dataset": "digits", "model": "small_cnn", "batch_size": 32, "seed": 0}
FACTORS |= {"learning_rate": 0.05, "optimizer": "sgd", "epochs": 40}
EMPTY = pandas.DataFrame(columns=["run", *run_factors.FACTORS, "status"])


def runs(sizes=SIZES, seeds=(0, 1, 2), rates=(0.05,), cases=({},), failed=None):
    """Returns a made-up runs.csv.

    Args:
        failed: (batch size, rate, seed) -> status of what did not finish.
    """
    rows = []
    for case, size, rate, seed in itertools.product(cases, sizes, rates, seeds):
        factors = {**FACTORS, **case, "batch_size": size, "learning_rate": rate, "seed": seed}
        noise = np.random.default_rng([size, seed, int(rate * 1e6)]).normal(0, 0.15)
        off = math.log2(rate / (0.02 * (size / 32) ** 0.8)) + noise
        status = (failed or {}).get((size, rate, seed), "finished")
        scale = size / 32 if factors["learning_rate_scaling"] == "linear" else 1.0
        row = {"run": "+".join(str(value) for value in factors.values()), **factors}
        row |= {"status": status, "effective_learning_rate": rate * scale}
        row |= {"best_validation_loss": 0.34 + 0.01 * off**2 + 0.005 * abs(noise)}
        row |= {"test_loss": 0.36 + 0.012 * off**2, "test_accuracy": 0.85 - 0.004 * off**2}
        if status != "finished":
            row |= {"test_loss": math.nan, "test_accuracy": math.nan}
        if status == "missing":
            row |= {"effective_learning_rate": math.nan, "best_validation_loss": math.nan}
        rows.append(row)
    return pandas.DataFrame(rows)


def first(row):
    return {name: row[name] for name in EMPTY.columns}


def lines(table, small=32, large=256, factor="batch_size", points=25):
    """Returns a made-up lines.csv between two values of a factor."""
    rest = [name for name in run_factors.FACTORS if name != factor]
    others = table[table[factor] == large]
    pairs = table[table[factor] == small].merge(others, on=rest, suffixes=("", "_other"))
    alphas = np.linspace(-1, 2, points)
    blocks = []
    for _, row in pairs.iterrows():
        if row["status"] != "finished" or row["status_other"] != "finished":
            continue
        height = math.exp(np.random.default_rng(row["seed"] + 9).normal(0, 0.4))
        for split, least in (("train", 0.02), ("validation", 0.35), ("test", 0.37)):
            wall = 1.8 * np.exp(-(((alphas - 0.6) / 0.22) ** 2))
            beyond = 0.4 * np.abs(alphas) ** 3 + 1.1 * (alphas > 1) * (alphas - 1)
            loss = least + height * (wall + beyond)
            found = {"other": row["run_other"], "factor": factor, "small": small, "large": large}
            found |= {"alpha": alphas, "split": split, "loss": loss, "accuracy": np.exp(-loss / 2)}
            blocks.append(pandas.DataFrame({**first(row), **found}))
    columns = ["other", "factor", "small", "large", "alpha", "split", "loss", "accuracy"]
    return pandas.concat(blocks) if blocks else EMPTY.reindex(columns=[*EMPTY.columns, *columns])


def landscapes(table, points=25, directions=5):
    """Returns a made-up landscapes.csv: bowls that grow steeper with the batch size."""
    axis = np.linspace(-1, 1, points)
    blocks = []
    for _, row in table[table["status"] == "finished"].iterrows():
        generator = np.random.default_rng([row["batch_size"], row["seed"]])
        steep = 3 * (row["batch_size"] / 32) ** 0.4
        a, b = (part.ravel() for part in np.meshgrid(axis, axis))
        far = a**2 + 1.5 * b**2 + 0.5 * a * b
        loss = 0.02 + steep * far * (1 + far)
        found = {"kind": "surface", "index": 0, "a": a, "b": b, "loss": loss}
        blocks.append(pandas.DataFrame({**first(row), **found}))
        for index in range(directions):
            slope = steep * math.exp(generator.normal(0, 0.3))
            loss = 0.02 + slope * axis**2 + 0.1 * slope * axis**3
            found = {"kind": "line", "index": index, "a": axis, "b": 0.0, "loss": loss}
            blocks.append(pandas.DataFrame({**first(row), **found}))
    columns = [*EMPTY.columns, "kind", "index", "a", "b", "loss"]
    return pandas.concat(blocks, ignore_index=True) if blocks else EMPTY.reindex(columns=columns)


class Tables:
    """The tables of an experiment, as they are read back from CSV files: each when it is asked."""

    def __init__(self, table, between=None, **options):
        self.runs = reread(table)
        self._table, self._options = table, options
        self._between = between or {"small": 32, "large": 256}

    @functools.cached_property
    def lines(self):
        return reread(lines(self._table, **self._between))

    @functools.cached_property
    def landscapes(self):
        return reread(landscapes(self._table, **self._options))


RATES = (0.01, 0.02, 0.04, 0.08, 0.16)
LINE = figures.FIGURES["line"]


def test_a_line_has_its_seeds_and_its_mean():
    drawing, frame = drawn("line", Tables(runs()))
    axes = drawing.axes[0]
    rows = frame[(frame["split"] == "train") & (frame["alpha"] == 1.0)]
    thick = [line for line in axes.lines if line.get_color() == canvas.INK]
    mean = next(line for line in thick if len(line.get_xdata()) == 25)
    assert mean.get_ydata()[list(mean.get_xdata()).index(1.0)] == pytest.approx(rows["loss"].mean())
    assert len([line for line in axes.lines if line.get_linewidth() == 0.5]) == 3 * 3
    assert {"batch size 32", "batch size 256"} <= texts(drawing)
    assert legend(drawing) == ["training data", "validation data", "test data"]
    assert titles(drawing) == ["Loss", "Accuracy"]


def test_levels_are_round_and_enclose_every_loss():
    levels = surface.contour_levels(np.array([0.03, 2.0, 70.0, math.nan, math.inf]))
    assert levels == pytest.approx([0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100])
    levels = surface.contour_levels(np.array([0.31, 0.9]))
    assert levels[0] <= 0.31 and levels[-1] >= 0.9 and len(levels) <= 13
    assert np.ptp(np.diff(levels)) == pytest.approx(0)
    for ends in ((-0.1, 5.0), (1e-9, 1e30), (0.5, 0.5)):
        levels = surface.contour_levels(np.array(ends))
        assert levels[0] <= ends[0] and levels[-1] >= ends[1] and 1 < len(levels) <= 14


def test_all_surfaces_share_levels_and_colours():
    drawing, frame = drawn("landscape", Tables(runs(), points=9))
    panels, bar = drawing.axes[:-1], drawing.axes[-1]
    sets = [axes.findobj(ContourSet) for axes in panels]
    assert len(panels) == 12 and all(len(both) == 2 for both in sets)
    levels = {tuple(item.levels) for pair in sets for item in pair}
    assert len(levels) == 1
    (levels,) = levels
    assert levels[0] <= frame["loss"].min() and levels[-1] >= frame["loss"].max()
    assert list(bar.get_yticks()) == pytest.approx(levels)


def test_a_surface_is_drawn_the_right_way_round_and_gaps_stay_open():
    made = Tables(runs(sizes=(32,), seeds=(0,)), points=9)
    surfaces = made.landscapes["kind"] == "surface"
    made.landscapes.loc[surfaces, "loss"] = 1 + made.landscapes["a"] + 0.1 * made.landscapes["b"]
    made.landscapes.loc[surfaces & (made.landscapes["b"] == 0.5), "loss"] = math.nan
    drawing, _ = drawn("landscape", made)
    filled = drawing.axes[0].findobj(ContourSet)[0]
    inner = filled.get_paths()[len(filled.levels) // 2].vertices
    below = inner[inner[:, 1] < 0.5]
    assert np.ptp(below[:, 1]) > 3 * np.ptp(below[:, 0])  # a is across, and matters most
    heights = np.concatenate([path.vertices[:, 1] for path in filled.get_paths()])
    assert not ((heights > 0.25 + 1e-9) & (heights < 0.75 - 1e-9)).any()


def test_the_rise_along_directions():
    made = Tables(runs(), directions=3)
    drawing, frame = drawn("landscape_lines", made)
    assert (frame.loc[frame["a"] == 0, "rise"] == 0).all() and len(frame) == 12 * 25
    lines_ = made.landscapes
    own = lines_[(lines_["kind"] == "line") & (lines_["batch_size"] == 32) & (lines_["seed"] == 0)]
    rise = own.loc[own["a"] == 1, "loss"].mean() - own.loc[own["a"] == 0, "loss"].mean()
    rows = frame[(frame["batch_size"] == 32) & (frame["a"] == 1.0)].set_index("seed")["rise"]
    assert rows[0] == pytest.approx(rise)
    (axes,) = drawing.axes
    assert axes.lines[0].get_ydata()[-1] == pytest.approx(rows.mean())
    interval = intervals.t_interval(rows)
    ends = [y for x, y in axes.collections[0].get_paths()[0].vertices if x == 1.0]
    assert (min(ends), max(ends)) == pytest.approx((interval.low, interval.high))


def test_one_line_per_batch_size_against_learning_rate():
    failed = {(32, 0.16, 1): "diverged", (256, 0.01, 2): "missing"}
    drawing, frame = drawn("learning_rate", Tables(runs(rates=RATES, failed=failed)))
    (axes,) = drawing.axes
    assert len(axes.containers) == 4
    assert [label.get_text() for label in axes.get_xticklabels()] == [str(rate) for rate in RATES]
    rows = frame[(frame["batch_size"] == 64) & (frame["learning_rate"] == 0.04)]
    at_64 = axes.containers[1].lines[0].get_ydata()[2]
    assert at_64 == pytest.approx(rows["best_validation_loss"].mean())
    rings = {2 ** item.get_xdata()[0] for item in axes.lines if item.get_markersize() == 10}
    assert sorted(rings) == pytest.approx([0.02, 0.04, 0.08])
    assert [item.get_marker() for item in axes.lines].count("x") == 1


def test_without_a_choice_there_is_no_figure():
    for name in ("learning_rate", "best_learning_rate"):
        assert figures.FIGURES[name].select(Tables(runs())).empty
    one = Tables(runs(sizes=(32,), rates=RATES))
    assert figures.FIGURES["best_learning_rate"].select(one).empty


def test_the_best_rates_and_their_exponent():
    drawing, frame = drawn("best_learning_rate", Tables(runs(rates=RATES)))
    best = frame.groupby("batch_size")["best_rate"].unique().map(list).to_dict()
    assert best == {32: [0.02], 64: [0.04], 128: [0.08], 256: [0.08]}
    assert frame["exponent"].unique() == pytest.approx([0.7], abs=0.01)
    (axes,) = drawing.axes
    large = [item for item in axes.lines if item.get_markersize() == 7]
    assert [2 ** item.get_ydata()[0] for item in large] == pytest.approx([0.02, 0.04, 0.08, 0.08])
    assert {item.get_marker() for item in large} == {"o"}
    drawing, frame = drawn("best_learning_rate", Tables(runs(rates=(0.04, 0.08, 0.16, 0.32))))
    edges = frame.drop_duplicates("batch_size").set_index("batch_size")["edge"]
    assert edges[32] == edges[64] == "lowest"
    large = [item for item in drawing.axes[0].lines if item.get_markersize() == 7]
    assert [item.get_marker() for item in large][:2] == ["v", "v"]
