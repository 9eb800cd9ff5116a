"""The optimizers' constants, and how they follow the batch size."""

import pytest

from batchscope.study import names, optimizer_constants
from digit_runs import run_name


def effective(**factors):
    return optimizer_constants.scaled_constants(names.parse_run(run_name(**factors)))


def test_what_is_left_out_is_the_optimizers_own():
    assert effective(optimizer="sgd") == {"weight_decay": 0}
    lion = {"weight_decay": 0, "beta_1": 0.8, "beta_2": 0.99}
    assert effective(optimizer="lion", beta_1=0.8) == lion
    assert effective(optimizer="adamw")["weight_decay"] == 0.004
    assert effective(optimizer="adamw", weight_decay=0)["weight_decay"] == 0


def test_the_half_life_in_examples_stays():
    """0.5^(1/10) forgets half in 10 updates of 32 examples: in 5 of 64, in 40 of 8."""
    given = {"optimizer": "adam", "beta_2": 0.5**0.1, "beta_scaling": "half_life"}
    for batch_size, updates in ((64, 5), (32, 10), (8, 40)):
        found = effective(batch_size=batch_size, **given)
        assert found["beta_2"] ** updates == pytest.approx(0.5, rel=1e-12)
        assert (found["beta_1"], found["epsilon"]) == (0.9, 1e-7)


def test_the_square_root_rule_of_adam():
    found = effective(batch_size=128, optimizer="adam", beta_scaling="square_root")
    assert found == pytest.approx(
        {"beta_1": 0.6, "beta_2": 0.996, "epsilon": 5e-8, "weight_decay": 0}, rel=1e-12
    )
    same = effective(batch_size=32, optimizer="adam", beta_scaling="square_root")
    assert same == pytest.approx(effective(optimizer="adam"), rel=1e-15)
