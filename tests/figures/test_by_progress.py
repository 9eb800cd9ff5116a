"""Figures against what a training has used up: means, bands, axes, targets."""

import numpy as np
import pandas
import pytest

import synthetic
from batchscope import figures
from batchscope.analysis import best_learning_rates
from batchscope.figures import canvas
from batchscope.figures.kinds import by_progress
from batchscope.tables import csv_tables
from drawing import legend, titles
from made_figures import drawing_of, frame_of, tables_of


def curves(sizes=(16, 64, 256), seeds=(0, 1), epochs=range(1, 6), **more):
    """Rows of runs by epoch whose losses fall."""
    found = [
        {"batch_size": size, "seed": seed, "status": "finished", "epoch": epoch}
        | {"updates": epoch * 4096 // size, "seconds": epoch * (1 + 0.1 * seed) / size}
        | {"train_loss": size**0.1 / epoch + 0.01 * seed, "validation_loss": 2 / epoch}
        for size in sizes
        for seed in seeds
        for epoch in epochs
    ]
    return pandas.DataFrame(found).assign(**more)


def lines(axes):
    """Returns the lines of means, by colour."""
    return {line.get_color(): line for line in axes.lines if len(line.get_xdata()) > 1}


def test_each_batch_size_is_shown_at_its_best_rate(two_rates):
    _, frame = frame_of("loss_curves", two_rates)
    runs = figures.read(two_rates).runs
    (group,) = best_learning_rates.series(runs)
    choices = best_learning_rates.choices(group.frame)
    best = {each.batch_size: each.learning_rate for each in choices}
    # At 256 no rate has a finished run of every seed: the one with the most has its place.
    assert best.pop(256) != best.get(256)
    shown = frame.groupby("batch_size")["learning_rate"].unique()
    assert shown[256].tolist() == [0.05]
    assert {size: shown[size].tolist() for size in best} == {k: [v] for k, v in best.items()}


def test_lines_are_means_over_seeds_in_the_colours_of_batch_sizes():
    frame = curves()
    drawing = figures.draw(frame, figures.FIGURES["loss_curves"])
    looks = canvas.size_styles(frame["batch_size"])
    for size, look in looks.items():
        drawn = lines(drawing.axes[0])[look["color"]]
        of_size = frame[frame["batch_size"] == size]
        assert drawn.get_ydata() == pytest.approx(of_size.groupby("epoch")["train_loss"].mean())
    assert legend(drawing) == ["16", "64", "256"]


def test_means_over_seconds_are_of_the_same_updates_at_the_mean_time():
    frame = curves().drop(columns="epoch")
    drawing = figures.draw(frame, figures.FIGURES["loss_curves_by_seconds"])
    drawn = lines(drawing.axes[0])[canvas.COLOURS[0]]
    of_16 = frame[frame["batch_size"] == 16].groupby("updates")
    assert drawn.get_xdata() == pytest.approx(of_16["seconds"].mean())
    assert drawn.get_ydata() == pytest.approx(of_16["train_loss"].mean())
    assert drawing.axes[0].get_xscale() == "log"


def test_runs_that_did_not_finish_are_thin_and_in_no_mean():
    frame = curves(seeds=(0, 1, 2))
    frame.loc[(frame["seed"] == 2) & (frame["batch_size"] == 16), "status"] = "diverged"
    drawing = figures.draw(frame, figures.FIGURES["loss_curves"])
    thin = [line for line in drawing.axes[0].lines if line.get_linewidth() == 0.6]
    crosses = [line for line in drawing.axes[0].lines if line.get_marker() == "x"]
    assert len(thin) == len(crosses) == 1
    whole = frame[(frame["batch_size"] == 16) & (frame["seed"] < 2)]
    drawn = [line for line in drawing.axes[0].lines if line.get_linewidth() > 1]
    mean = next(line for line in drawn if line.get_color() == canvas.COLOURS[0])
    assert mean.get_ydata() == pytest.approx(whole.groupby("epoch")["train_loss"].mean())


def test_progress_has_a_panel_for_each_axis_and_the_target_that_sizes_are_compared_at(tmp_path):
    folder = tables_of(tmp_path, synthetic.grid([16, 32, 64], range(2)))
    drawing, frame = drawing_of("progress", folder)
    compared = csv_tables.read(folder / "comparisons.csv")
    (target,) = compared.loc[compared["budget"] == "target", "budget_value"].unique()
    assert frame["target"].unique() == pytest.approx([target])
    assert titles(drawing) == ["By updates", "By examples", "By training time"]
    for axes in drawing.axes:
        dotted = [line for line in axes.lines if line.get_color() == canvas.MUTED]
        assert dotted[0].get_ydata() == pytest.approx([target] * 2)


def test_a_stated_target_is_drawn_and_none_where_a_run_failed(tmp_path):
    runs = synthetic.grid([16, 32, 64], range(2))
    figure = figures.FIGURES["progress"]
    failed = tables_of(tmp_path, runs, {next(iter(runs)): "diverged"})
    tables = figures.read(failed)
    assert figures.select(tables, figure)["target"].isna().all()
    stated = {"budget": ["target"], "budget_column": ["validation_loss"]}
    compared = pandas.DataFrame({**stated, "budget_value": [0.4]})
    given = figures.FigureTables(
        runs=tables.runs, trajectories=tables.trajectories, comparisons=compared
    )
    assert set(figures.select(given, figure)["target"]) == {0.4}


@pytest.mark.parametrize("ratios", [False, True])
def test_long_lines_keep_their_ends(ratios):
    kept = by_progress.thinned(1000, ratios)
    assert kept[0] == 0 and kept[-1] == 999 and len(kept) <= 60
    assert np.diff(kept[:10]).max() < 20
    assert by_progress.thinned(12, ratios).tolist() == list(range(12))
