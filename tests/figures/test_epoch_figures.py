"""Figures over epochs or what was used in them, and of update norms."""

import numpy as np
import pandas
import pytest

import synthetic
from batchscope import figures, wording
from batchscope.analysis import intervals
from batchscope.figures import update_norms
from costs import first
from made_figures import drawing_of, frame_of, tables_of


def test_the_ratio_of_epoch_distances_is_paired_by_seed(two_rates):
    figure, frame = frame_of("epoch_distance", two_rates)
    left, right = figure.draw(frame).axes[:2]
    assert left.get_yscale() == "log"
    assert right.get_title("left") == "Ratio, 16 over 256"
    rows = frame[(frame["learning_rate"] == 0.05) & (frame["status"] == "finished")]
    rows = rows[rows["epoch"] == 1]
    distances = rows.pivot(index="seed", columns="batch_size", values="epoch_distance")
    ratios = (distances[16] / distances[256]).dropna()
    assert len(ratios) == 5  # the sixth ran out of memory
    mean = next(line for line in right.lines if line.get_linewidth() == 1.5)
    assert mean.get_ydata()[0] == pytest.approx(np.exp(np.log(ratios).mean()))


def epochs_of(lengths, **columns):
    """Returns rows of a history: (batch size, seed) -> how many epochs it has."""
    rows = [
        {"batch_size": size, "seed": seed, "status": "finished", "epoch": epoch}
        for (size, seed), count in lengths.items()
        for epoch in range(1, count + 1)
    ]
    return pandas.DataFrame(rows).astype({"epoch": "Int64"}).assign(**columns)


def test_losses_are_compared_in_the_last_epoch_that_all_runs_share():
    frame = epochs_of({(32, 0): 5, (32, 1): 3, (256, 0): 4, (256, 1): 6})
    frame["train_loss"] = 1.0 / frame["epoch"].astype(float) + (frame["batch_size"] == 256)
    frame["validation_loss"] = frame["seed"] + frame["epoch"].astype(float)
    found = figures.FIGURES["loss_curves"].found
    assert found(frame) == (
        "Mean training loss in epoch 3, the last that all finished runs share, was 0.33 at batch "
        "size 32 and 1.33 at 256 (2 of 2 seeds). Mean validation loss in that epoch was 3.5 at "
        "batch size 32 and 3.5 at 256 (2 of 2 seeds)."
    )
    # What ended early counts as a seed, and shortens nothing.
    failed = (frame["batch_size"] == 256) & (frame["seed"] == 1)
    frame = frame[~(failed & (frame["epoch"] > 1))]
    frame = frame.assign(status=frame["status"].mask(failed, "diverged"))
    assert "in epoch 3, " in found(frame) and "(2 of 2 and 1 of 2 seeds)" in found(frame)


@pytest.mark.parametrize("axis, unit", [("updates", "updates"), ("examples", "examples")])
def test_losses_are_compared_where_all_runs_used_as_much(axis, unit):
    frame = epochs_of({(32, 0): 5, (32, 1): 3, (256, 0): 9, (256, 1): 8})
    used = {"updates": {32: 30, 256: 4}, "examples": {32: 1000, 256: 1000}}[axis]
    frame[axis] = frame["epoch"] * frame["batch_size"].map(used)
    frame["train_loss"] = frame["epoch"].astype(float)
    frame["validation_loss"] = 2.0
    # 32 updates are one epoch of the small batch and eight of the large; 3,000 examples three.
    most, small, large = {"updates": ("32", 1, 8), "examples": ("3,000", 3, 3)}[axis]
    assert figures.FIGURES[f"loss_curves_by_{axis}"].found(frame) == (
        f"Mean training loss over the last epoch that ends within {most} {unit}, which every "
        f"finished run has used, was {small} at batch size 32 and {large} at 256 (2 of 2 seeds). "
        "Mean validation loss at its end was 2 at batch size 32 and 2 at 256 (2 of 2 seeds)."
        + {"updates": " These epochs end at 30 to 32 updates.", "examples": ""}[axis]
    )


def test_the_least_that_was_used_is_named_where_epochs_end_apart():
    frame = epochs_of({(32, 0): 5, (256, 0): 9})
    frame["train_loss"] = frame["validation_loss"] = 2.0
    # Of 50 updates batch size 32 has made 40 by the end of an epoch, or 48 of shorter ones.
    for length, words in ((20, " These epochs end at 40 to 50 updates."), (24, "")):
        frame["updates"] = frame["epoch"] * frame["batch_size"].map({32: length, 256: 10})
        frame = frame[(frame["batch_size"] == 32) | (frame["epoch"] <= 5)]
        assert figures.FIGURES["loss_curves_by_updates"].found(frame).endswith(f"seed).{words}")


@pytest.mark.parametrize("axis", first(["updates", "examples", "seconds"]))
@pytest.mark.parametrize("base", ["loss_curves", "epoch_distance"])
def test_a_figure_over_epochs_is_drawn_over_what_was_used(two_rates, base, axis):
    figure, frame = frame_of(f"{base}_by_{axis}", two_rates)
    assert figure.entry.along == axis and "{" not in figure.entry.caption
    history = figures.read(two_rates).history.rename(columns={"step": "updates"})
    assert sorted(frame[axis].dropna()) == sorted(history[axis].dropna()) and len(frame) > 60
    drawing = figure.draw(frame)
    labels = {"updates": "updates", "examples": "examples", "seconds": "time (s)"}
    assert drawing.axes[-1].get_xlabel() == labels[axis]
    assert all(axes.get_xscale() == "log" for axes in drawing.axes)
    column = "train_loss" if base == "loss_curves" else "epoch_distance"
    size = (frame["batch_size"] == 16) & (frame["learning_rate"] == 0.05)
    first = frame[size & (frame["status"] == "finished") & (frame["epoch"] == 1)]
    mean = next(line for line in drawing.axes[0].lines if line.get_linewidth() >= 1.5)
    assert mean.get_xdata()[0] == first[axis].iloc[0]
    assert mean.get_ydata()[0] == pytest.approx(first[column].mean())


def test_ratios_of_epoch_distances_are_reported_where_all_pairs_have_them():
    frame = epochs_of({(32, 0): 5, (32, 1): 3, (256, 0): 9, (256, 1): 6})
    large = frame["batch_size"] == 256
    frame["epoch_distance"] = np.where(large, 2.0 + 0.1 * frame["seed"], 4.0 ** frame["epoch"])
    start, last = (
        wording.bracketed(*intervals.ratio_interval([way, way], [2.0, 2.1])[:3])
        for way in (4.0, 64.0)
    )
    assert start.startswith("1.95 [") and figures.FIGURES["epoch_distance"].found(frame) == (
        "The distance within an epoch at batch size 32 over that at 256 was, as geometric mean of "
        f"pairs of a seed with its 95 % interval, {start} in epoch 1 (2 of 2 seeds) and {last} in "
        "epoch 3 (2 of 2 seeds), the last that all pairs share."
    )


def test_the_shares_of_update_norms_add_up_to_one(two_rates):
    figure, frame = frame_of("update_norms", two_rates)
    axes = figure.draw(frame).axes[0]
    outlines = [patch.get_data() for patch in axes.patches]
    assert len(outlines) == 5
    for outline in outlines:
        assert outline.values.sum() == pytest.approx(1)
        assert np.diff(np.log10(outline.edges)) == pytest.approx(0.05)
    rows = frame[(frame["learning_rate"] == 0.05) & (frame["batch_size"] == 16)]
    medians = rows.drop_duplicates("seed")["update_norm_median"]
    marks = [line.get_xdata()[0] for line in axes.lines if line.get_marker() == "v"]
    assert marks[0] == pytest.approx(medians.mean())


def test_a_bin_that_a_run_does_not_list_holds_none_of_its_updates():
    rows = pandas.DataFrame({"seed": [0, 0, 1], "share": [0.5, 0.5, 1.0]})
    edges = 10 ** (np.arange(-40, -36) / 20)
    rows["low"], rows["high"] = edges[[0, 1, 2]], edges[[1, 2, 3]]
    found, shares = update_norms._mean_shares(rows[[True, False, True]])
    assert found == pytest.approx(edges) and shares.tolist() == [0.25, 0.0, 0.5]


def test_one_epoch_is_a_point_above_a_whole_number(tmp_path):
    runs = synthetic.grid([16, 64], [0, 1], epochs=1)
    folder = tables_of(tmp_path, runs, only=["runs", "history"])
    drawing, _ = drawing_of("loss_curves", folder)
    for axes in drawing.axes:
        assert axes.get_xlim() == (0.5, 1.5) and list(axes.get_xticks()) == [1.0]
        assert [bar.lines[0].get_marker() for bar in axes.containers] == ["o", "o"]
