"""Figures of updates, gradients and the noise scale."""

import pytest

import synthetic
from batchscope import figures
from batchscope.analysis import noise_scales
from batchscope.figures import canvas
from drawing import legend, note, titles
from made_figures import drawing_of, frame_of, tables_of


def test_the_parts_of_the_distance_add_up(two_rates):
    drawing, frame = drawing_of("displacement", two_rates)
    parts = frame[["updates", "update_norm_mean", "straightness"]].sum(axis=1, min_count=3)
    assert frame["distance"].to_numpy() == pytest.approx(parts.to_numpy(), nan_ok=True)
    assert (frame.loc[frame["batch_size"] == 16, "distance"].dropna() == 0).all()
    means = [axes.containers[0].lines[0].get_ydata() for axes in drawing.axes]
    assert sum(means[:3]) == pytest.approx(means[3])
    assert len({axes.get_ylim() for axes in drawing.axes}) == 1


def test_shares_of_updates_are_means_over_seeds(two_rates):
    drawing, _ = drawing_of("update_norms", two_rates)
    outlines = {patch.get_edgecolor(): patch for patch in drawing.axes[0].patches}
    assert len(outlines) == 5
    for outline in outlines.values():
        assert outline.get_data().values.sum() == pytest.approx(1, abs=1e-6)
    assert titles(drawing) == ["Distribution", "Median"]
    assert "Triangles" in note(drawing)


def test_the_ratio_of_gradients_by_place_and_batch_size(two_rates):
    drawing, frame = drawing_of("gradient_alignment", two_rates)
    places = [title.split(",")[0] for title in titles(drawing)]
    assert places == 2 * ["Start", "Middle", "End"]
    assert legend(drawing)[:2] == ["batch size 16", "batch size 256"]
    line = drawing.axes[2].lines[0]
    runs = frame[(frame["batch_size"] == 16) & (frame["place"] == "end")]
    runs = runs[(runs["learning_rate"] == 0.05) & (runs["status"] == "finished")]
    means = runs.groupby("examples")["ratio"].mean()
    assert line.get_ydata() == pytest.approx(means.to_numpy())
    assert line.get_color() == canvas.size_styles(frame["batch_size"])[16]["color"]


def test_the_noise_scale_is_a_ratio_of_means_over_the_training(tmp_path):
    runs, only = synthetic.grid([16, 256]), ("runs", "at_epochs")
    folder = tables_of(tmp_path, runs, measures=["noise_scale"], only=only)
    figure, frame = frame_of("noise_scale", folder)
    assert frame["place"].drop_duplicates().tolist() == ["start", "epoch", "end"]
    axes = figures.draw(frame, figure).axes[0]
    colour = canvas.size_styles([16, 256])[16]["color"]
    lines = [line for line in axes.lines if line.get_color() == colour]
    (dotted,) = [line for line in lines if list(line.get_ydata()) == [16, 16]]
    assert dotted.get_linestyle() == ":" or dotted.is_dashed()
    marks = {float(line.get_xdata()[0]): line for line in lines if line.get_marker() == "o"}
    at_16 = frame[frame["batch_size"] == 16]
    at_5 = at_16[at_16["epoch"] == 5]
    ratio = at_5["gradient_variance"].mean() / at_5["gradient_norm_squared"].mean()
    assert marks[5].get_ydata()[0] == pytest.approx(ratio)
    # At the end the gradient is below its error, so that the scale is a lower bound.
    end = at_16[at_16["place"] == "end"]
    bound = noise_scales.fieller(end["gradient_variance"], end["gradient_norm_squared"])
    (hollow,) = [mark for mark in marks.values() if mark.get_markerfacecolor() == canvas.PAPER]
    assert hollow is marks[40] and hollow.get_ydata()[0] == pytest.approx(bound.low)

    # A negative estimate of one seed resolves nothing.
    frame.loc[frame["place"] == "start", "gradient_norm_squared"] = -1.0
    text = note(figures.draw(frame[frame["seed"] == 0], figure))
    assert "Not resolved, and not drawn: 2 of 12." in text
