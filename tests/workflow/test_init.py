"""A study from data, by one command, and what it does not take."""

import itertools
import re
import subprocess

import numpy as np
import pandas
import pytest
from sklearn.datasets import load_digits

import project
from batchscope.cli import entry
from batchscope.store import estimates
from batchscope.study import config


def refused(*words: str) -> str:
    with pytest.raises(SystemExit) as raised:
        entry.main(["init", *words])
    return str(raised.value)


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
    assert refused("nothing").startswith("DATA: received 'nothing'; ")
    (tmp_path / "studies").mkdir()
    (tmp_path / "studies" / "digits.yaml").write_text("mine")
    assert refused("digits").startswith("--output: received studies/digits.yaml")
    assert (tmp_path / "studies" / "digits.yaml").read_text() == "mine"


def test_a_table_of_trainings_is_read_as_it_is(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    rows = [f"{size},{seed},{4000 // size + seed}" for size in (8, 16, 32) for seed in (0, 1)]
    (tmp_path / "Mine 1.csv").write_text("\n".join(["batch_size,seed,updates", *rows]))
    entry.main(["init", "Mine 1.csv"])
    study = config.study("studies/mine_1.yaml")
    assert study.experiments["batch_size"].external_runs.rows["run"].nunique() == 6
    assert "--configfile studies/mine_1.yaml" in capsys.readouterr().out


@pytest.mark.slow
def test_a_table_becomes_a_study_with_one_grid_for_all_sizes(tmp_path, monkeypatch):
    """Ids are left out, words become features, gaps are filled; all problems are told at once.

    A regression: the grid is planned, its time known, and the data prepared.
    """
    monkeypatch.chdir(tmp_path)
    random = np.random.default_rng(0)
    rows = pandas.DataFrame({"id": [f"c{i:03d}" for i in range(442)]})
    rows["age"] = random.normal(size=442)
    rows["town"] = random.choice(["Ulm", "Bonn"], 442)
    rows["spent"] = 40 * rows["age"] + 9 * (rows["town"] == "Ulm") + random.normal(size=442)
    bought = np.where(rows["spent"] > 20, "yes", "no").astype(object)
    rows.loc[3, "age"] = np.nan
    rows.to_csv(tmp_path / "customers.csv", index=False, sep=";", decimal=",")
    done = initialised(tmp_path, "customers.csv", "--output", "own.yaml", "--optimizer", "sgd")
    assert done.returncode == 0, done.stderr
    assert "customers.csv: received id (442 different words, such as 'c000')" in done.stdout
    assert "310 train, 66 validate, 66 test" in done.stdout
    study = config.study(tmp_path / "own.yaml")
    (definition,) = study.datasets.values()
    assert definition["ignore"] == ["id"] and definition["separator"] == ";"
    assert definition["decimal"] == ","
    assert definition["missing"] == "median"
    runs = list(study.runs.values())
    assert {run["batch_size"] for run in runs} == {8, 16, 32, 64}
    assert {run["optimizer"] for run in runs} == {"sgd"}
    rates = sorted({run["learning_rate"] for run in runs})
    assert len(runs) == 4 * 5 * 6 and len(rates) == 5
    assert all(2.9 < high / low < 3.4 for low, high in itertools.pairwise(rates))
    assert len({(run["epochs"], run["evaluate_every"]) for run in runs}) == 1
    assert "target" not in study.experiments["batch_size"].keys.budgets
    assert study.file.guess.learning_rate in rates and len(study.file.guess.noise_scale) == 2
    assert study.file.guess.largest_batch_size <= 310
    assert study.file.guess.half_throughput <= study.file.guess.level_throughput
    assert estimates.Estimates(tmp_path / "results", study).training(runs[0]) > 0

    bought[5] = "Yes."
    rows.assign(bought=bought).to_csv(tmp_path / "two.csv", index=False)
    done = initialised(tmp_path, "two.csv")
    assert done.returncode == 1 and "Traceback" not in done.stderr
    assert "column bought: received 'Yes.'" in done.stderr
    assert not (tmp_path / "studies").exists()


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


SCRIPT = """
import os, runpy, sys
os.chdir(sys.argv[1])
sys.argv = ["train_wine.py", *sys.argv[2:]]
runpy.run_path("train_wine.py", run_name="__main__")
"""
OWN_UPDATES = """
import keras
import tensorflow as tf


class Own(keras.Model):
    def __init__(self, classes):
        super().__init__()
        self.out = keras.layers.Dense(classes, activation="softmax")

    def call(self, x):
        return self.out(x)

    def train_step(self, data):
        x, y = data
        with tf.GradientTape() as tape:
            loss = self.compute_loss(y=y, y_pred=self(x, training=True))
        gradients = tape.gradient(loss, self.trainable_variables)
        self.optimizer.apply_gradients(zip(gradients, self.trainable_variables))
        return {"loss": loss}


def build(input_shape, classes):
    return Own(classes)
"""


@pytest.mark.slow
def test_a_model_that_trains_itself_gets_a_study_to_copy(tmp_path, monkeypatch):
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "mine.py").write_text(OWN_UPDATES)
    done = initialised(tmp_path, "wine", "models/mine.py")
    assert done.returncode == 1 and "Own.train_step" in done.stderr
    _, study, script = re.split(r"^# (?:wine\.yaml|train_wine\.py)\n", done.stderr, flags=re.M)
    (tmp_path / "wine.yaml").write_text(study)
    (tmp_path / "train_wine.py").write_text(script)
    monkeypatch.chdir(tmp_path)
    run = next(iter(config.study("wine.yaml").commands.values()))
    assert {"batch_size", "learning_rate", "seed"} <= {*run.factors}
    done = project.forked(SCRIPT, tmp_path, "32", "0.01", "0", tmp_path)
    assert done.returncode == 0, done.stderr
    log = pandas.read_csv(tmp_path / "log.csv")
    assert len(log) == 20 and log["val_loss"].iloc[-1] < log["val_loss"].iloc[0]
    assert log["val_accuracy"].iloc[-1] > 0.8


LOG = "epoch,loss,val_loss\n1,0.9,0.8\n2,0.7,0.6\n"


@pytest.mark.parametrize(
    ("name", "files"),
    [
        ("bs{}_lr0.1_seed{}/metrics.csv", "logs/bs{{batch_size}}_lr{{learning_rate}}_seed{{seed}}"),
        ("run_batch-size={},seed={}.csv", "logs/run_batch-size={{batch_size}},seed={{seed}}.csv"),
    ],
)
def test_a_folder_of_logs_goes_on_as_external_runs(name, files, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for size in (8, 16, 32):
        for seed in (0, 1):
            path = tmp_path / "logs" / name.format(size, seed)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(LOG.replace("0.6", f"0.6{size}{seed}"))
            (path.parent / "hparams.yaml").write_text("a: 1")
    entry.main(["init", "logs"])
    study = config.study("studies/logs.yaml")
    assert study.experiments["batch_size"].external_runs.rows["run"].nunique() == 6
    assert study.experiments["batch_size"].external_runs.path.startswith(files.format())
    assert "--configfile studies/logs.yaml" in capsys.readouterr().out


def test_printed_output_goes_on_with_the_pattern_of_its_lines(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "logs").mkdir()
    for size in (8, 16, 32):
        lines = [f"step {n}: train loss {1 / n}, val loss {size / n}" for n in (1, 2, 3)]
        (tmp_path / "logs" / f"bs{size}.log").write_text("\n".join(["started", *lines]))
    entry.main(["init", "logs"])
    study = config.study("studies/logs.yaml")
    assert study.experiments["batch_size"].external_runs.rows["run"].nunique() == 3
    assert study.experiments["batch_size"].keys.runs.lines == (
        "step {updates}: train loss {train_loss}, val loss {validation_loss}",
    )
