"""Figures of lines, landscapes and learning rates, from tables made up by hand."""

import functools
import itertools
import math

import numpy as np
import pandas
import pytest
from matplotlib.contour import ContourSet
from matplotlib.path import Path as Outline

from batchscope import figures, wording
from batchscope.analysis import intervals
from batchscope.catalogue import run_factors
from batchscope.figures import landscape, landscape_lines, line
from batchscope.figures.drawing import words
from drawing import drawn, reread, texts, titles

SIZES = (32, 64, 128, 256)
FACTORS = {name: factor.birth for name, factor in run_factors.FACTORS.items()}
FACTORS |= {"dataset": "digits", "model": "small_cnn", "batch_size": 32, "seed": 0}
FACTORS |= {"learning_rate": 0.05, "optimizer": "sgd", "epochs": 40}
NAMES = ("line", "landscape", "landscape_lines", "learning_rate", "best_learning_rate")
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
ALL_DIVERGED = {(size, 0.05, seed): "diverged" for size in SIZES for seed in range(3)}
SHAPES = {
    "one_seed": runs(seeds=(0,)),
    "one_batch_size": runs(sizes=(32,)),
    "a_missing_run": runs(failed={(32, 0.05, 0): "diverged", (256, 0.05, 1): "missing"}),
    "all_diverged": runs(failed=ALL_DIVERGED),
    "several_series": runs(sizes=(32, 256), cases=({"optimizer": "sgd"}, {"optimizer": "adam"})),
    "several_rates": runs(sizes=(32, 64), rates=RATES[:2], seeds=(0, 1)),
}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.filterwarnings("error")
@pytest.mark.slow
def test_every_shape_of_experiment(shape):
    made = Tables(SHAPES[shape], points=9, directions=2)
    for name in NAMES:
        drawing, frame = drawn(name, made, rendered=True)
        found = figures.FIGURES[name].found(frame)
        assert found == "" or found.endswith(".")
        if shape == "all_diverged":
            assert found == ""
            assert "no finished run" in texts(drawing)
            assert any("12" in text or "4 diverged" in text for text in texts(drawing))


def test_a_line_has_its_seeds_its_mean_and_its_band():
    drawing, frame = drawn("line", Tables(runs()))
    axes = drawing.axes[0]
    rows = frame[(frame["split"] == "train") & (frame["alpha"] == 1.0)]
    mean = next(line for line in axes.lines if line.get_zorder() == 3)
    assert mean.get_ydata()[list(mean.get_xdata()).index(1.0)] == pytest.approx(rows["loss"].mean())
    assert len([line for line in axes.lines if line.get_linewidth() == 0.5]) == 3 * 3
    interval = intervals.t_interval(rows["loss"], logarithmic=True)
    (band, *_) = axes.collections
    ends = [y for x, y in band.get_paths()[0].vertices if x == 1.0]
    assert (min(ends), max(ends)) == pytest.approx((interval.low, interval.high))
    assert axes.get_yscale() == "log"
    assert {"batch size 32", "batch size 256"} <= texts(drawing)
    assert len(drawing.legends[0].get_lines()) == 3
    styles = {str(line._style(split)["linestyle"]) for split in ("train", "validation", "test")}
    assert len(styles) == 3


def test_a_pair_has_the_status_of_whichever_run_failed():
    failed = {(32, 0.05, 0): "diverged", (256, 0.05, 1): "missing"}
    drawing, frame = drawn("line", Tables(runs(failed=failed)))
    status = frame.drop_duplicates("seed").set_index("seed")["status"]
    assert status.to_dict() == {0: "diverged", 1: "missing", 2: "finished"}
    assert any("Of 3 pairs of runs: 1 diverged" in text for text in texts(drawing))
    assert "(α = 0.625; 1 of 3 seeds)" in line.found(frame)


def test_a_pair_without_its_line_is_missing():
    made = Tables(runs())
    made.lines = made.lines[made.lines["seed"] != 2]
    frame = line.select(made)
    assert frame.loc[frame["seed"] == 2, "status"].tolist() == ["missing"]


def test_lines_between_learning_rates_have_a_row_for_every_batch_size():
    between = {"small": 0.01, "large": 0.08, "factor": "learning_rate"}
    table = runs(sizes=(32, 64), rates=(0.01, 0.08))
    drawing, frame = drawn("line", Tables(table, between=between))
    assert titles(drawing)[::2] == ["Loss, batch size 32", "Loss, batch size 64"]
    assert {"learning rate 0.01", "learning rate 0.08"} <= texts(drawing)
    assert line.found(frame).startswith("Along the line (batch size 32) the mean training loss was")


def test_what_was_found_on_a_line():
    _, frame = drawn("line", Tables(runs()))
    rows = frame[frame["split"] == "train"]
    mean = rows.groupby("alpha")["loss"].mean()
    found = line.found(frame)
    assert f"{wording.number(mean[0.0])} at batch size 32" in found
    assert f"{wording.number(mean[1.0])} at batch size 256" in found
    assert f"at most {wording.number(mean[0.625])} between them (α = 0.625; 3 of 3 seeds)" in found
    at = {alpha: wording.number(mean[alpha]) for alpha in (-1.0, 0.0, 1.0, 2.0)}
    assert found.endswith(
        f"Beyond its ends it went from {at[0]} to {at[-1]} past batch size 32 "
        f"(α = \N{MINUS SIGN}1) and from {at[1]} to {at[2]} past batch size 256 (α = 2)."
    )
    assert "Beyond" not in line.found(frame[frame["alpha"].between(0, 1)])


def test_levels_are_round_and_enclose_every_loss():
    levels = landscape.contour_levels(np.array([0.03, 2.0, 70.0, math.nan, math.inf]))
    assert levels.tolist() == [0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100]
    levels = landscape.contour_levels(np.array([0.31, 0.9]))
    assert levels[0] <= 0.31 and levels[-1] >= 0.9 and len(levels) <= 12
    assert np.ptp(np.diff(levels)) == pytest.approx(0)
    levels = landscape.contour_levels(np.array([-0.1, 5.0]))
    assert levels[0] <= -0.1 and levels[-1] >= 5.0
    levels = landscape.contour_levels(np.array([1e-9, 1e30]))
    assert len(levels) <= 13 and levels[0] <= 1e-9 and levels[-1] >= 1e30
    assert landscape.contour_levels(np.array([0.5, 0.5])).size > 1
    assert landscape.contour_levels(np.array([math.nan])) is None


def test_the_rise_over_a_plane_is_that_along_its_directions_over_all_seeds():
    axis = (-1.0, -0.5, 0.0, 0.5, 1.0)
    points = pandas.DataFrame(itertools.product(axis, axis), columns=["a", "b"])
    parts = []
    for size, seed, steep in ((32, 0, 1.0), (32, 1, 3.0), (256, 0, 4.0), (256, 1, 6.0)):
        loss = 0.1 + steep * (points["a"] ** 2 + 3 * points["b"] ** 2)
        more = {"batch_size": size, "seed": seed, "status": "finished", "index": 0, "loss": loss}
        parts.append(points.assign(seeds=3, surfaces=1, **more))
    frame = pandas.concat(parts, ignore_index=True)
    # Both directions: (1 + 3) / 2 of the steepness at distance 1, a quarter of it at half of it.
    assert landscape.found(frame) == (
        "Along the directions of the planes shown the mean rise of the training loss was 1 nats at "
        "distance 0.5 and 4 nats at distance 1 (batch size 32; 2 of 3 seeds); 2.5 nats at distance "
        "0.5 and 10 nats at distance 1 (batch size 256; 2 of 3 seeds)."
    )
    high = (frame["batch_size"] == 256) & (frame["a"] == 1) & (frame["b"] == 0)
    lost = frame.assign(loss=frame["loss"].mask(high, math.inf))
    end = "; 2.5 nats at distance 0.5 (batch size 256; 2 of 3 seeds)."
    assert landscape.found(lost).endswith(end)


def test_all_surfaces_share_levels_and_colours():
    drawing, frame = drawn("landscape", Tables(runs(), points=9))
    panels, bar = drawing.axes[:-1], drawing.axes[-1]
    sets = [axes.findobj(ContourSet) for axes in panels]
    assert len(panels) == 4 and all(len(drawn_sets) == 2 for drawn_sets in sets)
    levels = [tuple(item.levels) for pair in sets for item in pair]
    assert len(set(levels)) == 1
    assert levels[0][0] <= frame["loss"].min() and levels[0][-1] >= frame["loss"].max()
    assert len({tuple(pair[0].norm.boundaries) for pair in sets}) == 1
    assert list(bar.get_yticks()) == pytest.approx(levels[0])
    assert all(axes.get_aspect() == 1 for axes in panels)


def test_a_surface_is_drawn_the_right_way_round():
    made = Tables(runs(sizes=(32,), seeds=(0,)), points=9)
    surfaces = made.landscapes["kind"] == "surface"
    made.landscapes.loc[surfaces, "loss"] = 1 + made.landscapes["a"] + 0.1 * made.landscapes["b"]
    drawing, _ = drawn("landscape", made)
    filled = drawing.axes[0].findobj(ContourSet)[0]
    inner = filled.get_paths()[len(filled.levels) // 2].vertices
    assert np.ptp(inner[:, 1]) > 4 * np.ptp(inner[:, 0])  # a is across, and matters most


@pytest.mark.slow
def test_few_surfaces_are_all_shown_and_of_many_one_seed():
    drawing, frame = drawn("landscape", Tables(runs(sizes=(32, 256)), points=5))
    assert len(drawing.axes) == 6 + 1
    assert set(frame["seed"]) == {0, 1, 2}
    failed = {(32, 0.05, 0): "diverged"}
    drawing, frame = drawn("landscape", Tables(runs(failed=failed), points=5))
    assert set(frame["seed"]) == {1}  # the first with a surface at every batch size
    assert "Seed 1 of 3 seeds; landscapes.csv holds every surface." in texts(drawing)
    assert "batch size 32; 1 of 3 seeds)" in landscape.found(frame)
    frame = landscape.select(Tables(runs(sizes=(16, *SIZES)), points=3))
    assert set(frame["batch_size"]) == {16, 256}


@pytest.mark.slow
def test_every_plane_of_a_run_is_shown_where_there_is_room():
    made = Tables(runs(sizes=(32, 256), seeds=(0, 1)), points=5)
    one = made.landscapes
    surfaces = one[one["kind"] == "surface"]
    more = [surfaces.assign(index=index, loss=surfaces["loss"] + index) for index in range(1, 5)]

    def drawn_with(planes):
        made.landscapes = pandas.concat([one, *more[: planes - 1]])
        return drawn("landscape", made)

    drawing, frame = drawn_with(2)
    assert set(frame["seed"]) == {0}  # two seeds of two planes each are too many
    found = titles(drawing)[:-1]
    assert found[::2] == ["Plane 1\nBatch size 32", "Plane 2\nBatch size 32"]
    assert found[1::2] == ["Batch size 256"] * 2
    assert "Seed 0 of 2 seeds; landscapes.csv holds every surface." in texts(drawing)
    drawing, frame = drawn_with(5)
    expected = "Seed 0 of 2 seeds, 3 of 5 planes of each run; landscapes.csv holds every surface."
    assert len(drawing.axes) == 6 + 1 and expected in texts(drawing)


def test_labels_of_levels_keep_clear_of_each_other():
    drawing, _ = drawn("landscape", Tables(runs(sizes=(32, 256), seeds=(0,)), points=25))
    for axes in drawing.axes[:-1]:
        (lines_set,) = [item for item in axes.findobj(ContourSet) if not item.filled]
        places = np.array([text.get_position() for text in lines_set.labelTexts])
        assert len(places) > 2 and np.abs(places).max() < 0.95
        apart = np.hypot(*(places[:, None] - places[None]).transpose(2, 0, 1))
        assert apart[np.triu_indices(len(places), 1)].min() > 0.2


def test_simplified_contours_stay_within_the_tolerance():
    angles = np.linspace(0, 2 * np.pi, 200)
    circle = np.column_stack([np.cos(angles), np.sin(angles)])
    codes = [Outline.MOVETO, *[Outline.LINETO] * 198, Outline.CLOSEPOLY]
    twice = Outline(np.concatenate([circle, 0.5 * circle]), codes * 2)
    simple = landscape.simplified(twice, 0.002)
    assert len(simple.vertices) < 150
    assert list(simple.codes).count(Outline.MOVETO) == 2
    outer = simple.vertices[: list(simple.codes).index(Outline.CLOSEPOLY)]
    middles = (outer[1:] + outer[:-1]) / 2
    assert np.hypot(*middles.T).min() > 1 - 0.0021
    empty = Outline(np.empty((0, 2)))
    assert landscape.simplified(empty, 0.1) is empty


def test_the_rise_along_directions():
    drawing, frame = drawn("landscape_lines", Tables(runs(), directions=3))
    assert (frame.loc[frame["a"] == 0, "rise"] == 0).all()
    rows = frame[(frame["batch_size"] == 32) & (frame["a"] == 1.0)]
    means = rows.groupby("seed")["rise"].mean()
    line_32 = next(item for item in drawing.axes[0].lines if item.get_zorder() == 3)
    assert line_32.get_ydata()[-1] == pytest.approx(means.mean())
    interval = intervals.t_interval(means)
    ends = [y for x, y in drawing.axes[0].collections[0].get_paths()[0].vertices if x == 1.0]
    assert (min(ends), max(ends)) == pytest.approx((interval.low, interval.high))
    edge = frame[(frame["batch_size"] == 32) & (frame["a"].abs() == 1.0)]["rise"].mean()
    assert f"at |a| = 1 was {edge:.1f} nats at batch size 32" in landscape_lines.found(frame)
    half = frame[(frame["batch_size"] == 256) & (frame["a"].abs() == 0.5)]["rise"].mean()
    assert "at |a| = 0.5 was " in landscape_lines.found(frame)
    expected = f"and {wording.number(half)} nats at 256 (3 of 3 seeds), a factor of "
    assert expected in landscape_lines.found(frame)
    expected = "3 directions per run. Left: mean over seeds, with its 95 % t-interval, cut where"
    assert any(text.startswith(expected) for text in texts(drawing))


def test_no_rise_is_drawn_to_a_loss_below_zero():
    made = Tables(runs(sizes=(32,), seeds=(0, 1, 2)), directions=1)
    steep = made.landscapes["loss"].where(made.landscapes["a"] <= 0, lambda loss: 9 * loss)
    made.landscapes["loss"] = steep.where(made.landscapes["seed"] == 0, made.landscapes["loss"])
    drawing, frame = drawn("landscape_lines", made)
    ends = drawing.axes[0].collections[0].get_paths()[0].vertices[:, 1]
    assert ends.min() == pytest.approx(-frame.loc[frame["a"] == 0, "loss"].mean())


def test_thinned_lines_keep_their_foot():
    for length, points in ((51, 9), (51, 20), (25, 12), (5, 9)):
        kept = landscape_lines._thinned(length, points)
        assert {0, length // 2, length - 1} <= set(kept)
        assert len(kept) <= max(points + 1, 9)


def test_counts_of_seeds():
    assert words.seeds((6, 6), (6, 6)) == "6 of 6 seeds"
    assert words.seeds((6, 6), (4, 6)) == "6 of 6 and 4 of 6 seeds"
    assert words.seeds((1, 1)) == "1 of 1 seed"


def test_what_is_not_finite_leaves_a_gap():
    """A row or a position without a finite loss is not bridged by its neighbours."""
    made = Tables(runs(sizes=(32,), seeds=(0,)), points=9)
    lost = (made.landscapes["kind"] == "surface") & (made.landscapes["b"] == 0.5)
    made.landscapes.loc[lost, "loss"] = math.nan
    drawing, _ = drawn("landscape", made)
    filled = next(item for item in drawing.axes[0].findobj(ContourSet) if item.filled)
    heights = np.concatenate([path.vertices[:, 1] for path in filled.get_paths()])
    assert not ((heights > 0.25 + 1e-9) & (heights < 0.75 - 1e-9)).any()
    made = Tables(runs(sizes=(32, 256), seeds=(0,)))
    lost = made.lines["alpha"] == 0.5
    made.lines.loc[lost, "loss"] = math.nan
    drawing, _ = drawn("line", made)
    line = max(drawing.axes[0].lines, key=lambda line: len(line.get_xdata()))
    assert math.isnan(line.get_ydata()[list(line.get_xdata()).index(0.5)])
