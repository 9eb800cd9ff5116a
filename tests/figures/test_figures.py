"""What the figures of trainings show, of tables that are made up."""

import itertools
import math
import shutil

import numpy as np
import pandas
import pytest

import synthetic
from batchscope import errors, figures
from batchscope.analysis import intervals, run_series
from batchscope.figures.drawing import against_batch_size, canvas
from batchscope.tables import csv_tables
from drawing import bars, legend, texts, titles
from made_figures import RATES, drawing_of, frame_of, tables_of


def runs_of(folder, runs):
    return figures.read(tables_of(folder, runs, only=["runs"])).runs


def drawing_of_runs(name, runs):
    figure = figures.FIGURES[name]
    return figure.draw(figure.select(figures.Tables(runs=runs)))


def test_points_means_and_intervals(two_rates):
    drawing, frame = drawing_of("weight_distance", two_rates)
    axes = drawing.axes[0]
    chosen = frame[(frame["learning_rate"] == 0.05) & (frame["status"] == "finished")]
    points, mean = axes.lines[0], axes.containers[0]
    assert len(points.get_xdata()) == len(chosen)
    at_32 = intervals.t_interval(chosen.loc[chosen["batch_size"] == 32, "weight_distance"])
    assert mean.lines[0].get_ydata()[1] == pytest.approx(at_32.mean)
    assert bars(mean)[1, :, 1] == pytest.approx([at_32.low, at_32.high])


def test_failures_are_marked(two_rates):
    drawing, _ = drawing_of("accuracy", two_rates)
    found = texts(drawing)
    assert {"2 div.\n1 mem.", "2 miss."} <= found
    assert any("Of 60 runs: 2 diverged (div.), 1 out of memory" in text for text in found)


def test_what_missed_its_target_loss_is_marked_and_in_no_mean(two_rates):
    figure, frame = frame_of("weight_distance", two_rates)
    chosen = (frame["learning_rate"] == 0.05) & (frame["batch_size"] == 32)
    frame.loc[frame.index[chosen][0], "status"] = "off_target"
    drawing = figure.draw(frame)
    assert any("1 off t." in found for found in texts(drawing))
    assert any("1 off target (off t.)" in found for found in texts(drawing))
    mean = drawing.axes[0].containers[0].lines[0].get_ydata()[1]
    kept = frame[chosen & (frame["status"] == "finished")]
    assert mean == pytest.approx(kept["weight_distance"].mean())


def test_the_binomial_error_is_drawn(two_rates):
    drawing, frame = drawing_of("accuracy", two_rates)
    axes = drawing.axes[2]
    rows = frame[(frame["batch_size"] == 16) & (frame["learning_rate"] == 0.05)]
    mean = rows["test_accuracy"].mean()
    half = intervals.binomial_half_width(mean, 360)
    errors = [line.get_ydata() for line in axes.lines if line.get_linewidth() == 7]
    assert errors[0] == pytest.approx([mean - half, min(mean + half, 1)])
    assert axes.get_ylim()[1] < 1.01
    assert axes.get_title("left") == "Test (360\N{NO-BREAK SPACE}examples)"


def test_a_legend_only_where_there_is_something_to_distinguish(two_rates, tmp_path):
    drawing, _ = drawing_of("best_losses", two_rates)
    assert legend(drawing) == ["learning rate 0.05", "learning rate 0.1"]
    folder = tables_of(tmp_path, synthetic.grid([16, 32], [0, 1]), measures={}, only=["runs"])
    drawing, _ = drawing_of("best_losses", folder)
    assert drawing.legends == []


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
    lows, highs = np.concatenate([bars(each)[:, :, 1] for each in axes.containers]).T
    means = np.array([y for each in axes.containers for y in each.lines[0].get_ydata()])
    assert (lows > 0).all() and (highs / means) == pytest.approx(means / lows)
    linear = frame.assign(best_train_loss=1.0 + frame["best_train_loss"] / 100)
    linear = linear.assign(best_validation_loss=linear["best_train_loss"])
    axes = figures.FIGURES[name].draw(linear).axes[0]
    (bar, *_) = axes.containers
    mean, (low, high) = bar.lines[0].get_ydata()[0], bars(bar)[0, :, 1]
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
    folder = tables_of(tmp_path, synthetic.grid(seeds=[0]), only=["runs"])
    drawing, _ = drawing_of("weight_distance", folder)
    assert not np.diff(bars(drawing.axes[0].containers[0])[:, :, 1]).any()


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
    drawing, frame = drawing_of("gradient_alignment", two_rates)
    axes = drawing.axes[0]
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


def test_a_single_seed_shows_the_errors_of_the_curvature_itself(tmp_path):
    tables = tables_of(tmp_path, synthetic.grid(seeds=[0]), only=["runs"])
    figure, frame = frame_of("hessian", tables)
    axes = figure.draw(frame).axes[1]
    halves = np.diff(bars(axes.containers[0])[:, :, 1]).ravel() / 2
    assert halves == pytest.approx(frame["hessian_trace_error"].to_numpy())
    assert figure.found(frame).count("1 of 1 seed)") == 2


def test_what_was_found_holds_the_means(two_rates):
    figure, frame = frame_of("weight_distance", two_rates)
    rows = frame[(frame["learning_rate"] == 0.05) & (frame["batch_size"] == 256)]
    mean = rows["weight_distance"].mean()
    assert f"{mean:.2f} at 256 (6 of 6 and 5 of 6 seeds)" in figure.found(frame)


@pytest.mark.slow
def test_an_experiment_without_measures(tmp_path):
    folder = tables_of(tmp_path, synthetic.grid([16, 32], [0, 1]), measures={})
    figures.write(folder, ["loss_curves", "best_losses"], tmp_path / "figures")
    assert (tmp_path / "figures" / "loss_curves.svg").exists()


def test_a_folder_of_figures_is_never_there_in_part(two_rates, tmp_path, monkeypatch):
    folder = tmp_path / "figures"
    names = ["loss_curves", "accuracy"]

    def written(tables, figure, where):
        for name in figures.files([figure])[:-1]:
            (where / name).touch()
        return {"name": figure}

    def interrupted(tables, figure, where):
        if figure == "accuracy":
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


@pytest.mark.slow
def test_two_processes_draw_the_figures_of_one(two_rates, tmp_path):
    names = ["loss_curves", "accuracy", "generalisation_gap"]
    for processes in (1, 2):
        figures.write(two_rates, names, tmp_path / str(processes), processes)
    folders = (tmp_path / "1", tmp_path / "2")
    of_one, of_two = ({one.name: one.read_bytes() for one in each.iterdir()} for each in folders)
    assert set(of_one) == set(figures.files(names)) and of_one == of_two


def test_an_unknown_figure_is_refused(two_rates, tmp_path):
    with pytest.raises(errors.UserError, match="figures: received 'speed'; one of loss_curves"):
        figures.write(two_rates, ["speed"], tmp_path)


def test_captions_are_plain_enough_for_both_reports():
    for figure in figures.FIGURES.values():
        caption = figure.entry.caption
        assert caption.endswith(".") and not set(caption) & set("`{}<>|*_")


def test_the_styles_differ_in_grey():
    styles = [canvas.line_style(index) for index in range(12)]
    drawn = {(style["marker"], str(style["linestyle"])) for style in styles}
    assert len(drawn) == len(styles)
    assert len({(style["color"], style["marker"]) for style in styles}) == len(styles)
    greys = [
        np.dot([int(style["color"][i : i + 2], 16) for i in (1, 3, 5)], [0.299, 0.587, 0.114])
        for style in canvas.ordered_styles(range(5)).values()
    ]
    assert all(later - earlier > 15 for earlier, later in itertools.pairwise(greys))


def test_series_and_what_follows_from_the_batch_size(tmp_path):
    cases = [{"batch_size": 32 * 2**at, "learning_rate": 0.01 * 2**at} for at in range(3)]
    folder = tables_of(tmp_path, synthetic.grid([0], [0, 1], cases), only=["runs"])
    frame = csv_tables.read(folder / "runs.csv")
    assert run_series.varying(frame) == ["learning_rate"]
    assert run_series.series_factors(frame) == []
    assert run_series.coupled_factors(frame) == {"learning_rate": [0.01, 0.02, 0.04]}
    drawing, _ = drawing_of("best_losses", folder)
    assert "Changes with the batch size: learning rate 0.01, 0.02, 0.04." in texts(drawing)


def test_factors_that_move_together_are_reported_once_and_named_whole(tmp_path):
    cases = [
        {"learning_rate": 0.1, "optimizer": "sgd"},
        {"learning_rate": 0.001, "optimizer": "adam"},
        {"learning_rate": 0.1, "optimizer": "sgd", "momentum": 0.9, "nesterov": True},
    ]
    runs = synthetic.grid([16, 32], [0], cases)
    folder = tables_of(tmp_path, runs, measures={}, only=["runs"])
    frame = csv_tables.read(folder / "runs.csv")
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


def test_no_accuracy_and_no_distance_is_drawn_where_none_can_be(tmp_path):
    """Two seeds far apart: their t-intervals reach below 0 and above 100 %."""
    runs = runs_of(tmp_path, synthetic.grid([16, 64], [0, 1]))
    runs = runs.assign(test_accuracy=[0.2, 0.9] * 2, weight_distance=[1.0, 3.0] * 2)
    for name, least, largest in (("accuracy", 0, 1), ("weight_distance", 0, math.inf)):
        drawing = drawing_of_runs(name, runs)
        for axes in drawing.axes:
            bottom, top = axes.get_ylim()
            assert least - 0.03 <= bottom < top <= largest + 0.04
        assert "An interval is cut" in drawing.get_supxlabel()
    signed = runs.assign(generalisation_gap=[-1.0, 3.0] * 2)
    assert drawing_of_runs("generalisation_gap", signed).axes[0].get_ylim()[0] < -1


def test_many_series_stand_in_panels_by_what_they_share(tmp_path):
    cases = [
        {"optimizer": optimizer, "learning_rate": rate, "method": method}
        for optimizer, rate in (("sgd", 0.05), ("adam", 0.001))
        for method in ("plain", "robust", "conservative")
    ]
    folder = tables_of(tmp_path, synthetic.grid([16, 64], [0], cases), only=["runs", "published"])
    drawing, _ = drawing_of("accuracy", folder)
    assert [title.split(", ")[-1] for title in titles(drawing)] == ["SGD"] * 3 + ["Adam"] * 3
    assert legend(drawing) == ["plain updates", "robust updates", "conservative updates"]
    assert [len(axes.containers) for axes in drawing.axes] == [3] * 6
    assert len({axes.get_ylim() for axes in drawing.axes}) == 1


def test_series_that_wait_for_a_gpu_take_no_room(tmp_path):
    cases = [{"device": device} for device in ("cpu", "gpu")]
    runs = synthetic.grid([16, 64], [0, 1], cases)
    waiting = {run: "missing" for run in runs if "gpu" in run}
    folder = tables_of(tmp_path, runs, waiting, only=["runs"])
    figure, frame = frame_of("best_losses", folder)
    waiting = frame["device"] == "gpu"
    frame.loc[waiting, "status"] = "no_gpu"
    drawing = figure.draw(frame)
    assert not drawing.legends
    assert "4 left out (no GPU)" in drawing.get_supxlabel()
    assert "no GPU" in texts(figure.draw(frame[waiting]))


@pytest.mark.slow
def test_a_title_wider_than_its_panel_is_broken(tmp_path):
    runs = synthetic.grid([16, 64], [0], cases=RATES)
    folder = tables_of(tmp_path, runs, only=["runs", "history"])
    drawing, _ = drawing_of("loss_curves", folder)
    for axes in drawing.axes:
        long_title = f"{axes.get_title('left')}, with all that goes with this learning rate, told"
        axes.set_title(long_title, loc="left")
    canvas.svg_and_png(drawing, "A title")
    for axes in drawing.axes:
        title = axes.get_title("left")
        assert "\n" in title and title.replace("\n", " ").endswith("rate, told")
        assert min(map(len, title.split("\n"))) > 15  # no word alone


def test_all_panels_of_sharpness_are_logarithmic_where_one_is(tmp_path):
    runs = runs_of(tmp_path, synthetic.grid([16, 64], [0, 1]))
    columns = [name for name in runs if name.startswith("sharpness_")]
    values = {name: [1.0, 2.0, 3.0, 4.0] for name in columns}
    values[columns[0]] = [1.0, 2.0, 30.0, 40.0]
    drawing = drawing_of_runs("sharpness", runs.assign(**values))
    assert {axes.get_yscale() for axes in drawing.axes} == {"log"}
    for axes in drawing.axes[1:]:
        assert axes.get_ylim()[0] > 0.2


def test_intervals_of_panels_made_logarithmic_are_of_logarithms_and_whole(tmp_path):
    """One panel spans little: it is logarithmic for its neighbour's sake, and so is its bar."""
    runs = runs_of(tmp_path, synthetic.grid([16, 64], [0, 1, 2]))
    columns = [name for name in runs if name.startswith("sharpness_")]
    values = {name: [1.0, 2.0, 1.1, 3.0, 4.0, 3.5] for name in columns}
    values[columns[0]] = [1.0, 2.0, 3.0, 30.0, 40.0, 30.0]
    runs = runs.sort_values(["batch_size", "seed"]).assign(**values)
    drawing = drawing_of_runs("sharpness", runs)
    (_, low), (_, high) = bars(drawing.axes[1].containers[0])[0]
    expected = intervals.t_interval([1.0, 2.0, 1.1], logarithmic=True)
    np.testing.assert_allclose([low, high], [expected.low, expected.high])
    assert drawing.axes[1].get_ylim()[0] < low


def test_an_interval_that_leaves_a_logarithmic_panel_is_reported():
    figure, grid = canvas.panels(1, 1)
    axes = grid[0, 0]
    axes.plot([1, 2], [0.01, 100.0])
    axes.set_yscale("log")
    axes.set_ylim(1, 200)
    assert "cut" in canvas.cut_note(figure)
    axes.set_ylim(0.009, 200)
    assert canvas.cut_note(figure) == ""


def test_the_layers_that_differ_most_and_least_are_reported(two_rates):
    figure, frame = frame_of("weight_distance_by_layer", two_rates)
    found = figure.found(frame)
    assert found.startswith("The mean distance at the smallest batch size over that at the largest")
    assert found.endswith("over 4 layers and 2 series.")


@pytest.mark.parametrize("sizes", [[32, 500], [100, 400, 1000], [16, 32, 64]])
def test_points_stay_near_their_batch_size_however_far_apart_the_sizes_are(sizes):
    """A run at 32 beside 500 must not stand at 45, nor the fifth of several series."""
    rows = pandas.DataFrame({"batch_size": np.repeat(sizes, 6), "seed": [*range(6)] * len(sizes)})
    for index in range(5):
        place = against_batch_size.Place(against_batch_size.dodge(index, 5, sizes), 5)
        off = against_batch_size.positions(rows, place) - np.log2(rows["batch_size"])
        assert off.abs().max() < np.log2(1.25)
    alone = against_batch_size.positions(rows, against_batch_size.Place(0.0, 1))
    assert 0 < (alone - np.log2(rows["batch_size"])).abs().max() < np.log2(1.15)


def test_a_table_that_there_is_not_is_refused():
    with pytest.raises(TypeError, match=r"Received: \{'throughputs'\}$"):
        figures.Tables(throughputs=pandas.DataFrame())
