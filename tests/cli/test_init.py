"""`init` writes a study for a user's data, with a grid from a range test."""

from batchscope.host import tensorflow_start

tensorflow_start.start(1, "cpu")

import itertools
import subprocess

import keras
import numpy as np
import pandas
import pytest
from sklearn.datasets import load_digits
from test_entry import refused

import project
from batchscope.cli import entry, init, range_test, study_check
from batchscope.store import estimates
from batchscope.study import config

COUNTS = {"train": 91, "validation": 19, "test": 20}
# The result of the range test on 130 images.
EXPLORED = {
    "dataset": "digits",
    "definition": "",
    "record": {
        "counts": COUNTS,
        "class_counts": {part: [count] for part, count in COUNTS.items()},
        "class_names": ["cat"],
        "input_shape": [8, 8, 1],
    },
    "task": "classification",
    "optimizer": {"optimizer": "adam"},
    "model": "small_cnn",
    "models": "",
    "margin": 0.07,
    "base": 8,
    "best": 0.001,
    "constant": 0.7,
    "lowest": 0.1,
    "tried": {0.001: 0.1},
    "sizes": [2, 4, 8, 16],
    "rates": [0.0003, 0.001, 0.003],
    "epochs": 411,
    "updates": 2466,
    "needed_epochs": 193.7,
    "epoch_reserve": 1.5,
    "evaluate_every": 90,
    "guess": {
        "batch_size": 8,
        "learning_rate": 0.001,
        "largest_batch_size": 91,
        "half_throughput": 4,
        "level_throughput": 16,
        "noise_scale": [10.0, 20.0],
    },
}


def test_the_study_has_the_numbers_of_the_range_test(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(study_check, "run_in_fork", lambda *_: EXPLORED)
    monkeypatch.setattr(study_check, "note_missing_times", lambda *_: None)
    path = "pets " * 14 + ".yaml"
    entry.main(["init", "pets", "-o", path])
    assert f"--configfile '{path}'" in capsys.readouterr().out
    study = config.study(path)
    assert study.experiments["batch_size"].keys.margins == {"test_accuracy": 0.07}
    assert {run["epochs"] for run in study.runs.values()} == {411}


def test_a_file_with_the_name_of_a_built_in_model_gets_another_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mlp.py").write_text("def build(input_shape, classes): ...\n")
    assert init._model_values("mlp.py", "rows")["model"] == "my_mlp"


def test_columns_that_are_no_features_are_left_out_and_no_error(tmp_path, capsys):
    rows = [f"i{row},{row % 7},{'yn'[row % 2]}" for row in range(40)]
    path = tmp_path / "OWN.CSV"
    path.write_text("\n".join(["id,age,label", *rows]))
    assert init._dataset_definition(str(path), None, None)["ignore"] == ["id"]
    text = capsys.readouterr().out
    assert "id (40 different words, such as 'i0')" in text
    assert "received" not in text and "expected" not in text


class Own(keras.optimizers.SGD):
    pass


@pytest.mark.parametrize(
    ("name", "compiled", "expected"),
    [
        (None, None, {"optimizer": "adam"}),
        ("sgd", keras.optimizers.Adam(), {"optimizer": "sgd"}),
        (None, keras.optimizers.Adam(0.5), {"optimizer": "adam"}),
        (
            None,
            keras.optimizers.AdamW(beta_1=0.5, weight_decay=0.25),
            {"optimizer": "adamw", "weight_decay": 0.25, "beta_1": 0.5},
        ),
        (None, Own(), {"optimizer": "adam"}),
    ],
)
def test_an_optimizer_is_named_or_compiled_or_adam(name, compiled, expected, capsys):
    assert init._optimizer_factors(name, compiled) == expected
    assert ("Own" in capsys.readouterr().out) == isinstance(compiled, Own)


@pytest.mark.parametrize(
    ("sizes", "seconds", "middle"),
    [
        ([4, 16, 64, 256], {64: 1e-6}, 64),
        ([4, 16, 64, 256], {64: 1.0}, 16),
        ([4, 16, 64, 256], {}, 16),
        ([8], {8: 1.0}, 8),
    ],
)
def test_the_range_test_takes_a_middle_size_whose_updates_are_fast(sizes, seconds, middle):
    assert range_test._middle_size(sizes, seconds) == middle


INIT = """
import os, sys
from batchscope.cli import entry
os.chdir(sys.argv[1])
entry.main(["init", *sys.argv[2:]])
"""


def initialised(folder, *words: str) -> subprocess.CompletedProcess:
    return project.forked(INIT, folder, *words)


def test_what_is_no_data_and_what_is_there_is_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert refused("init", "nothing").startswith("DATA: received 'nothing'; ")
    assert refused("init", "").startswith("DATA, path: ")
    assert refused("init", "digits", "--label", "x").startswith("DATA, label: ")
    (tmp_path / "studies").mkdir()
    (tmp_path / "studies" / "digits.yaml").write_text("mine")
    assert refused("init", "digits").startswith("--output: received studies/digits.yaml")
    assert (tmp_path / "studies" / "digits.yaml").read_text() == "mine"


@pytest.mark.slow
def test_a_table_becomes_a_study_with_one_grid_for_all_sizes(tmp_path, monkeypatch):
    """Ids are left out, words become features, gaps are filled; the time of a run is known."""
    monkeypatch.chdir(tmp_path)
    random = np.random.default_rng(0)
    rows = pandas.DataFrame({"id": [f"c{i:03d}" for i in range(442)]})
    rows["age"] = random.normal(size=442)
    rows["town"] = random.choice(["Ulm", "Bonn"], 442)
    rows["spent"] = 40 * rows["age"] + 9 * (rows["town"] == "Ulm") + random.normal(size=442)
    rows.loc[3, "age"] = np.nan
    rows.to_csv(tmp_path / "customers.csv", index=False, sep=";", decimal=",")
    done = initialised(tmp_path, "customers.csv", "--output", "own.yaml", "--optimizer", "sgd")
    assert done.returncode == 0, done.stderr
    assert "id (442 different words, such as 'c000')" in done.stdout
    assert "310 train, 66 validate, 66 test" in done.stdout
    study = config.study(tmp_path / "own.yaml")
    (definition,) = study.datasets.values()
    expected = {"ignore": ["id"], "separator": ";", "decimal": ",", "missing": "median"}
    assert expected.items() <= definition.items()
    runs = list(study.runs.values())
    assert {run["batch_size"] for run in runs} == {8, 16, 32, 64}
    assert {run["optimizer"] for run in runs} == {"sgd"}
    rates = sorted({run["learning_rate"] for run in runs})
    assert len(runs) == 4 * 5 * 6 and len(rates) == 5
    assert all(2.9 < high / low < 3.4 for low, high in itertools.pairwise(rates))
    assert len({(run["epochs"], run["evaluate_every"]) for run in runs}) == 1
    assert "target" not in study.experiments["batch_size"].keys.budgets
    guess = study.file.guess
    assert guess.learning_rate in rates and len(guess.noise_scale) == 2
    assert guess.largest_batch_size <= 310 and guess.half_throughput <= guess.level_throughput
    assert estimates.Estimates(tmp_path / "results", study).training(runs[0]) > 0


@pytest.mark.slow
def test_a_model_that_scales_its_input_gets_raw_values_and_its_own_optimizer(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    images = load_digits().images.astype(np.uint8) * 15
    np.savez(tmp_path / "own.npz", images=images, labels=load_digits().target)
    (tmp_path / "mine.py").write_text(
        "import keras\n\n\ndef build(input_shape, classes):\n"
        "    inputs = keras.Input(input_shape)\n"
        "    x = keras.layers.Flatten()(keras.layers.Rescaling(1 / 255)(inputs))\n"
        "    outputs = keras.layers.Dense(classes, activation='softmax')(x)\n"
        "    model = keras.Model(inputs, outputs)\n"
        "    model.compile(keras.optimizers.SGD(1.0, momentum=0.75))\n"
        "    return model\n"
    )
    done = initialised(tmp_path, "own.npz", "mine.py")
    assert done.returncode == 0, done.stderr
    study = config.study(tmp_path / "studies" / "own.yaml")
    (definition,) = study.datasets.values()
    assert definition["scale"] is None and "raw values" in done.stderr
    assert study.file.guess.batch_size in (4, 8, 16, 32, 64, 128, 256)
    (run, *_) = study.runs.values()
    assert (run["optimizer"], run["momentum"]) == ("sgd", 0.75)


@pytest.mark.slow
def test_a_model_file_that_ends_the_process_is_one_line(tmp_path):
    (tmp_path / "mine.py").write_text("import os\n\ndef build(*shape):\n    os._exit(3)\n")
    done = initialised(tmp_path, "digits", "mine.py")
    assert done.returncode == 1 and "Traceback" not in done.stderr
    assert done.stderr.startswith("MODEL: mine.py ended")
    assert not (tmp_path / "studies").exists()
