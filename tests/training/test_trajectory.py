"""The trajectory: its grid, its rows, and that neither it nor a kill changes a bit."""

from pathlib import Path

import numpy as np
import pytest
from test_trainer import column, history

from batchscope.study.batch_phases import Course
from batchscope.study.names import parse_run
from batchscope.study.names import run_name as name_of
from batchscope.training import trajectory
from digit_runs import assert_same_bits, record, run_name, train, with_digits

EVERY = 250


def rows(folder: Path) -> list[dict[str, float]]:
    header, *lines = (folder / "trajectory.csv").read_text().splitlines()
    names = header.split(",")
    return [dict(zip(names, map(float, line.split(",")), strict=True)) for line in lines]


def grid(every: int, epochs: int, examples: int, batch_size: int) -> list[int]:
    """Examples used at the evaluations of a training, counted one update after the other."""
    result, used, k = [], 0, 1
    for _ in range(epochs):
        left = examples
        while left:
            left -= min(batch_size, left)
            now = used + examples - left
            if now >= k * every:
                result.append(now)
                k = now // every + 1
        used += examples
    return result


@pytest.mark.parametrize("batch_size", [1, 7, 1078])
@pytest.mark.parametrize("every", [1, 99, 3000])
def test_an_evaluation_follows_the_first_update_by_which_its_examples_were_used(batch_size, every):
    course = Course(parse_run(run_name(batch_size=batch_size, epochs=4)), 1078)
    result = [
        epoch * 1078 + min(step * batch_size, 1078)
        for epoch in range(4)
        for step in trajectory.evaluation_steps(every, epoch, course)
    ]
    assert result == grid(every, 4, 1078, batch_size)
    assert trajectory.evaluation_steps(0, 0, course) == []


def test_the_subset_is_fixed_and_has_at_most_512_examples():
    assert trajectory.fixed_subset(5).tolist() == [0, 1, 2, 3, 4]
    chosen = trajectory.fixed_subset(60000)
    assert len(np.unique(chosen)) == 512 and (np.diff(chosen) > 0).all()
    assert chosen.tolist() == trajectory.fixed_subset(60000).tolist()
    assert 25000 < chosen.mean() < 35000  # of the whole training set, and not its beginning


@pytest.fixture(scope="module")
def evaluated(dropout_run, digits, tmp_path_factory) -> tuple[Path, str]:
    """The run of `dropout_run` with a trajectory: its results folder, alone in it, and its name."""
    _, plain, model = dropout_run
    results = with_digits(digits, tmp_path_factory.mktemp("evaluated") / "results")
    run = name_of({**parse_run(plain), "evaluate_every": EVERY})
    train(results, run, "--model-file", model)
    return results, run


@pytest.mark.slow
def test_evaluations_change_no_bit_of_a_training(dropout_run, evaluated):
    plain, asked = dropout_run[0] / "runs" / dropout_run[1], evaluated[0] / "runs" / evaluated[1]
    assert_same_bits(plain, asked)
    assert history(plain) == history(asked)
    assert not (plain / "trajectory.csv").exists()


@pytest.mark.slow
def test_rows_stand_on_the_grid_and_at_the_end(evaluated):
    folder = evaluated[0] / "runs" / evaluated[1]
    result = rows(folder)
    examples = len(np.load(next((evaluated[0] / "data").glob("*/train_labels.npy"))))
    expected = {*grid(EVERY, 6, examples, 100), 6 * examples}
    assert [row["examples"] for row in result] == sorted(expected)
    assert [row["epoch"] for row in result] == [row["examples"] / examples for row in result]
    steps = -(-examples // 100)
    last = result[-1]
    assert last["updates"] == record(*evaluated)["steps_run"] == 6 * steps
    # At an epoch's end a trajectory says what the history says.
    for name in ("validation_loss", "validation_accuracy"):
        assert last[name] == column(folder, name)[-1]
    assert result[0]["train_loss"] > last["train_loss"] > 0
    for split in ("validation", "test"):
        assert all(0 <= row[f"{split}_accuracy"] <= 1 for row in result)
        assert last[f"{split}_accuracy"] > result[0][f"{split}_accuracy"]
