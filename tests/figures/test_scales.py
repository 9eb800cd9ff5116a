"""Panels of one quantity have one kind of scale."""

import itertools

import numpy as np
import pandas
import pytest
from test_utilisation_figures import sampled, searches, tried

from batchscope import figures
from batchscope.figures.drawing import canvas
from drawing import drawn
from made_sweeps import tables_of

SIZES, SEEDS, EPOCHS = (16, 64, 256), (0, 1, 2), (1, 2, 3)
NARROW = np.array([0.30, 0.35, 0.40])  # values at the sizes: by themselves on a linear axis
WIDE = np.array([0.001, 0.03, 1.0])  # and on a logarithmic one


def _runs(**columns):
    """Rows of all batch sizes and seeds, with columns of one value per size."""
    rows = pandas.DataFrame(itertools.product(SIZES, SEEDS), columns=["batch_size", "seed"])
    at = [SIZES.index(size) for size in rows["batch_size"]]
    scatter = 1 + 0.01 * rows["seed"]
    return rows.assign(
        status="finished", **{name: values[at] * scatter for name, values in columns.items()}
    )


def _epochs(**columns):
    """The same after each of three epochs, `columns` of one value per epoch."""
    return pandas.concat(
        _runs(**{name: np.full(3, values[at]) for name, values in columns.items()}).assign(
            epoch=epoch
        )
        for at, epoch in enumerate(EPOCHS)
    ).astype({"epoch": "Int64"})


def _layers():
    return pandas.concat(
        _runs(distance=values).assign(position=at, layer=f"dense_{at}", relative=0.1)
        for at, values in enumerate((NARROW, WIDE))
    )


def _epoch_distances():
    """Two series: the ratio of the extreme batch sizes is 2, or rises from 2 to 50."""
    return pandas.concat(
        _runs(epoch_distance=np.array([ratio, 1.5, 1.0])).assign(learning_rate=rate, epoch=epoch)
        for rate, ratios in ((0.1, (2, 2, 2)), (0.2, (2, 10, 50)))
        for epoch, ratio in zip(EPOCHS, ratios, strict=True)
    ).astype({"epoch": "Int64"})


FRAMES = {
    "best_losses": lambda: _runs(best_train_loss=WIDE, best_validation_loss=NARROW),
    "loss_curves": lambda: _epochs(train_loss=WIDE, validation_loss=NARROW),
    "sam_sharpness": lambda: _runs(**{"sam_sharpness_0.05": NARROW, "sam_sharpness_0.1": WIDE}),
    "weight_distance_by_layer": _layers,
}


@pytest.mark.parametrize("name", FRAMES)
def test_panels_of_one_quantity_have_one_kind_of_scale(name):
    drawing = figures.FIGURES[name].draw(FRAMES[name]())
    assert len(drawing.axes) == 2
    assert [axes.get_yscale() for axes in drawing.axes] == ["log", "log"]


@pytest.mark.parametrize("name", FRAMES)
@pytest.mark.parametrize("wide", [False, True])
def test_the_words_of_a_figure_name_its_logarithmic_axes(name, wide):
    frame = FRAMES[name]()
    if not wide:
        numbers = [column for column in frame if frame[column].dtype == float]
        frame[numbers] = 0.5 + 0.1 * frame[numbers].clip(upper=1.0)
    drawing = figures.FIGURES[name].draw(frame)
    notes = [text for text in canvas.texts(drawing) if text.startswith(figures.LOGARITHMIC)]
    assert bool(notes) is wide is (drawing.axes[0].get_yscale() == "log")
    assert notes in ([], [f"{figures.LOGARITHMIC}{drawing.axes[0].get_ylabel().split(' (')[0]}"])


def test_ratios_of_all_series_have_one_kind_of_scale():
    drawing = figures.FIGURES["epoch_distance"].draw(_epoch_distances())
    assert [axes.get_yscale() for axes in drawing.axes[1::2]] == ["log", "log"]


def test_panels_of_other_quantities_have_scales_of_their_own():
    gaps = {"generalisation_gap": WIDE, "generalisation_gap_ratio": NARROW + 1}
    drawing = figures.FIGURES["generalisation_gap"].draw(
        _runs(**gaps, generalisation_gap_accuracy=NARROW)
    )
    assert [axes.get_yscale() for axes in drawing.axes] == ["log", "linear", "linear"]


def test_memory_has_one_kind_of_scale_in_all_panels():
    wide = {1: ("fits", 30.0), 256: ("fits", 700.0)}
    narrow = {1: ("fits", 600.0), 256: ("fits", 700.0)}
    found = searches((tried(wide), {}), (tried(narrow), {"machine": "cluster"}))
    drawing, _ = drawn("max_batch_size", tables_of(**found))
    assert [axes.get_yscale() for axes in drawing.axes] == ["log", "log"]
    rows = sampled((8,), 1.0) + sampled((8,), 1.0, machine="cluster")
    for index, row in enumerate(row for row in rows if row["machine"] == "cluster"):
        row["memory_mb"] = 5.0 if index % 2 else 900.0
    drawing, _ = drawn("utilisation_over_time", tables_of(samples=rows))
    assert [axes.get_yscale() for axes in drawing.axes[1::2]] == ["log", "log"]


def test_a_panel_that_holds_zero_stays_linear_beside_a_logarithmic_one():
    with canvas.style():
        _, grid = canvas.panels(1, 3)
        canvas.alike_scales(grid.flat, [WIDE, NARROW, NARROW - NARROW[0]])
    assert [axes.get_yscale() for axes in grid.flat] == ["log", "log", "linear"]
