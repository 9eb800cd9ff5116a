"""Figures by epochs, updates, examples and seconds: means, bands, axes, targets."""

import itertools

import pandas
import pytest

from batchscope import figures
from batchscope.analysis import best_learning_rates
from batchscope.figures import canvas
from drawing import legend, titles
from made_figures import frame_of

SIZES, BLUE = (16, 64, 256), canvas.SIZE_COLOURS[0]


def curves(seeds=(0, 1)):
    """Return rows of runs by epoch with decreasing losses."""
    return pandas.DataFrame(
        {"batch_size": size, "seed": seed, "status": "finished", "epoch": epoch}
        | {"updates": epoch * 4096 // size, "seconds": epoch * (1 + 0.1 * seed) / size}
        | {"train_loss": size**0.1 / epoch + 0.01 * seed, "validation_loss": 2 / epoch}
        for size, seed, epoch in itertools.product(SIZES, seeds, range(1, 6))
    )


def means(axes):
    """Return the lines of means by colour."""
    lines = (line for line in axes.lines if line.get_linewidth() > 1)
    return {line.get_color(): line for line in lines if len(line.get_xdata()) > 1}


def test_a_batch_size_has_its_best_rate(two_rates):
    _, frame = frame_of("loss_curves", two_rates)
    runs = figures.FigureTables(two_rates).runs
    (group,) = best_learning_rates.series_over_rates(runs)
    choices = best_learning_rates.best_rates(group.frame)
    best = {choice.batch_size: [choice.learning_rate] for choice in choices}
    best[256] = [0.05]  # no rate has a finished run of all seeds: the one with the most
    rates = frame.groupby("batch_size")["learning_rate"].unique()
    assert {size: rates[size].tolist() for size in best} == best


def test_lines_are_means_over_seeds_in_the_colours_of_batch_sizes():
    frame = curves()
    drawing = figures.draw(frame, figures.FIGURES["loss_curves"])
    for size, look in canvas.size_styles(SIZES).items():
        line = means(drawing.axes[0])[look["color"]]
        of_size = frame[frame["batch_size"] == size]
        assert line.get_ydata() == pytest.approx(of_size.groupby("epoch")["train_loss"].mean())
    assert legend(drawing) == ["16", "64", "256"]


def test_means_over_seconds_have_the_same_updates_at_the_mean_time():
    frame = curves().drop(columns="epoch")
    drawing = figures.draw(frame, figures.FIGURES["loss_curves_by_seconds"])
    line = means(drawing.axes[0])[BLUE]
    of_16 = frame[frame["batch_size"] == 16].groupby("updates")
    assert line.get_xdata() == pytest.approx(of_16["seconds"].mean())
    assert line.get_ydata() == pytest.approx(of_16["train_loss"].mean())
    assert drawing.axes[0].get_xscale() == "log"


def test_unfinished_runs_are_thin_and_in_no_mean():
    frame = curves(seeds=(0, 1, 2))
    frame.loc[(frame["seed"] == 2) & (frame["batch_size"] == 16), "status"] = "diverged"
    axes = figures.draw(frame, figures.FIGURES["loss_curves"]).axes[0]
    thin = [line for line in axes.lines if line.get_linewidth() == 0.6]
    crosses = [line for line in axes.lines if line.get_marker() == "x"]
    assert len(thin) == len(crosses) == 1
    finished = frame[(frame["batch_size"] == 16) & (frame["seed"] < 2)]
    mean = finished.groupby("epoch")["train_loss"].mean()
    assert means(axes)[BLUE].get_ydata() == pytest.approx(mean)


def test_progress_has_a_panel_for_each_axis_and_the_target_of_the_comparisons(finished_tables):
    tables, figure = finished_tables, figures.FIGURES["progress"]
    frame, compared = figures.select(tables, figure), tables.comparisons
    (target,) = compared.loc[compared["budget"] == "target", "budget_value"].unique()
    assert frame["target"].unique() == pytest.approx([target])
    drawing = figures.draw(frame, figure)
    assert titles(drawing) == ["By updates", "By examples", "By training time"]
    for axes in drawing.axes:
        dotted = next(line for line in axes.lines if line.get_color() == canvas.MUTED)
        assert dotted.get_ydata() == pytest.approx([target] * 2)
    stated = {"budget": ["target"], "budget_column": ["validation_loss"], "budget_value": [0.4]}
    for compared, targets in ((stated, [0.4]), ({}, [])):
        frames = {"runs": tables.runs, "trajectories": tables.trajectories}
        tables = figures.FigureTables(**frames, comparisons=pandas.DataFrame(compared))
        assert figures.select(tables, figure)["target"].dropna().unique().tolist() == targets
    assert figure.caption.endswith("Dotted: the target, if it is a validation loss.")
