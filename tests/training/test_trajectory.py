"""The trajectory: its grid, its rows, and that neither it nor a kill changes a bit."""

import numpy as np
import pytest

from batchscope.study import model_files
from batchscope.study.batch_phases import Course
from batchscope.study.names import parse_run
from batchscope.study.names import run_name as name_of
from batchscope.training import fit, losses
from batchscope.training.fit import evaluation_steps, fixed_subset
from batchscope.training.runs import TrainingRun
from digit_runs import run_name
from measured_run import RUN
from project import ROOT


def grid(every: int, epochs: int, examples: int, batch_size: int) -> list[int]:
    """Examples used at the evaluations of a training, counted one update after the other."""
    result, k = [], 1
    for update in range(epochs * -(-examples // batch_size)):
        epoch, step = divmod(update, -(-examples // batch_size))
        used = epoch * examples + min((step + 1) * batch_size, examples)
        if used >= k * every:
            result.append(used)
            k = used // every + 1
    return result


@pytest.mark.parametrize("batch_size", [1, 7, 1078])
@pytest.mark.parametrize("every", [1, 99, 3000])
def test_an_evaluation_follows_the_first_update_by_which_its_examples_were_used(batch_size, every):
    course = Course(parse_run(run_name(batch_size=batch_size, epochs=4)), 1078)
    result = [
        epoch * 1078 + min(step * batch_size, 1078)
        for epoch in range(4)
        for step in evaluation_steps(every, epoch, course)
    ]
    assert result == grid(every, 4, 1078, batch_size)
    assert evaluation_steps(0, 0, course) == []


def test_the_subset_is_fixed_and_has_at_most_512_examples():
    assert fixed_subset(5).tolist() == [0, 1, 2, 3, 4]
    chosen = fixed_subset(60000)
    assert len(chosen) == 512 and (np.diff(chosen) > 0).all()
    assert 25000 < chosen.mean() < 35000  # of the whole training set, and not its beginning


def test_evaluations_change_no_bit_and_have_the_numbers_of_their_splits(
    results, tmp_path, monkeypatch
):
    """A model with dropout and batch normalisation, which an evaluation must leave alone."""
    monkeypatch.setattr(fit, "MAX_EVALUATED_EXAMPLES", 50)
    model_file = str(ROOT / "tests" / "data" / "noisy_model.py")
    model = model_files.token("noisy", model_file)

    def trained(interval):
        factors = {**parse_run(RUN), "model": model, "epochs": 2, "evaluate_every": interval}
        run = TrainingRun(results, name_of(factors), model_file)
        training = fit.Training(run, folder=tmp_path / str(interval))
        training.fit()
        return training

    plain, evaluated = trained(0), trained(40)
    for one, other in zip(plain.model.variables, evaluated.model.variables, strict=True):
        np.testing.assert_array_equal(one.numpy(), other.numpy())
    assert plain.progress.trajectory == []
    rows = evaluated.progress.trajectory
    assert [row["examples"] for row in rows] == sorted({*grid(40, 2, 70, 16), 140})
    assert [row["epoch"] for row in rows] == [row["examples"] / 70 for row in rows]
    last, history = rows[-1], evaluated.progress.history[-1]
    assert last["updates"] == evaluated.updates == 10
    for name in ("validation_loss", "validation_accuracy"):
        assert last[name] == history[name] == plain.progress.history[-1][name]
    train = evaluated.run.data.examples("train")
    subset = train.rows(np.sort(np.random.default_rng(0).permutation(70)[:50]))
    assert last["train_loss"] == losses.Objective(evaluated.model, subset).evaluate()[0]
    test = losses.Objective(evaluated.model, evaluated.run.data.examples("test"))
    assert (last["test_loss"], {"accuracy": last["test_accuracy"]}) == test.evaluate()
