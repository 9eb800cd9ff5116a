"""A document's numbers: from the configuration to a table and the panels beside our own."""

import io
import json
from dataclasses import replace

import numpy as np
import pytest

import small_study
import synthetic
from batchscope import figures, snakefile
from batchscope.analysis import run_series
from batchscope.catalogue import sweep_names
from batchscope.figures.drawing import as_published, canvas
from batchscope.study import config, planner, published_numbers
from batchscope.tables import csv_tables, run_table
from costs import first
from drawing import texts

SIZES = (4, 8, 16, 32, 64, 128, 256, 512, 1024)
ACCURACY = (0.3255, 0.4583, 0.6306, 0.6859, 0.6897, 0.6977, 0.6482, 0.5728, 0.5102)
DOCUMENT = {"figure": "Table 4,\n in percent", "found": "It rises and falls."}


def study(numbers=None, **experiment):
    given = {"accuracy": DOCUMENT | ({"numbers": numbers} if numbers else {})}
    gap = {"vary": {"batch_size": [16, 64]}, "seeds": 1, "measure": ["evaluate"]}
    gap |= {"published": given, **experiment}
    return {"study": "s", "defaults": small_study.DEFAULTS, "experiments": {"gap": gap}}


def made(numbers=None, **experiment):
    found = study(numbers, **experiment)
    assert config.schema_problems(found) == []
    return planner.make(found)


def series(**factors):
    return {**factors, "batch_size": list(SIZES), "test_accuracy": list(ACCURACY)}


def test_the_plan_carries_them_and_keeps_the_words_apart():
    experiment = made([series(), series(optimizer="adam", model="small_cnn")]).experiments["gap"]
    assert experiment.published == {"accuracy": DOCUMENT}
    first, second = experiment.numbers["accuracy"]
    assert first == published_numbers.Series({}, SIZES, {"test_accuracy": ACCURACY})
    assert second.factors == {"optimizer": "adam", "model": "small_cnn"}
    assert made().experiments["gap"].numbers == {}


def test_numbers_may_be_spelled_as_text():
    numbers = [{"batch_size": ["1e1"], "test_accuracy": ["5e-1"]}]
    (found,) = made(numbers).experiments["gap"].numbers["accuracy"]
    assert found == published_numbers.Series({}, (10,), {"test_accuracy": (0.5,)})


def test_an_experiment_of_times_takes_its_own_factors_and_columns():
    numbers = [
        {"framework": name, "batch_size": [4, 8], "memory_mb": [500.5, 510], column: [5, 6]}
        for name, column in (("mxnet", "utilisation_percent"), ("jax", "images_per_second"))
    ]
    raw = study()
    raw["experiments"]["gap"] = {
        "set": {"dataset": "mnist", "model": "campbell_cnn"},
        "vary": {"batch_size": [16], "framework": ["tensorflow", "pytorch"]},
        "timing": ["utilisation", "throughput"],
        "published": {"frameworks": {**DOCUMENT, "numbers": numbers}},
    }
    assert config.schema_problems(raw) == []
    found = planner.make(raw).experiments["gap"].numbers["frameworks"]
    assert [item.factors for item in found] == [{"framework": "mxnet"}, {"framework": "jax"}]
    assert found[0].columns == {"memory_mb": (500.5, 510.0), "utilisation_percent": (5.0, 6.0)}


def test_two_series_may_share_their_factors_but_not_a_column():
    first, second = (
        {"batch_size": [4], "learning_rate": 1e-3, column: [5]}
        for column in ("utilisation_percent", "memory_mb")
    )
    again, problems = {**first, "learning_rate": "1e-3"}, []
    found = published_numbers.read(
        ("n",), "frameworks", [first, second, again], lambda _, m: m, problems.append
    )
    assert len(found) == 3
    assert [problem.line for problem in problems] == [
        "n[2]: received the series of numbers[0] again; factors that distinguish it from the "
        "others are expected."
    ]


def test_every_figure_with_panels_for_numbers_is_drawn_and_has_columns():
    assert published_numbers.FIGURES.keys() <= figures.FIGURES.keys()
    shown = {name for names in published_numbers.FIGURES.values() for name in names}
    assert shown == set(published_numbers.COLUMNS)
    assert not published_numbers.COLUMNS.keys() & {*sweep_names.EVERY_FACTOR}
    rules = config.schema()["$defs"]["published_numbers"]["properties"]
    assert rules.keys() == {*sweep_names.EVERY_FACTOR, *published_numbers.COLUMNS}


def test_the_table_has_a_row_per_number(tmp_path):
    planned = made([series(optimizer="adam", threads=2), series()])
    synthetic.tabulate(tmp_path, planned, tmp_path, ["published"])
    frame = csv_tables.read(tmp_path / "published.csv")
    assert list(frame.columns) == list(run_table.PUBLISHED_COLUMNS)
    assert frame["batch_size"].tolist() == 2 * list(SIZES)
    assert frame["value"].tolist() == 2 * list(ACCURACY)
    assert set(frame["figure"]) == {"accuracy"} and set(frame["column"]) == {"test_accuracy"}
    assert set(frame["document"]) == {"Table 4, in percent"}
    assert frame["series"].tolist()[:9] == ["Adam, 2 threads"] * 9
    assert frame["series"][9:].isna().all() and frame["optimizer"][9:].isna().all()
    assert ",adam," in (tmp_path / "published.csv").read_text() and "2.0" not in frame["series"][0]


def test_nothing_published_is_headers(tmp_path):
    run_table.write(tmp_path, made(), "gap", tmp_path)
    text = (tmp_path / "published.csv").read_text()
    assert text == ",".join(run_table.PUBLISHED_COLUMNS) + "\n"
    assert len(figures.read(tmp_path).published) == 0


def followed(planned):
    return snakefile.Jobs(planned, "config.yaml", "full", False)


def test_a_change_of_the_numbers_tabulates_again_and_trains_nothing():
    before, other = series(), series()
    other["test_accuracy"][0] = 0.33
    plans = [made(), made([before]), made([other]), made([series(optimizer="adam")])]
    renamed = study([before])
    renamed["experiments"]["gap"]["published"]["accuracy"] |= {"figure": "Table 5"}
    plans.append(planner.make(renamed))
    found = [followed(planned).also("gap") for planned in plans]
    assert len(set(found)) == len(found)
    assert json.loads(found[0]) == {"at_epochs": [], "machines": {}}
    assert len({tuple(followed(planned).table_inputs("gap")) for planned in plans}) == 1
    # What a document found stands in the report alone.
    reworded = study([before])
    reworded["experiments"]["gap"]["published"]["accuracy"] |= {"found": "It falls."}
    assert followed(planner.make(reworded)).also("gap") == found[1]
    assert "published.csv" in snakefile.TABLES


def drawn(folder, numbers, cases=({},), failed=None, sizes=(16, 32, 64), rendered=False):
    """Returns the figure drawn from its CSV alone, and that frame."""
    runs = synthetic.grid(sizes, [0, 1, 2], cases)
    planned = synthetic.study(runs, {"evaluate": synthetic.MEASURES["evaluate"]})
    published = {"published": {"accuracy": DOCUMENT}, "numbers": {"accuracy": numbers}}
    planned.experiments["gap"] = replace(planned.experiments["gap"], at_epochs=(), **published)
    synthetic.write(folder / "results", planned, dict.fromkeys(runs, failed) if failed else None)
    synthetic.tabulate(folder / "results", planned, folder / "tables", ["runs", "published"])
    figure = figures.FIGURES["accuracy"]
    frame = figure.select(figures.read(folder / "tables"))
    frame = csv_tables.read(io.StringIO(frame.to_csv(index=False)))
    drawing = figure.draw(frame)
    if rendered:
        drawing.draw_without_rendering()
    return drawing, frame


def one(**factors):
    return published_numbers.Series(factors, SIZES, {"test_accuracy": ACCURACY})


def test_a_documents_words_are_drawn_as_they_are_written(tmp_path, monkeypatch):
    name = r"Table 4, $2 and \$_5, \foo{ at $10^"
    monkeypatch.setitem(DOCUMENT, "figure", name)
    drawing, frame = drawn(tmp_path, (one(),), sizes=(16,))
    assert name in drawing.get_supxlabel().replace("\n", " ")
    svg, png = canvas.svg_and_png(drawing, "Accuracy")
    assert svg and png


@pytest.mark.filterwarnings("error")
def test_accuracies_of_a_document_have_a_panel_of_their_own(tmp_path):
    drawing, frame = drawn(tmp_path, (one(),), rendered=True)
    titles = [axes.get_title("left") for axes in drawing.axes]
    assert titles[2:] == ["Test (360\N{NO-BREAK SPACE}examples), here", "Test, as published"]
    *ours, theirs = drawing.axes
    (line,) = theirs.lines
    assert np.allclose(line.get_xdata(), np.log2(SIZES)) and np.allclose(line.get_ydata(), ACCURACY)
    assert not theirs.containers  # no bars: an interval would be ours
    for axes in ours:
        assert all(not np.isin(ACCURACY, np.asarray(item.get_ydata())).any() for item in axes.lines)
        assert axes.get_ylim() == ours[0].get_ylim() != theirs.get_ylim()
    assert {axes.get_xlim() for axes in drawing.axes} == {theirs.get_xlim()}
    assert theirs.get_facecolor() != ours[0].get_facecolor()
    note = drawing.get_supxlabel().replace("\n", " ")
    assert "As published (shaded): Table 4, in percent. Numbers of that document's own" in note
    assert not drawing.legends
    own, _ = as_published.split(frame)
    assert figures.FIGURES["accuracy"].found(frame) == figures.FIGURES["accuracy"].found(own)
    assert frame["document"].notna().sum() == len(SIZES)


def test_without_numbers_the_figure_is_as_it_was(tmp_path):
    drawing, frame = drawn(tmp_path, ())
    assert "document" not in frame and len(drawing.axes) == 3
    assert [axes.get_ylabel() for axes in drawing.axes] == ["accuracy (%)", "", ""]


@pytest.mark.filterwarnings("error")
def test_a_documents_series_looks_like_its_like_here(tmp_path):
    cases = [{"optimizer": "sgd"}, {"optimizer": "adam", "learning_rate": 0.001}]
    drawing, _ = drawn(tmp_path, (one(optimizer="adam"), one(optimizer="lamb")), cases)
    like, other = drawing.axes[3].lines
    assert like.get_color() == canvas.line_style(1)["color"]
    assert other.get_color() == canvas.line_style(2)["color"]
    (legend,) = drawing.legends
    assert [text.get_text() for text in legend.get_texts()] == [
        "learning rate 0.05, SGD",
        "learning rate 0.001, Adam",
        "LAMB (as published)",
    ]


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    "shape", first([{"failed": "missing"}, {"failed": "diverged"}, {"sizes": (16,)}])
)
def test_a_document_beside_little(tmp_path, shape):
    drawing, frame = drawn(tmp_path, (one(),), **shape, rendered=True)
    assert len(drawing.axes[3].lines) == 1
    assert ("no finished run" in texts(drawing)) == ("failed" in shape)
    own, _ = as_published.split(frame)
    assert own["seed"].dtype == int and list(own.columns) == [
        name for name in frame if name not in ("document", "series")
    ]


def test_factors_come_back_as_they_were(tmp_path):
    cases = [{}, {"momentum": 0.9, "nesterov": True, "patience": 5}]
    _, frame = drawn(tmp_path, (one(optimizer="adam"),), cases)
    own, theirs = as_published.split(frame)
    assert own["patience"].dtype == int and own["nesterov"].dtype == bool
    labels = [group.label for group in run_series.series(own)]
    assert labels[1] == "momentum 0.9, nesterov, patience 5"
    assert [group.label for group in as_published.series(theirs)] == ["Adam"]


def test_the_plan_carries_the_examples_of_a_document():
    for examples in (1797, "1.797e3"):
        stated = {"digits": {"examples": examples, "place": "Section 2"}}
        planned = planner.make(study() | {"published": stated})
        assert planned.published == {next(iter(planned.datasets)): (1797, "Section 2")}
