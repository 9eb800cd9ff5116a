"""All figures for all shapes of experiments: files, columns, and the same bytes each time."""

import json
import xml.etree.ElementTree as ElementTree

import matplotlib
import numpy as np
import pytest
from PIL import Image

import made_figures
import synthetic
from batchscope import figures
from batchscope.figures import canvas
from batchscope.tables import csv_tables
from drawing import texts
from made_figures import NAMES, RATES, tables_of

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def two_rates(tmp_path_factory):
    """All tables of `made_figures.two_rates`."""
    return made_figures.two_rates(tmp_path_factory.mktemp("two_rates"))


@pytest.fixture(scope="module")
def drawn(two_rates, tmp_path_factory):
    """The folder of all figures of `two_rates`."""
    folder = tmp_path_factory.mktemp("figures")
    figures.write(two_rates, NAMES, folder)
    return folder


@pytest.fixture(scope="module")
def listing(drawn):
    return json.loads((drawn / figures.LISTING).read_text())


def test_figures_are_listed_in_order_with_their_files(drawn, listing):
    names = [entry["name"] for entry in listing]
    assert names == [name for name in NAMES if name in names]
    files = {f"{name}{suffix}" for name in names for suffix in figures.SUFFIXES}
    assert {path.name for path in drawn.iterdir()} == files | {figures.LISTING}
    for entry in listing:
        assert entry["title"] and entry["caption"] and "{" not in entry["caption"]
    by_name = {entry["name"]: entry for entry in listing}
    assert by_name["loss_curves_by_updates"]["of"] == "loss_curves"
    assert by_name["loss_curves_by_updates"]["axis"] == "updates"
    assert by_name["accuracy"]["columns"][-1] == "test_accuracy"
    assert by_name["sharpness"]["columns"] == [
        f"sharpness_{space}_{box}" for space in ("full", "subspace") for box in ("0.001", "0.0005")
    ]


def test_files_are_valid(drawn, listing):
    for name, title in ((entry["name"], entry["title"]) for entry in listing):
        text = (drawn / f"{name}.svg").read_text()
        root = ElementTree.fromstring(text)
        assert root.find("{http://www.w3.org/2000/svg}title").text == title
        assert "{" not in title
        assert len(text) < 200_000
        assert "<text" in text and "<image" not in text
        assert f"fill: {canvas.INK}" in text  # the report recolours text by it
        with Image.open(drawn / f"{name}.png") as image:
            assert image.width > 600
            assert np.asarray(image.convert("L")).std() > 5


@pytest.mark.parametrize("name", ["loss_curves", "sharpness", "displacement", "update_norms"])
def test_a_figure_is_drawn_from_its_csv_alone_with_the_same_bytes(drawn, name):
    figure = figures.FIGURES[name]
    with matplotlib.rc_context({"font.size": 20, "axes.facecolor": "red", "svg.fonttype": "path"}):
        drawing = figures.draw(csv_tables.read(drawn / f"{name}.csv"), figure)
        svg, png = canvas.svg_and_png(drawing, figure.title)
    assert svg == (drawn / f"{name}.svg").read_text()
    assert png == (drawn / f"{name}.png").read_bytes()


SHAPES = {
    "one_batch_size": (synthetic.grid([32]), None),
    "one_seed": (synthetic.grid(seeds=[0]), None),
    "one_run": (synthetic.grid([32], [0]), None),
    "two_batch_sizes": (synthetic.grid([16, 32], range(2)), None),
    "no_batch_size_varied": (synthetic.grid([32], range(3), RATES), None),
    "all_diverged": (synthetic.grid(seeds=range(2)), "diverged"),
    "all_missing": (synthetic.grid(seeds=range(2)), "missing"),
    "many_batch_sizes": (synthetic.grid(range(16, 65, 4), [0, 1]), None),
}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.filterwarnings("error")
def test_all_figures_of_all_shapes_of_experiments(shape, tmp_path):
    runs, status = SHAPES[shape]
    failed = dict.fromkeys(runs, status) if status else {}
    tables = figures.FigureTables(tables_of(tmp_path, runs, failed))
    drawn = []
    # No shape has timings of sweeps: their figures have empty tables.
    for name, figure in figures.FIGURES.items():
        frame = figures.select(tables, figure)
        if frame.empty:
            continue
        drawn.append(name)
        drawing = figures.draw(frame, figure)
        drawing.draw_without_rendering()
        assert not any("$" in text for text in texts(drawing)), name
    of_runs = [name for name in drawn if figures.FIGURES[name].kind == "by_batch_size"]
    if status:  # the timing job ran
        assert {*of_runs} <= {"time"}
    elif shape in ("one_batch_size", "one_run"):
        assert of_runs == ["accuracy_by_epochs"] and "loss_curves" in drawn
    else:
        assert {"best_losses", "accuracy", "weight_distance"} <= {*of_runs}


def test_a_figure_without_content_leaves_no_file(tmp_path):
    tables = tables_of(tmp_path, synthetic.grid([32], [0]), only=["runs", "history", "published"])
    figures.write(tables, ["best_losses", "loss_curves"], tmp_path / "figures")
    entries = json.loads((tmp_path / "figures" / figures.LISTING).read_text())
    assert [entry["name"] for entry in entries] == ["loss_curves"]
    assert not [*(tmp_path / "figures").glob("best_losses.*")]
