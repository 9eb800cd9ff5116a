"""Every figure in every shape of experiment: its files, its axes, and always the same bytes."""

import json
import xml.etree.ElementTree as ElementTree

import matplotlib
import numpy as np
import pytest
from PIL import Image
from test_marks import OF_SERIES

import made_figures
import synthetic
from batchscope import figures
from batchscope.figures import critical_batch_size
from batchscope.figures.drawing import canvas
from batchscope.tables import csv_tables
from drawing import texts
from made_figures import NAMES, RATES, tables_of

pytestmark = pytest.mark.slow
# Figures whose first panel is against batch size.
AGAINST_BATCH_SIZE = (
    *("best_losses", "accuracy", "accuracy_by_epochs", "generalisation_gap", "time"),
    *("training_time", "weight_distance", "weight_distance_by_layer", "displacement"),
    *("sharpness", "sam_sharpness", "hessian"),
)
TO_TARGET = ("critical_batch_size", "fastest_batch_size")
# Whose rows are of series, named one by one.
OF_LIMITS = ("batch_size_limits", "advice", "verdict_matrix")


@pytest.fixture(scope="module")
def two_rates(tmp_path_factory):
    """Every table of `made_figures.two_rates`."""
    return made_figures.two_rates(tmp_path_factory.mktemp("two_rates"))


@pytest.fixture(scope="module")
def drawn(two_rates, tmp_path_factory):
    """The folder of every figure of `two_rates`."""
    folder = tmp_path_factory.mktemp("figures")
    figures.write(two_rates, NAMES, folder)
    return folder


@pytest.fixture(scope="module")
def listing(drawn):
    return json.loads((drawn / figures.LISTING).read_text())


def test_the_files_of_every_figure(drawn, listing):
    assert {path.name for path in drawn.iterdir()} == set(figures.files(NAMES))
    assert [entry["name"] for entry in listing] == NAMES
    assert all(entry["title"] and entry["caption"] for entry in listing)


def test_what_was_found_is_a_sentence_or_two_with_numbers(listing):
    for entry in listing:
        assert entry["found"].endswith("."), entry["name"]
        assert any(character.isdigit() for character in entry["found"])
        assert "significant" not in entry["found"]
    found = {entry["name"]: entry["found"] for entry in listing}
    assert "at batch size 16" in found["best_losses"]
    # At 256 one rate has two failed seeds and the other one: fewer failures are chosen.
    assert "(6 of 6 and 5 of 6 seeds)" in found["best_losses"]


@pytest.mark.parametrize("name", NAMES)
def test_the_files_are_sound(drawn, name):
    text = (drawn / f"{name}.svg").read_text()
    root = ElementTree.fromstring(text)
    assert root.find("{http://www.w3.org/2000/svg}title").text == figures.FIGURES[name].entry.title
    # Six panels with every seed are the most, and cells that are all text.
    most = {"critical_batch_size": 190_000, "verdict_matrix": 250_000}
    assert len(text) < most.get(name, 150_000)
    assert "<text" not in text  # outlines: the same wherever it is opened
    assert "<image" not in text
    assert name in OF_SERIES or " data-run=" in text
    with Image.open(drawn / f"{name}.png") as image:
        assert image.width > 700
        assert np.asarray(image.convert("L")).std() > 5


@pytest.mark.parametrize("name", ["loss_curves", "sharpness", "displacement", "update_norms"])
def test_a_figure_is_drawn_from_its_csv_alone_and_always_the_same(drawn, name):
    figure = figures.FIGURES[name]
    drawing = figure.draw(csv_tables.read(drawn / f"{name}.csv"))
    svg, png = canvas.svg_and_png(drawing, figure.entry.title)
    assert svg == (drawn / f"{name}.svg").read_text()
    assert png == (drawn / f"{name}.png").read_bytes()


def test_the_users_own_matplotlib_settings_change_nothing(drawn, two_rates):
    figure = figures.FIGURES["best_losses"]
    with matplotlib.rc_context({"font.size": 20, "axes.facecolor": "red", "svg.fonttype": "none"}):
        drawing = figure.draw(figure.select(figures.read(two_rates)))
        svg, _ = canvas.svg_and_png(drawing, figure.entry.title)
    assert svg == (drawn / "best_losses.svg").read_text()


def test_every_run_stands_in_every_csv(drawn):
    for name in NAMES:
        # Of pairs, the run at the start stands for both; of surfaces, few are shown; what was
        # taken to a target is of series.
        if name in ("line", "landscape", *OF_LIMITS, *TO_TARGET):
            continue
        frame = csv_tables.read(drawn / f"{name}.csv")
        assert len(frame[["learning_rate", "batch_size", "seed"]].drop_duplicates()) == 60
        assert set(frame["status"]) == {"finished", "diverged", "missing", "out_of_memory"}


def test_axes_are_labelled_with_plain_batch_sizes_and_units(drawn):
    for name in NAMES:
        drawing = figures.FIGURES[name].draw(csv_tables.read(drawn / f"{name}.csv"))
        for axes in drawing.axes:
            assert axes.get_title("left") or axes.get_label() == "<colorbar>"
        if name not in OF_LIMITS:
            assert any(axes.get_ylabel() for axes in drawing.axes)
        if name in AGAINST_BATCH_SIZE:
            drawing.draw_without_rendering()
            labels = [label.get_text() for label in drawing.axes[0].get_xticklabels()]
            assert labels == ["16", "32", "64", "128", "256"]


SHAPES = {
    "one_batch_size": (synthetic.grid([32]), None),
    "one_seed": (synthetic.grid(seeds=[0]), None),
    "one_run": (synthetic.grid([32], [0]), None),
    "no_batch_size_varied": (synthetic.grid([32], range(3), RATES), None),
    "all_diverged": (synthetic.grid(seeds=range(2)), "diverged"),
    "all_out_of_memory": (synthetic.grid(seeds=range(2)), "out_of_memory"),
    "all_missing": (synthetic.grid(seeds=range(2)), "missing"),
    "many_batch_sizes": (synthetic.grid(range(16, 65, 4), [0, 1]), None),
}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.filterwarnings("error")
def test_every_figure_of_every_shape_of_experiment(shape, tmp_path):
    runs, status = SHAPES[shape]
    failed = dict.fromkeys(runs, status) if status else {}
    folder = tables_of(tmp_path, runs, failed)
    read = figures.read(folder)
    # No shape has timings: their figures are of empty tables, the same in each of them.
    for figure in map(figures.FIGURES.get, figures.FIGURES if shape == "all_missing" else NAMES):
        frame = figure.select(read)
        drawing = figure.draw(frame)
        drawing.draw_without_rendering()
        assert not any("$" in text for text in texts(drawing)), figure.entry.name
        found = figure.found(frame)
        if not status:
            assert found == "" or found.endswith(".")
        elif figure.entry.name == "time":  # its timing job ran all the same
            assert "training time" not in found
        else:
            silent = critical_batch_size.NOTHING if figure.entry.name in TO_TARGET else ""
            assert found == silent or figure.entry.module == "loss_curves"
            curves = figure.entry.module in ("loss_curves", "progress", *TO_TARGET)
            of_runs = figure.entry.name in NAMES and not (curves or figure.entry.along)
            assert "no finished run" in texts(drawing) or not of_runs
