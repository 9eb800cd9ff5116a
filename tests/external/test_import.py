"""Exports of other programs, imported as a table that a study reads."""

import contextlib
import io
import math
import signal

import pandas
import pytest

import run
from batchscope.study import config
from batchscope.tables import experiment_tables


@pytest.mark.parametrize("source", ["tensorboard", "weights_and_biases"])
def test_exports_are_imported(tmp_path, source, monkeypatch):
    """The critical batch size of the loss curves is 40."""
    monkeypatch.setattr(signal, "signal", lambda *_: None)  # called in this process
    updates = pandas.Series(range(0, 1201, 10))
    chart = pandas.DataFrame({"Step": updates})
    for size in (8, 16, 32, 64, 128, 256):
        for seed in range(3):
            loss = 2 * (-updates / (10 * (1 + 40 / size)) * (1 + 0.01 * seed)).map(math.exp)
            name = f"bs{size}_seed{seed}"
            export = {"Wall time": 1.7e9 + updates, "Step": updates, "Value": loss}
            pandas.DataFrame(export).to_csv(tmp_path / f"{name}.csv", index=False)
            column = f"{name} - validation_loss"
            chart = chart.assign(**{column: loss, f"{column}__MIN": loss, f"{column}__MAX": loss})
    pattern = "bs{batch_size}_seed{seed}"
    if source == "tensorboard":
        words = [*map(str, tmp_path.glob("bs*.csv")), "--columns", "validation_loss=Value"]
        words += ["--pattern", f"{pattern}.csv"]
    else:
        chart.to_csv(tmp_path / "chart.csv", index=False)
        words = [str(tmp_path / "chart.csv"), "--pattern", f"run: {pattern}"]
    with contextlib.redirect_stdout(io.StringIO()):
        run.main(["import", *words, "-o", str(tmp_path / "runs.csv")])
    path = tmp_path / "mine.yaml"
    keys = "{runs: runs.csv, budgets: {target: {validation_loss: 0.2}}}"
    path.write_text(f"study: mine\nexperiments:\n  a: {keys}\n")
    built = experiment_tables.make(tmp_path / "results", config.study(path), "a")
    (fit,) = built["critical_batch_size"].to_dict("records")
    assert fit["critical_batch_size"] == pytest.approx(40, rel=0.05)
