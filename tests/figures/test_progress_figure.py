"""Loss by updates, examples and seconds: worked out by hand for halving losses."""

import numpy as np
import pandas
import pytest

import own_table
import synthetic
from batchscope import figures
from batchscope.figures.drawing import against_epoch
from batchscope.study import planner
from drawing import texts

FIGURE = figures.FIGURES["progress"]


def made_up(status="finished", timed=True, stated=np.nan):
    """2 batch sizes and 2 seeds: losses halve with every row, those of the small one faster."""
    counts = {10: 6, 40: 4}
    rows = [(size, seed, row) for size in counts for seed in (0, 1) for row in range(counts[size])]
    frame = pandas.DataFrame(rows, columns=["batch_size", "seed", "row"])
    failed = (frame["batch_size"] == 40) & (frame["seed"] == 1)
    examples = 80 * (1 + frame.pop("row"))
    return frame.assign(
        status=np.where(failed, status, "finished"),
        updates=examples // frame["batch_size"],
        examples=examples,
        seconds=examples / frame["batch_size"].map({10: 100, 40: 400}) if timed else np.nan,
        validation_loss=8.0 * 2.0 ** -(examples / 80),
        stated_target=stated,
    )


def test_what_was_found_by_hand():
    # All made 8 updates: one row of the small batches, four of the large ones. All took .8 s: the
    # same. The lowest loss that all reached is 8 / 2^4, at row 4: 32 updates of 10, 8 of 40.
    found = FIGURE.found(made_up())
    assert found == (
        "Mean validation loss after 8 updates, which every finished run made, was 4.0 at batch "
        "size 10 and 0.5 at 40 (2 of 2 seeds). Mean validation loss after 0.8 s, which every "
        "finished run took, was 4.0 at batch size 10 and 0.5 at 40 (2 of 2 seeds). Mean number of "
        "updates to the dotted loss was 32 at batch size 10 and 8 at 40 (2 of 2 seeds)."
    )


def test_without_times_examples_are_held_equal():
    found = FIGURE.found(made_up(timed=False))
    assert "after 320 examples, which every finished run used, was 0.5 at batch size 10" in found
    drawing = FIGURE.draw(made_up(timed=False))
    assert [axes.get_xlabel() for axes in drawing.axes] == ["updates", "examples"]
    assert any(text.endswith("No run was timed.") for text in texts(drawing))


def test_no_band_of_a_logarithmic_axis_ends_below_zero():
    frame = made_up()
    scattered = frame["validation_loss"].where(frame["seed"] == 0, frame["validation_loss"] / 50)
    axes = FIGURE.draw(frame.assign(validation_loss=scattered)).axes[0]
    assert axes.get_yscale() == "log"
    ends = np.concatenate([path.vertices for each in axes.collections for path in each.get_paths()])
    assert len(ends) and (ends[:, 1] > 0).all()


def test_the_target_is_what_every_run_reached():
    drawing = FIGURE.draw(made_up())
    dotted = [line for line in drawing.axes[0].lines if line.get_xdata()[0] == 0]
    assert [line.get_ydata()[0] for line in dotted] == [0.5]
    assert "Dotted: 0.5, the lowest loss that every run reached." in "\n".join(texts(drawing))
    assert {axes.get_xscale() for axes in drawing.axes} == {"log"}
    assert [axes.get_xlabel() for axes in drawing.axes] == ["updates", "examples", "time (s)"]


def test_a_target_that_is_stated_is_the_one_that_is_drawn(tmp_path):
    """The first two losses of large batches are above it, those of small ones at 4 and 2."""
    frame = made_up("diverged", stated=2.0)
    drawing = FIGURE.draw(frame)
    dotted = [line for line in drawing.axes[0].lines if line.get_xdata()[0] == 0]
    assert [line.get_ydata()[0] for line in dotted] == [2.0]
    assert "Dotted: 2, the target as stated." in "\n".join(texts(drawing))
    budgets = {"target": {"validation_loss": 0.4}}
    frame = selected(tmp_path, own_table.rows(("plain",)), budgets=budgets)
    assert set(frame["stated_target"]) == {0.4}


def test_a_run_that_never_reached_the_stated_target_counts_as_infinity():
    """The loss of 2 is reached after 16 and 4 updates, by all but the run that diverged."""
    assert "Mean number of updates to the dotted loss was 16" in FIGURE.found(made_up(stated=2.0))
    what = "Median number of updates to the dotted loss, "
    start = f"{what}with infinity where a run never got there, was"
    ends = (
        "16 at batch size 10 (reached by 2 of 2 seeds) and infinite at 40 (reached by 1 of 2 seeds)"
    )
    found = FIGURE.found(made_up("diverged", stated=2.0))
    assert found.endswith(f"{start} {ends}.") and "updates to the dotted loss was" not in found
    # Seed 1 finished, and its loss stayed where it was.
    frame = made_up(stated=2.0)
    stays = (frame["batch_size"] == 40) & (frame["seed"] == 1)
    frame["validation_loss"] = frame["validation_loss"].mask(stays, 4.0)
    assert FIGURE.found(frame).endswith(f"{start} {ends}.")
    both = [frame.assign(optimizer=name) for name in ("sgd", "adam")]
    found = FIGURE.found(pandas.concat(both, ignore_index=True))
    assert found.endswith(f"{start}, by series, SGD: {ends}; Adam: {ends}.")


def test_at_the_best_rates_no_survivor_stands_for_the_others():
    """Of large batches one run of four got there: no other seed chooses its rate for it."""
    rates = [made_up(stated=2.0).assign(learning_rate=rate) for rate in (0.1, 0.2)]
    frame = pandas.concat(rates, ignore_index=True)
    slow = (frame["batch_size"] == 40) & ((frame["seed"] == 1) | (frame["learning_rate"] == 0.2))
    frame["validation_loss"] = frame["validation_loss"].mask(slow, 4.0)
    found = FIGURE.found(frame)
    assert "dotted loss, each batch size at its best learning rate, with infinity where" in found
    assert "and infinite at 40 (reached by 0 of 2 seeds)" in found


def test_there_is_no_target_where_a_run_failed():
    assert "Dotted" not in "\n".join(texts(FIGURE.draw(made_up("diverged"))))
    assert "dotted" not in FIGURE.found(made_up("diverged"))


def test_the_last_row_of_a_run_that_stopped_early_is_no_mean_of_the_others():
    frame = made_up()
    frame = frame[frame["batch_size"] == 10]
    # Seed 1 stops at 200 examples, between two rows of seed 0.
    last = (frame["seed"] == 1) & (frame["examples"] == 240)
    frame.loc[last, ["updates", "examples", "seconds"]] = [20, 200, 2.0]
    frame = frame[(frame["seed"] == 0) | (frame["examples"] <= 200)]
    axes = FIGURE.draw(frame).axes[1]
    style = against_epoch.styles(frame)[10]
    (mean,) = [line for line in axes.lines if line.get_linewidth() > 1]
    assert mean.get_color() == style["color"]
    assert mean.get_xdata().tolist() == [80, 160, 240, 320, 400, 480]


def test_lines_are_thinned_in_equal_ratios():
    found = against_epoch.thinned(1000, 10, "updates")
    assert found[0] == 0 and found[-1] == 999 and len(found) == 10
    ratios = (found[3:] + 1) / (found[2:-1] + 1)
    assert ratios == pytest.approx(1000 ** (1 / 9), rel=0.2)
    assert against_epoch.thinned(5, 10, "updates").tolist() == [0, 1, 2, 3, 4]


def selected(folder, frame, **experiment):
    """Returns what the figure shows of a table of trainings that were made elsewhere."""
    own_table.write(folder, frame)
    study = planner.make(own_table.study(**experiment), folder=folder)
    synthetic.tabulate(folder, study, folder, name="a")
    return FIGURE.select(figures.read(folder))


def test_trainings_made_elsewhere_have_no_panel_of_times_that_nobody_knows(tmp_path):
    frame = selected(tmp_path, own_table.rows(("plain",)))
    assert "seconds" not in frame
    drawing = FIGURE.draw(frame)
    assert [axes.get_xlabel() for axes in drawing.axes] == ["updates", "examples"]
    assert "not timed" not in texts(drawing)
    assert "nan" not in (tmp_path / "advice.csv").read_text().lower()  # what nobody states
    assert "examples, which every finished run used" in FIGURE.found(frame)


def test_seconds_of_ones_own_are_the_means_over_seeds(tmp_path):
    given = own_table.rows(("plain",), seconds=True)
    frame = selected(tmp_path, given)
    # A second per update is 0.01 and 0.001 of the seed, 0 to 5.
    assert frame["seconds"].tolist() == pytest.approx((frame["updates"] * 0.0125).tolist())
    assert len(FIGURE.draw(frame).axes) == 3


def test_an_evaluation_before_the_first_update_leaves_the_axes_logarithmic():
    frame = made_up()
    frame.loc[frame["updates"] == frame["updates"].min(), ["updates", "examples", "seconds"]] = 0
    assert {axes.get_xscale() for axes in FIGURE.draw(frame).axes} == {"log"}


def test_a_long_name_of_a_series_stands_above_its_row():
    parts = [made_up().assign(own_optimizer_variant=f"{one} with a long name") for one in "ab"]
    drawing = FIGURE.draw(pandas.concat(parts, ignore_index=True))
    titles = [axes.get_title(loc="left") for axes in drawing.axes]
    assert titles[0] == "optimizer variant a with a long name\nBy updates"
    assert titles[1:3] == ["By examples", "By training time"]


def test_a_mean_stands_at_the_mean_time_of_its_seeds():
    frame = made_up()
    frame.loc[frame["seed"] == 1, "seconds"] *= 2
    axes = FIGURE.draw(frame).axes[2]
    ends = {float(line.get_xdata()[-1]) for line in axes.lines if len(line.get_xdata()) > 3}
    assert sorted(ends) == pytest.approx([1.5 * 0.8, 1.5 * 4.8])
