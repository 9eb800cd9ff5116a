"""The figure of the gradient noise scale."""

import numpy as np
import pandas
import pytest
from matplotlib.text import Text

import synthetic
from batchscope import figures
from batchscope.analysis import noise_scales
from drawing import texts
from made_figures import frame_of, tables_of

NOISE_TABLES = ("runs", "at_epochs")


def noise_lines(drawing, size):
    """Returns x and y of the full and of the hollow marks of one batch size's colour.

    Small ones, of single runs, apart.
    """
    lines = drawing.axes[0].lines
    colour = next(line.get_color() for line in lines if list(line.get_ydata()) == [size, size])
    marks = [line for line in lines if line.get_color() == colour and line.get_marker() != "None"]
    full, hollow = [], []
    for line in (one for one in marks if one.get_markersize() > 3):
        found = hollow if line.get_markerfacecolor() == "white" else full
        found.append((float(line.get_xdata()[0]), float(line.get_ydata()[0])))
    return full, hollow


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
    assert hollow == [(40, pytest.approx(noise_scales.fieller(*columns).low))]
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
    words = [one.get_text() for one in drawing.findobj(Text)]
    assert words.count("not resolved") == len(negative)
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
    assert any("Adam: of the raw gradients" in text for text in texts(figure.draw(frame)))
    assert "(Adam) the gradient noise scale was" in figure.found(frame)


def test_the_noise_scale_at_the_end_is_reported_as_a_multiple_of_the_batch_size():
    rows = [
        {"batch_size": size, "seed": seed, "status": "finished", "place": place, "epoch": epoch}
        | {"gradient_variance": 64.0 * (1 + 0.01 * seed), "gradient_norm_squared": 1.0}
        for size in (16, 256)
        for seed in (0, 1, 2)
        for place, epoch in (("start", 0.0), ("end", 10.0))
    ]
    found = figures.FIGURES["noise_scale"].found(pandas.DataFrame(rows))
    assert "at the start and 64.6 examples (95 % interval" in found
    assert "), 4.04 times the batch size, at the end of the training (3 of 3 seeds)" in found
    assert "), 0.253 times the batch size, at the end of the training" in found
