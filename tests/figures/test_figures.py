"""What the figures of trainings show, of tables that are made up."""

import itertools
import math
import shutil

import numpy as np
import pandas
import pytest

import synthetic
from batchscope import errors, figures, wording
from batchscope.analysis import intervals, ratio_intervals, run_series
from batchscope.catalogue.timings import OF_SWEEPS
from batchscope.figures import update_norms
from batchscope.figures.drawing import canvas
from drawing import note, texts

RATES = [{"learning_rate": 0.05}, {"learning_rate": 0.1}]
NOISE_TABLES = ("runs", "at_epochs")
# Figures of trainings; those of timings are tested beside their own tables.
NAMES = [
    name
    for name, figure in figures.FIGURES.items()
    if not set(figure.entry.measures) & set(OF_SWEEPS)
]
# Figures whose first panel is against batch size.
AGAINST_BATCH_SIZE = (
    "best_losses",
    "accuracy",
    "accuracy_by_epochs",
    "generalisation_gap",
    "time",
    "training_time",
    "weight_distance",
    "weight_distance_by_layer",
    "displacement",
    "sharpness",
    "sam_sharpness",
    "hessian",
)


def tables_of(folder, runs, failed=None, patience=False, measures=None, only=()):
    """Writes a made-up experiment; returns the folder of its tables, all or some."""
    planned = synthetic.study(runs, measures)
    synthetic.write(folder / "results", planned, failed, patience)
    synthetic.tabulate(folder / "results", planned, folder / "tables", only)
    return folder / "tables"


@pytest.fixture(scope="module")
def two_rates(tmp_path_factory):
    """Tables of 5 batch sizes, 6 seeds and 2 rates, with every kind of failure."""
    runs = synthetic.grid(cases=RATES)
    failed = {run: "diverged" for run in synthetic.grid([256], [0, 1], RATES[1:])}
    failed |= {run: "missing" for run in synthetic.grid([64], [5], RATES)}
    failed |= {run: "out_of_memory" for run in synthetic.grid([256], [5], RATES[:1])}
    return tables_of(tmp_path_factory.mktemp("two_rates"), runs, failed, patience=True)


def test_points_means_and_intervals(two_rates):
    figure = figures.FIGURES["weight_distance"]
    frame = figure.select(figures.read(two_rates))
    axes = figure.draw(frame).axes[0]
    chosen = frame[(frame["learning_rate"] == 0.05) & (frame["status"] == "finished")]
    points, mean = axes.lines[0], axes.containers[0]
    assert len(points.get_xdata()) == len(chosen)
    at_32 = intervals.t_interval(chosen.loc[chosen["batch_size"] == 32, "weight_distance"])
    assert mean.lines[0].get_ydata()[1] == pytest.approx(at_32.mean)
    (low, high) = mean.lines[2][0].get_segments()[1][:, 1]
    assert (low, high) == pytest.approx((at_32.low, at_32.high))


def test_failures_are_marked(two_rates):
    figure = figures.FIGURES["accuracy"]
    found = texts(figure.draw(figure.select(figures.read(two_rates))))
    assert {"2 div.\n1 mem.", "2 miss."} <= found
    assert any("Of 60 runs: 2 diverged (div.), 1 out of memory" in text for text in found)


def test_what_missed_its_target_loss_is_marked_and_in_no_mean(two_rates):
    figure = figures.FIGURES["weight_distance"]
    frame = figure.select(figures.read(two_rates))
    chosen = (frame["learning_rate"] == 0.05) & (frame["batch_size"] == 32)
    frame.loc[frame.index[chosen][0], "status"] = "off_target"
    drawing = figure.draw(frame)
    assert any("1 off t." in found for found in texts(drawing))
    assert any("1 off target (off t.)" in found for found in texts(drawing))
    mean = drawing.axes[0].containers[0].lines[0].get_ydata()[1]
    kept = frame[chosen & (frame["status"] == "finished")]
    assert mean == pytest.approx(kept["weight_distance"].mean())


def test_the_binomial_error_is_drawn(two_rates):
    figure = figures.FIGURES["accuracy"]
    frame = figure.select(figures.read(two_rates))
    axes = figure.draw(frame).axes[2]
    rows = frame[(frame["batch_size"] == 16) & (frame["learning_rate"] == 0.05)]
    mean = rows["test_accuracy"].mean()
    half = intervals.binomial_half_width(mean, 360)
    bars = [line.get_ydata() for line in axes.lines if line.get_linewidth() == 7]
    assert bars[0] == pytest.approx([mean - half, min(mean + half, 1)])
    assert axes.get_ylim()[1] < 1.01
    assert axes.get_title("left") == "Test (360 examples)"


def test_a_legend_only_where_there_is_something_to_tell_apart(two_rates, tmp_path):
    figure = figures.FIGURES["best_losses"]
    drawing = figure.draw(figure.select(figures.read(two_rates)))
    (legend,) = drawing.legends
    assert [text.get_text() for text in legend.get_texts()] == [
        "learning rate 0.05",
        "learning rate 0.1",
    ]
    folder = tables_of(tmp_path, synthetic.grid([16, 32], [0, 1]), measures={}, only=["runs"])
    assert figure.draw(figure.select(figures.read(folder))).legends == []


@pytest.mark.parametrize("name", ["best_losses", "learning_rate"])
def test_no_interval_of_a_logarithmic_axis_ends_below_zero(name):
    """Losses of two seeds that scatter by a factor of 100: their linear interval holds 0."""
    factors = [(size, seed) for size in (16, 256) for seed in (0, 1)]
    losses = [0.01, 1.0, 0.02, 0.9]
    frame = pandas.DataFrame(factors, columns=["batch_size", "seed"])
    frame = frame.assign(status="finished", learning_rate=0.1, effective_learning_rate=0.1)
    frame = frame.assign(best_train_loss=losses, best_validation_loss=losses)
    axes = figures.FIGURES[name].draw(frame).axes[0]
    assert axes.get_yscale() == "log"
    bars = [bar for each in axes.containers for bar in each.lines[2][0].get_segments()]
    lows, highs = (np.array([bar[end, 1] for bar in bars]) for end in (0, 1))
    means = np.array([y for each in axes.containers for y in each.lines[0].get_ydata()])
    assert (lows > 0).all() and (highs / means) == pytest.approx(means / lows)
    linear = frame.assign(best_train_loss=1.0 + frame["best_train_loss"] / 100)
    linear = linear.assign(best_validation_loss=linear["best_train_loss"])
    axes = figures.FIGURES[name].draw(linear).axes[0]
    (low, mean, high) = (
        axes.containers[0].lines[2][0].get_segments()[0][0, 1],
        axes.containers[0].lines[0].get_ydata()[0],
        axes.containers[0].lines[2][0].get_segments()[0][1, 1],
    )
    assert axes.get_yscale() == "linear" and high - mean == pytest.approx(mean - low)


@pytest.mark.parametrize("values", [[1e-3, 1.0], [0.0, 1e-3, 1.0], [0.5, 1.0], [0.0, 1e-9]])
def test_numbers_on_an_axis_are_plain_whatever_its_scale(values):
    """Texts are drawn as they are written: no label of an axis may be a formula."""
    with canvas.style():
        drawing, grid = canvas.panels(1, 1)
        grid[0, 0].plot(values)
        canvas.value_axis(grid[0, 0], values)
        drawing.draw_without_rendering()
    shown = [text for text in texts(drawing) if text != "0"]
    assert len(shown) > 2 and not any("$" in text for text in shown)


def test_one_seed_has_a_mean_and_no_interval(tmp_path):
    figure = figures.FIGURES["weight_distance"]
    folder = tables_of(tmp_path, synthetic.grid(seeds=[0]), only=["runs"])
    axes = figure.draw(figure.select(figures.read(folder))).axes[0]
    for segment in axes.containers[0].lines[2][0].get_segments():
        assert segment[0, 1] == segment[1, 1]


def frame_of(name, folder):
    figure = figures.FIGURES[name]
    return figure, figure.select(figures.read(folder))


def test_the_ratio_of_epoch_distances_is_paired_by_seed(two_rates):
    figure, frame = frame_of("epoch_distance", two_rates)
    left, right = figure.draw(frame).axes[:2]
    assert left.get_yscale() == "log"
    assert right.get_title("left") == "Ratio, 16 over 256"
    rows = frame[(frame["learning_rate"] == 0.05) & (frame["status"] == "finished")]
    rows = rows[rows["epoch"] == 1]
    small, large = (
        rows[rows["batch_size"] == size].set_index("seed")["epoch_distance"] for size in (16, 256)
    )
    ratios = (small / large).dropna()
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
    most, small, large = {"updates": ("32", 1, 8), "examples": ("3000", 3, 3)}[axis]
    assert figures.FIGURES[f"loss_curves_by_{axis}"].found(frame) == (
        f"Mean training loss at the last epoch's end within {most} {unit}, which every finished "
        f"run has, was {small} at batch size 32 and {large} at 256 (2 of 2 seeds). Mean "
        "validation loss there was 2 at batch size 32 and 2 at 256 (2 of 2 seeds)."
    )


@pytest.mark.parametrize("axis", ["updates", "examples", "seconds"])
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


def test_ratios_of_epoch_distances_are_told_where_all_pairs_have_them():
    frame = epochs_of({(32, 0): 5, (32, 1): 3, (256, 0): 9, (256, 1): 6})
    large = frame["batch_size"] == 256
    frame["epoch_distance"] = np.where(large, 2.0 + 0.1 * frame["seed"], 4.0 ** frame["epoch"])
    first, last = (
        wording.bracketed(*intervals.ratio_interval([way, way], [2.0, 2.1])[:3])
        for way in (4.0, 64.0)
    )
    assert first.startswith("1.95 [") and figures.FIGURES["epoch_distance"].found(frame) == (
        "The distance within an epoch at batch size 32 over that at 256 was, as geometric mean of "
        f"pairs of a seed with its 95 % interval, {first} in epoch 1 (2 of 2 seeds) and {last} in "
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


def test_the_parts_of_the_distance_add_up(two_rates):
    figure, frame = frame_of("displacement", two_rates)
    axes = figure.draw(frame).axes[0]
    heights = np.array([[bar.get_height() for bar in bars] for bars in axes.containers[:3]])
    total = axes.containers[3].lines[0].get_ydata()
    assert heights.sum(axis=0) == pytest.approx(total)
    rows = frame[(frame["learning_rate"] == 0.05) & (frame["status"] == "finished")]
    distance = rows["updates"] * rows["update_norm_mean"] * rows["straightness"]
    by_size = np.log2(distance).groupby([rows["batch_size"], rows["seed"]]).mean().unstack()
    assert total == pytest.approx((by_size - by_size.loc[16]).mean(axis=1).to_numpy())
    assert heights[0, -1] == pytest.approx(np.log2(200 / 2880))


def test_alignment_stands_beside_independent_directions(two_rates):
    figure, frame = frame_of("gradient_alignment", two_rates)
    axes = figure.draw(frame).axes[0]
    assert axes.get_title("left") == "Batch size 16, learning rate 0.05"
    assert axes.get_xscale() == axes.get_yscale() == "log"
    # Each place beside its own, in its colour.
    start, independent, *others = axes.lines
    assert len(others) == 4 and independent.get_color() == start.get_color()
    examples = 2.0 ** np.arange(9)
    assert independent.get_ydata() == pytest.approx(examples**-0.5)
    rows = frame[(frame["learning_rate"] == 0.05) & (frame["batch_size"] == 16)]
    rows = rows[(rows["place"] == "start") & (rows["examples"] == 256)]
    assert start.get_ydata()[-1] == pytest.approx(rows["ratio"].mean())


def noise_lines(drawing, size):
    """Returns x and y of the full and of the hollow marks of one batch size's colour.

    Small ones, of single runs, apart.
    """
    lines = drawing.axes[0].lines
    colour = next(line.get_color() for line in lines if list(line.get_ydata()) == [size, size])
    marks = [line for line in lines if line.get_color() == colour and line.get_marker() != "None"]
    marks = [line for line in marks if line.get_markersize() > 3]
    hollow = [line for line in marks if line.get_markerfacecolor() == "white"]
    return tuple(
        [(float(line.get_xdata()[0]), float(line.get_ydata()[0])) for line in found]
        for found in ([line for line in marks if line not in hollow], hollow)
    )


def test_the_noise_scale_is_a_ratio_of_means_over_the_training(tmp_path):
    tables = tables_of(tmp_path, synthetic.grid([16, 256]), only=NOISE_TABLES)
    figure, frame = frame_of("noise_scale", tables)
    assert frame["place"].drop_duplicates().tolist() == ["start", "epoch", "end"]
    drawing = figure.draw(frame)
    full, hollow = noise_lines(drawing, 16)
    assert [epoch for epoch, _ in full] == [0, 1, 2, 5, 16]
    rows = frame[(frame["batch_size"] == 16) & (frame["epoch"] == 5)]
    expected = rows["gradient_variance"].mean() / rows["gradient_norm_squared"].mean()
    assert dict(full)[5] == pytest.approx(expected)
    # At the end the gradient is below its own error: at least so much.
    rows = frame[(frame["batch_size"] == 16) & (frame["place"] == "end")]
    columns = [rows["gradient_variance"], rows["gradient_norm_squared"]]
    assert hollow == [(40, pytest.approx(ratio_intervals.fieller(*columns).low))]
    curve = next(line for line in drawing.axes[0].lines if len(line.get_xdata()) == 6)
    assert np.isnan(curve.get_ydata()).tolist() == [False] * 5 + [True]
    assert {"B = 16", "B = 256"} <= texts(drawing)
    assert any("Fieller's 95 % intervals" in text for text in texts(drawing))
    assert not any("Adam" in text for text in texts(drawing))
    assert "at least" in figure.found(frame) and "(6 of 6 seeds)" in figure.found(frame)


def test_the_noise_scale_of_one_seed_may_not_be_resolved(tmp_path):
    tables = tables_of(tmp_path, synthetic.grid(seeds=[0]), only=NOISE_TABLES)
    figure, frame = frame_of("noise_scale", tables)
    drawing = figure.draw(frame)
    negative = frame[frame["gradient_norm_squared"] < 0]
    assert len(negative) and negative["gradient_noise_scale"].isna().all()
    words = [text for text in drawing.findobj(match=lambda one: hasattr(one, "get_text"))]
    assert sum(one.get_text() == "not resolved" for one in words) == len(negative)
    for size in negative["batch_size"]:
        full, hollow = noise_lines(drawing, size)
        assert 40 not in dict(full) and not hollow
    assert any("jackknife" in text for text in texts(drawing))


def test_the_noise_scale_of_adam_and_without_epochs_between(tmp_path):
    cases = [{"optimizer": "sgd"}, {"optimizer": "adam"}]
    runs = synthetic.grid([16, 32], [0, 1], cases)
    tables = figures.read(tables_of(tmp_path, runs, only=NOISE_TABLES))
    figure = figures.FIGURES["noise_scale"]
    frame = figure.select(figures.Tables(runs=tables.runs, at_epochs=tables.at_epochs[:0]))
    assert set(frame["place"]) == {"start", "end"}
    drawing = figure.draw(frame)
    assert any("Adam: of the raw gradients" in text for text in texts(drawing))
    assert "(Adam) the gradient noise scale was" in figure.found(frame)


def test_a_single_seed_shows_the_errors_of_the_curvature_itself(tmp_path):
    tables = tables_of(tmp_path, synthetic.grid(seeds=[0]), only=["runs"])
    figure, frame = frame_of("hessian", tables)
    axes = figure.draw(frame).axes[1]
    segments = axes.containers[0].lines[2][0].get_segments()
    halves = [(segment[1, 1] - segment[0, 1]) / 2 for segment in segments]
    assert halves == pytest.approx(frame["hessian_trace_error"].tolist())
    assert figure.found(frame).count("1 of 1 seed)") == 2


def test_what_was_found_holds_the_means(two_rates):
    figure, frame = frame_of("weight_distance", two_rates)
    rows = frame[(frame["learning_rate"] == 0.05) & (frame["batch_size"] == 256)]
    mean = rows["weight_distance"].mean()
    assert f"{mean:.2f} at 256 (6 of 6 and 5 of 6 seeds)" in figure.found(frame)


def test_figures_follow_from_measures():
    assert figures.available([]) == ["loss_curves", "best_losses"]
    stated = {"test_accuracy": 0.03}
    everything = (synthetic.MEASURES, ["learning_rate"], synthetic.AT_EPOCHS, stated, True)
    unasked = [name for name in NAMES if not figures.FIGURES[name].entry.along]
    assert figures.available(*everything, batch_sizes=3, timed=True) == unasked
    untimed = figures.available([], batch_sizes=3)
    assert "critical_batch_size" in untimed and "fastest_batch_size" not in untimed
    assert "critical_batch_size" not in figures.available([], batch_sizes=2)
    assert "batch_size_limits" not in figures.available(synthetic.MEASURES)
    assert "progress" not in figures.available(synthetic.MEASURES)
    assert "progress" in figures.available([], evaluated=True)
    assert "verdict_matrix" not in figures.available([], batch_sizes=2)
    assert "verdict_matrix" in figures.available([], batch_sizes=3)
    assert "verdict_matrix" not in figures.available(["throughput"], batch_sizes=0)
    assert "training_time" not in figures.available(synthetic.MEASURES, ["learning_rate"])
    assert "training_time" not in figures.available(["evaluate"], [], [1, 5])
    assert "learning_rate" not in figures.available(synthetic.MEASURES, ["momentum"])
    assert "sharpness" not in figures.available(["evaluate", "weight_distance"])
    # Where nothing is trained there is no loss to draw.
    assert figures.available(["throughput"]) == ["throughput", "step_time"]
    assert "training_time" in figures.available(["throughput"], [], [1, 5])


def test_an_experiment_without_measures(tmp_path):
    folder = tables_of(tmp_path, synthetic.grid([16, 32], [0, 1]), measures={})
    figures.write(folder, figures.available([]), tmp_path / "figures")
    assert (tmp_path / "figures" / "loss_curves.svg").exists()


def test_a_folder_of_figures_is_never_there_in_part(two_rates, tmp_path, monkeypatch):
    folder = tmp_path / "figures"
    names = ["loss_curves", "accuracy"]

    def written(tables, figure, where):
        for name in figures.files([figure.entry.name])[:-1]:
            (where / name).touch()
        return {"name": figure.entry.name}

    def interrupted(tables, figure, where):
        if figure.entry.name == "accuracy":
            raise KeyboardInterrupt
        return written(tables, figure, where)

    for before in (set(), {"old.svg"}):
        monkeypatch.setattr(figures, "_write_figure", interrupted)
        with pytest.raises(KeyboardInterrupt):
            figures.write(two_rates, names, folder)
        assert {path.name for path in folder.glob("*")} == before
        monkeypatch.setattr(figures, "_write_figure", written)
        figures.write(two_rates, names, folder)  # and what it no longer has is gone
        assert {path.name for path in folder.iterdir()} == set(figures.files(names))
        assert [path.name for path in tmp_path.iterdir()] == ["figures"]
        shutil.rmtree(folder)
        folder.mkdir()
        (folder / "old.svg").touch()


def test_an_unknown_figure_is_refused(two_rates, tmp_path):
    with pytest.raises(errors.UserError, match="figures: received 'speed'; one of loss_curves"):
        figures.write(two_rates, ["speed"], tmp_path)


def test_captions_are_plain_enough_for_both_reports():
    for name in figures.FIGURES:
        caption = figures.FIGURES[name].entry.caption
        assert caption.endswith(".") and not set(caption) & set("`{}<>|*_")


def test_the_styles_differ_in_grey():
    styles = [canvas.line_style(index) for index in range(12)]
    drawn = {(style["marker"], str(style["linestyle"])) for style in styles}
    assert len(drawn) == len(styles)
    assert len({(style["color"], style["marker"]) for style in styles}) == len(styles)
    greys = [
        np.dot([int(style["color"][i : i + 2], 16) for i in (1, 3, 5)], [0.299, 0.587, 0.114])
        for style in canvas.ordered_styles(5)
    ]
    assert all(later - earlier > 15 for earlier, later in itertools.pairwise(greys))


def test_series_and_what_follows_from_the_batch_size(tmp_path):
    runs = [
        run
        for size, rate in ((32, 0.01), (64, 0.02), (128, 0.04))
        for run in synthetic.grid([size], [0, 1], learning_rate=rate)
    ]
    frame = run_series.read(tables_of(tmp_path, runs, only=["runs"]) / "runs.csv")
    assert run_series.varying(frame) == ["learning_rate"]
    assert run_series.series_factors(frame) == []
    assert run_series.coupled_factors(frame) == {"learning_rate": [0.01, 0.02, 0.04]}
    figure = figures.FIGURES["best_losses"]
    drawing = figure.draw(figure.select(figures.read(tmp_path / "tables")))
    assert "With the batch size changes: learning rate 0.01, 0.02, 0.04." in texts(drawing)


def test_factors_that_move_together_are_told_once_and_named_whole(tmp_path):
    cases = [
        {"learning_rate": 0.1, "optimizer": "sgd"},
        {"learning_rate": 0.001, "optimizer": "adam"},
        {"learning_rate": 0.1, "optimizer": "sgd", "momentum": 0.9, "nesterov": True},
    ]
    runs = synthetic.grid([16, 32], [0], cases)
    folder = tables_of(tmp_path, runs, measures={}, only=["runs"])
    frame = run_series.read(folder / "runs.csv")
    assert [group.label for group in run_series.series(frame)] == [
        "learning rate 0.1, SGD, momentum 0, no nesterov",
        "learning rate 0.001, Adam, momentum 0, no nesterov",
        "learning rate 0.1, SGD, momentum 0.9, nesterov",
    ]
    assert len(run_series.series_factors(frame)) == 2
    assert all(len(group.frame) == 2 for group in run_series.series(frame))


@pytest.mark.parametrize(
    ("sizes", "shown"),
    [
        ([16, 32, 64], [16, 32, 64]),
        ([32], [32]),
        (list(range(1, 65)), [1, 2, 4, 8, 16, 32, 64]),
        ([100, 200, 400, 1000], [100, 200, 400, 1000]),
    ],
)
def test_labelled_batch_sizes(sizes, shown):
    assert canvas.spread(sizes) == shown


def test_trainings_that_nothing_stopped_are_lower_bounds():
    frame = pandas.DataFrame(
        {
            "batch_size": [32, 32, 256, 256],
            "seed": [0, 1, 0, 1],
            "status": "finished",
            "seconds_per_epoch": [2.0, 2.0, 1.0, 1.0],
            "seconds_per_epoch_q1": [2.0, 2.0, 1.0, 1.0],
            "seconds_per_epoch_q3": [2.0, 2.0, 1.0, 1.0],
            "epochs_run": [30, 40, 60, 100],
            "train_seconds": [60.0, 80.0, 60.0, 100.0],
            "epochs": 100,
            "patience": 10,
            "replicas": 1,
            "device": "cpu",
        }
    )
    time = figures.FIGURES["time"]
    told = "1 of 2 runs at batch size 256 ran to the last epoch that they may; their times and the"
    assert time.found(frame).endswith(
        "Mean number of epochs until it stopped was 35 at batch size 32 and 80 at 256 (2 of 2 "
        "seeds). Mean total training time was 70 s at batch size 32 and 80 s at 256 (2 of 2 "
        f"seeds). {told} means are lower bounds."
    )
    drawing = time.draw(frame)
    assert f"{told} means are lower bounds (hollow, with an arrow)." in note(drawing)
    hollow = [
        [line.get_ydata().tolist() for line in axes.lines if line.get_markerfacecolor() == "white"]
        for axes in drawing.axes
    ]
    assert hollow == [[], [[100]], [[100.0]]]
    # All of them, where the horizon was too short for every run; none, where it was chosen.
    runs = frame.assign(epochs_run=100)
    every = time.draw(time.select(figures.Tables(runs=runs)))
    points = [
        line.get_ydata().tolist()
        for line in every.axes[2].lines
        if line.get_markerfacecolor() == "white"
    ]
    assert points == [[60.0, 80.0, 60.0, 100.0]]
    assert "lower bounds (hollow, with an arrow)" in note(every)
    assert "lower bounds" in time.found(frame.assign(epochs_run=100))
    chosen = time.draw(frame.assign(epochs_run=100, patience=0))
    assert "none stopped early" in chosen.get_supxlabel()
    assert not [
        point
        for line in chosen.axes[2].lines
        if line.get_markerfacecolor() == "white"
        for point in line.get_ydata()
    ]
    stopped = frame.assign(epochs=101)
    assert "lower bound" not in time.found(stopped)
    assert "lower bound" not in time.draw(stopped).get_supxlabel()


def test_times_of_logical_devices_are_marked():
    frame = pandas.DataFrame(
        {
            "batch_size": [32, 256],
            "seed": 0,
            "status": "finished",
            "seconds_per_epoch": [12.4, 7.7],
            "epochs_run": 1,
            "train_seconds": [12.4, 7.7],
            "epochs": 1,
            "replicas": 4,
            "device": "cpu",
        }
    )
    mark = "Replicas are logical devices of one CPU here: they prove correctness and not speed."
    time = figures.FIGURES["time"]
    told = "Mean time per epoch was 12.4 s at batch size 32 and 7.7 s at 256 (1 of 1 seed)."
    assert time.found(frame) == f"{told} {mark}"
    drawing = time.draw(frame)  # of one epoch, which is all that was timed
    assert mark in note(drawing) and "none stopped" not in note(drawing)
    assert [axes.get_title("left") for axes in drawing.axes] == ["Time per epoch"]
    assert mark not in time.found(frame.assign(device="gpu"))
    two = pandas.concat([frame.assign(device="gpu"), frame.assign(replicas=1, train_seconds=1.0)])
    two.loc[two["replicas"] == 1, "seconds_per_epoch"] += 10
    assert "4 replicas: 12.4 s" in time.found(two) and "1 replica: 22.4 s" in time.found(two)


def test_no_accuracy_and_no_distance_is_drawn_where_none_can_be(tmp_path):
    """Two seeds far apart: their t-intervals reach below 0 and above 100 %."""
    folder = tables_of(tmp_path, synthetic.grid([16, 64], [0, 1]))
    tables = figures.read(folder)
    runs = tables.runs.assign(test_accuracy=[0.2, 0.9] * 2, weight_distance=[1.0, 3.0] * 2)
    tables = figures.Tables(runs=runs)
    for name, least, largest in (("accuracy", 0, 1), ("weight_distance", 0, math.inf)):
        figure = figures.FIGURES[name]
        drawing = figure.draw(figure.select(tables))
        for axes in drawing.axes:
            bottom, top = axes.get_ylim()
            assert least - 0.03 <= bottom < top <= largest + 0.04
        assert "An interval is cut" in drawing.get_supxlabel()
    signed = runs.assign(generalisation_gap=[-1.0, 3.0] * 2)
    figure = figures.FIGURES["generalisation_gap"]
    axes = figure.draw(figure.select(figures.Tables(runs=signed))).axes[0]
    assert axes.get_ylim()[0] < -1


def test_many_series_stand_in_panels_by_what_they_share(tmp_path):
    cases = [
        {"optimizer": optimizer, "learning_rate": rate, "method": method}
        for optimizer, rate in (("sgd", 0.05), ("adam", 0.001))
        for method in ("plain", "robust", "conservative")
    ]
    drawing, _ = drawing_of("accuracy", tables_of(tmp_path, synthetic.grid([16, 64], [0], cases)))
    titles = [axes.get_title("left").split(", ")[-1] for axes in drawing.axes]
    assert titles == ["SGD"] * 3 + ["Adam"] * 3
    labels = [text.get_text() for text in drawing.legends[0].get_texts()]
    assert labels == ["plain updates", "robust updates", "conservative updates"]
    drawn = [len(axes.containers) for axes in drawing.axes]
    assert drawn == [3] * 6
    assert len({axes.get_ylim() for axes in drawing.axes}) == 1


def drawing_of(name, folder):
    figure, frame = frame_of(name, folder)
    return figure.draw(frame), frame


def test_series_that_wait_for_a_gpu_take_no_room(tmp_path):
    cases = [{"device": device} for device in ("cpu", "gpu")]
    runs = synthetic.grid([16, 64], [0, 1], cases)
    folder = tables_of(tmp_path, runs, {run: "missing" for run in runs if "gpu" in run})
    figure, frame = frame_of("best_losses", folder)
    waiting = frame["device"] == "gpu"
    frame.loc[waiting, "status"] = "no_gpu"
    drawing = figure.draw(frame)
    assert not drawing.legends
    assert "4 no GPU" in drawing.get_supxlabel()
    alone = figure.draw(frame[waiting])
    assert "no GPU" in texts(alone)


def test_one_epoch_is_a_point_above_a_whole_number(tmp_path):
    folder = tables_of(tmp_path, synthetic.grid([16, 64], [0, 1], epochs=1))
    drawing, _ = drawing_of("loss_curves", folder)
    for axes in drawing.axes:
        assert axes.get_xlim() == (0.5, 1.5) and list(axes.get_xticks()) == [1.0]
        assert [bar.lines[0].get_marker() for bar in axes.containers] == ["o", "o"]


def test_a_title_wider_than_its_panel_is_broken(tmp_path):
    folder = tables_of(tmp_path, synthetic.grid([16, 64], [0], cases=RATES))
    figure, frame = frame_of("loss_curves", folder)
    drawing = figure.draw(frame)
    for axes in drawing.axes:
        told = f"{axes.get_title('left')}, with all that goes with this learning rate, told"
        axes.set_title(told, loc="left")
    canvas.svg_and_png(drawing, "A title")
    for axes in drawing.axes:
        title = axes.get_title("left")
        assert "\n" in title and title.replace("\n", " ").endswith("rate, told")
        assert min(map(len, title.split("\n"))) > 15  # no word alone


def test_all_panels_of_sharpness_are_logarithmic_where_one_is(tmp_path):
    folder = tables_of(tmp_path, synthetic.grid([16, 64], [0, 1]))
    tables = figures.read(folder)
    columns = [name for name in tables.runs if name.startswith("sharpness_")]
    values = {name: [1.0, 2.0, 3.0, 4.0] for name in columns}
    values[columns[0]] = [1.0, 2.0, 30.0, 40.0]
    figure = figures.FIGURES["sharpness"]
    drawing = figure.draw(figure.select(figures.Tables(runs=tables.runs.assign(**values))))
    assert {axes.get_yscale() for axes in drawing.axes} == {"log"}
    for axes in drawing.axes[1:]:
        assert axes.get_ylim()[0] > 0.5


def test_the_layers_that_differ_most_and_least_are_told(two_rates):
    figure, frame = frame_of("weight_distance_by_layer", two_rates)
    found = figure.found(frame)
    assert found.startswith("The mean distance at the smallest batch size over that at the largest")
    assert found.endswith("over 4 layers and 2 series.")
