"""Trainings that end and go on: the same bits as in one piece, whatever the factors."""

import numpy as np
import pytest

from batchscope import disk
from batchscope.training import trainer
from batchscope.training.fit import End
from digit_runs import run_name, with_digits

ADAM = {"optimizer": "adamw", "learning_rate": 0.001}
FACTORS = {
    "constants": {
        **ADAM,
        **{"beta_1": 0.8, "beta_2": 0.99, "epsilon": 1e-6, "weight_decay": 0.1},
        **{"beta_scaling": "half_life", "weight_decay_scaling": "linear"},
    },
    "line after warm-up": {
        **{"schedule": "linear", "warmup_epochs": 1, "learning_rate_scaling": "sqrt"},
    },
    "pieces": {**ADAM, "micro_batch_size": 48, "augmentation": "random"},
    "bfloat16": {**ADAM, "precision": "mixed_bfloat16", "micro_batch_size": 48},
    "float16": {**ADAM, "precision": "mixed_float16", "schedule": "cosine"},
    "sam": {**ADAM, "method": "sam"},
}


@pytest.fixture(scope="module")
def results(digits, tmp_path_factory):
    return with_digits(digits, tmp_path_factory.mktemp("resumed") / "results")


class Killed(BaseException):
    """What ends a training as a kill would: nothing is written any more."""


def trained(results, folder, run, chunk_steps=None, killed_after=None):
    """Trains in a folder, or goes on there; dies after so many calls into the graph."""
    limits = trainer.Limits(chunk_steps=chunk_steps, checkpoint_seconds=0 if chunk_steps else 1e9)
    training = trainer.Training(trainer.Run(results, run), limits, folder)
    make = training._place

    def place():
        make()
        run_steps, calls = training.loop.run, iter(range(10**6))

        def dying(*given):
            if killed_after is not None and next(calls) == killed_after:
                raise Killed
            return run_steps(*given)

        training.loop.run = dying

    training._place = place
    training.fit()
    return training


@pytest.mark.parametrize("name", FACTORS)
def test_killed_and_started_again_ends_with_the_same_bits(name, results, tmp_path):
    run = run_name(**{"batch_size": 128, "epochs": 2, **FACTORS[name]})
    whole = trained(results, tmp_path / "whole", run)
    for kills in (3, 4):
        with pytest.raises(Killed):
            trained(results, tmp_path / "cut", run, 2, kills)
    cut = trained(results, tmp_path / "cut", run, 2)
    assert cut.progress.resumed == 2
    assert len(whole.variables) == len(cut.variables)
    for one, other in zip(whole.variables, cut.variables, strict=True):
        np.testing.assert_array_equal(one.numpy(), other.numpy())
    for rows in (whole.progress.history, cut.progress.history):
        for row in rows:
            del row["seconds"]
    assert whole.progress.history == cut.progress.history


def test_the_record_holds_the_constants_that_were_used(results, tmp_path):
    run = run_name(**{"batch_size": 1024, "epochs": 1, **FACTORS["constants"]})
    training = trained(results, tmp_path / "run", run)
    trainer.write(training, End("finished", "epochs", ""))
    record = disk.read_json(tmp_path / "run" / "record.json")
    found = record["optimizer_constants"]
    assert found["beta_2"] == pytest.approx(0.99**32)
    assert found["weight_decay"] == pytest.approx(3.2)
