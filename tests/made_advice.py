"""Hand-made rows of comparisons.csv and runs.csv, for tests of the advice."""

import math

import pandas

from batchscope.analysis import advice
from batchscope.analysis.advice_series import AdviceRequest, AdviceTables
from batchscope.study import tasks
from batchscope.study.decision_columns import COMPARISONS

SIZES = [16, 32, 64, 128, 256]
FACTORS = {"dataset": "digits", "model": "small_cnn", "optimizer": "sgd", "machine": "local"}
ENDS = {
    "seconds": {"w": (0.95, 1.05), "b": (1.2, 1.8), "n": (1.0, 1.4)},
    "test_accuracy": {"w": (-0.01, 0.01), "b": (-0.15, -0.05), "n": (-0.05, 0.01)},
}
VERDICTS = {
    "w": ("within", ""),
    "b": ("beyond", ""),
    "n": ("not_resolved", ""),
    "f": ("not_testable", "failed"),
    "a": ("not_testable", "alone"),
    "0": ("not_testable", "no_value"),
}
TAKEN = [2.0, 1.0, 1.05, 1.08, 2.0]


def rows(outcome, letters, means, n=6, **given):
    """Rows of one outcome: a letter of `VERDICTS` for each batch size."""
    seconds = outcome in ("seconds", "examples")
    budget = "target" if seconds else "convergence"
    change = -0.02 if tasks.higher_is_better(outcome, ()) else 0.02
    found, estimates = [], _estimates(outcome, letters, means)
    for size, letter, mean, estimate in zip(SIZES, letters, means, estimates, strict=False):
        verdict, reason = VERDICTS[letter]
        if letter in "wbn" and n < 6:
            verdict = "provisional" if n > 1 else "one_seed"
        ends = ENDS["seconds" if seconds else "test_accuracy"].get(letter, (math.nan,) * 2)
        row = dict.fromkeys(COMPARISONS, math.nan) | {
            **FACTORS,
            **{"budget": budget, "budget_value": 0.2 if seconds else math.nan},
            **{"budget_column": "validation_loss" if seconds else "", "outcome": outcome},
            **{"batch_size": size, "learning_rate": size / 100 if seconds else size / 50},
            **{"margin": 0.1 if seconds else 0.02, "bound": 1.1 if seconds else change},
            **{"on_edge": 0, "still_falling": 0, "seeds": n},
            **dict(zip(("estimate", "low", "high"), (estimate, *ends), strict=True)),
            **{"mean": math.nan if letter in "f0" else mean, "n": n if letter in "wbn" else 0},
            **{"mean_low": mean - 0.01, "mean_high": mean + 0.01},
            **(dict.fromkeys(("low", "high", "mean_low", "mean_high"), math.nan) if n < 3 else {}),
            **{"verdict": verdict, "reason": reason},
            **{"seeds_to_resolve": 6 if n < 6 else 12 if letter == "n" else math.nan},
        }
        found.append(row | given)
    return found


def _estimates(outcome, letters, means):
    """Each mean against the best of the others: a ratio of seconds, else a difference."""
    compared = dict(enumerate(mean for _, mean in zip(letters, means, strict=False)))
    compared = {at: mean for at, mean in compared.items() if letters[at] in "wbn"}
    best = max if tasks.higher_is_better(outcome, ()) else min
    for at in range(len(letters)):
        others = [mean for other, mean in compared.items() if other != at]
        if at not in compared or not others:
            yield math.nan
        elif outcome in ("seconds", "examples"):
            yield compared[at] / best(others)
        else:
            yield compared[at] - best(others)


def comparisons(seconds="bwwwb", accuracy="wwwww", n=6, taken=TAKEN, accurate=(0.95,) * 5):
    """Rows of the seconds to a target and of test accuracy; none of an empty text."""
    found = rows("seconds", seconds, taken, n) + rows("test_accuracy", accuracy, accurate, n)
    return pandas.DataFrame(found, columns=[*FACTORS, *COMPARISONS])


def runs(seeds=6, rates=(0.1, 0.2, 0.4)):
    """Runs of every batch size, rate and seed, timed well."""
    return pandas.DataFrame(
        {
            **FACTORS,
            **{"run": f"{size} {rate} {seed}", "batch_size": size, "learning_rate": rate},
            **{"seed": seed, "epochs": 10, "status": "finished", "test_examples": 1000},
            **{"train_examples": 800, "evaluate_every": 200, "train_seconds": 1.0},
            **{"seconds_per_epoch_q1": 1.0, "seconds_per_epoch_q3": 1.05},
        }
        for size in SIZES
        for rate in rates
        for seed in range(seeds)
    )


ASKED = AdviceRequest(
    {"test_accuracy": 0.02},
    baselines={"digits": {"test_accuracy": 0.1}},
    price=lambda names: (50.0, 10.0),  # a minute for a seed
)


def advised(frame=None, made=None, asked=ASKED, **tables):
    """Rows of the advice; by default three sizes in the middle are within both limits."""
    frame = comparisons() if frame is None else frame
    return advice.table(AdviceTables(frame, runs() if made is None else made, **tables), asked)


def one(found, item, name=None):
    """The single row of an item, and of a name where one is given."""
    found = found[found["item"] == item]
    (row,) = (found if name is None else found[found["name"] == name]).to_dict("records")
    return row
