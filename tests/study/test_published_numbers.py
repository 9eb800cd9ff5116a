"""A document's numbers: from the configuration to a table and the panels beside our own."""

import commanded
import small_study
import synthetic
from batchscope import figures
from batchscope.study import planner, published_numbers, run_factors
from batchscope.tables import csv_tables, published, study_tables

SIZES = (4, 8, 16, 32, 64, 128, 256, 512, 1024)
ACCURACY = (0.3255, 0.4583, 0.6306, 0.6859, 0.6897, 0.6977, 0.6482, 0.5728, 0.5102)
DOCUMENT = {"figure": "Table 4,\n in percent", "found": "It rises and falls."}


def study(numbers=None, **words):
    published = DOCUMENT | words | ({"numbers": numbers} if numbers else {})
    gap = {"vary": {"batch_size": [16, 64]}, "seeds": 1, "measure": ["evaluate"]}
    gap |= {"published": {"accuracy": published}}
    return {"study": "s", "defaults": small_study.DEFAULTS, "experiments": {"gap": gap}}


def made(numbers=None, **words):
    return planner.make(study(numbers, **words))


def series(**factors):
    return {**factors, "batch_size": list(SIZES), "test_accuracy": list(ACCURACY)}


def test_an_experiment_of_a_command_takes_its_own_factors_and_columns(tmp_path):
    shared = {"fast": True, "dataset": "CIFAR-10", "batch_size": [4, 32], "memory_mb": [500.5, 510]}
    numbers = [
        {"framework": name, **shared, column: [5, 6]}
        for name, column in (("mxnet", "utilisation_percent"), ("jax", "examples_per_second"))
    ]
    raw = commanded.study(
        tmp_path,
        "framework={framework}",
        "fast={fast}{dataset}",
        vary={"batch_size": [4, 8, 16], "framework": ["jax", "mxnet"], "fast": [True]},
        set={"dataset": "CIFAR-10"},
        alone=True,
        published={"usage": {**DOCUMENT, "numbers": numbers}},
    )
    planned = planner.make(raw, folder=tmp_path)
    usage = planned.experiments["a"].keys.published["usage"].numbers
    assert [item.factors["framework"] for item in usage] == ["mxnet", "jax"]
    assert usage[0].columns == {"memory_mb": (500.5, 510.0), "utilisation_percent": (5.0, 6.0)}
    study_tables.write(tmp_path, planned, "a", tmp_path)
    frame = csv_tables.read(tmp_path / "published.csv")
    assert frame["own_framework"].tolist() == ["mxnet"] * 4 + ["jax"] * 4
    names = {f"CIFAR-10, framework {name}, fast true" for name in ("mxnet", "jax")}
    assert set(frame["series"]) == names
    # The runs of these factors are found, as the size that is not in the grid shows.
    assert set(frame.loc[frame["batch_size"] == 32, "here_reason"]) == {"not_in_grid"}


def test_columns_of_documents_are_of_figures_and_no_factors():
    assert published_numbers.COLUMNS_BY_FIGURE.keys() <= figures.FIGURES.keys()
    assert not published_numbers.COLUMNS.keys() & {*run_factors.EVERY_FACTOR}


def test_the_table_has_a_row_per_number_or_headers_only(tmp_path):
    planned = made([series(optimizer="adam", threads=2), series()])
    experiment = planned.experiments["gap"]
    first, second = experiment.keys.published["accuracy"].numbers
    assert first.factors == {"optimizer": "adam", "threads": 2}
    assert second == published_numbers.PublishedValues({}, SIZES, {"test_accuracy": ACCURACY})
    synthetic.tabulate(tmp_path, planned, tmp_path, ["published"])
    frame = csv_tables.read(tmp_path / "published.csv")
    assert list(frame.columns) == list(published.PUBLISHED_COLUMNS)
    assert frame["batch_size"].tolist() == 2 * list(SIZES)
    assert frame["value"].tolist() == 2 * list(ACCURACY)
    assert set(frame["document"]) == {"Table 4, in percent"}
    assert frame["series"].tolist()[:9] == ["Adam, 2 threads"] * 9
    assert frame["series"][9:].isna().all() and frame["optimizer"][9:].isna().all()
    assert ",adam," in (tmp_path / "published.csv").read_text() and "2.0" not in frame["series"][0]
    study_tables.write(tmp_path, made(), "gap", tmp_path)
    text = (tmp_path / "published.csv").read_text()
    assert text == ",".join(published.PUBLISHED_COLUMNS) + "\n"
    assert len(figures.FigureTables(tmp_path).published) == 0
