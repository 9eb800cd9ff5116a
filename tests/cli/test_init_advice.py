"""What `init` chooses before any training, writes, and says of it."""

from __future__ import annotations

from pathlib import Path

from batchscope.host import tensorflow_start

tensorflow_start.start(1, "cpu")

import keras
import pytest

from batchscope.cli import entry, init, missing_times, range_test, study_check
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


@pytest.fixture
def written(tmp_path, monkeypatch, capsys):
    """The study and the text that `init` writes without training."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(study_check, "run_in_fork", lambda *_: EXPLORED)
    monkeypatch.setattr(missing_times, "note_missing_times", lambda *_: None)
    entry.main(["init", "pets", "-o", "pets.yaml"])
    return Path("pets.yaml").read_text(), capsys.readouterr().out


def test_many_epochs_are_explained(written):
    for text in written:
        assert "411" in text and "190 epochs at batch size 8" in text
    assert "2,466 updates" in written[1]


def test_few_test_examples_get_a_larger_margin(written):
    margins = config.study("pets.yaml").experiments["batch_size"].keys.margins
    assert margins == {"test_accuracy": 0.07}
    assert all("20 test examples" in text for text in written)


def test_columns_that_are_no_features_are_left_out_and_no_error(tmp_path, capsys):
    rows = [f"i{row},{row % 7},{'yn'[row % 2]}" for row in range(40)]
    path = tmp_path / "own.csv"
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
