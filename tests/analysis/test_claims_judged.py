"""From tidy tables to the verdicts of claims: known answers, families, and what is not testable."""

import itertools
import json
import math

import numpy as np
import pandas
import pytest
from scipy import stats

from batchscope.analysis import claims, verdicts
from batchscope.study.decision_columns import CLAIMS
from batchscope.study.outcomes import LEVEL, Reason, Verdict
from made_claims import claim

SIZES, OPTIMIZERS = (16, 32, 64, 128), ("sgd", "adam")
ONE = {"optimizer": ("sgd",)}
ORDER = ({"optimizer": ("sgd",)}, {"optimizer": ("adam",)})
ADAM_TO_SGD = {"sides": ORDER[::-1]}


def runs(value, seeds=range(6), **factors) -> pandas.DataFrame:
    """Returns rows of runs.csv: `value(batch_size, seed, optimizer)` is the test accuracy."""
    cells = [*itertools.product(OPTIMIZERS, SIZES, seeds)]
    frame = pandas.DataFrame(cells, columns=["optimizer", "batch_size", "seed"])
    frame["test_accuracy"] = [value(size, seed, optimizer) for optimizer, size, seed in cells]
    names = [f"{optimizer}-{size}-{seed}" for optimizer, size, seed in cells]
    return frame.assign(run=names, machine="local", status="finished", **factors)


def scattered(rng, seeds=range(6)) -> pandas.DataFrame:
    level = dict(zip(OPTIMIZERS, rng.normal(1.0, 0.3, 2), strict=True))
    slope = rng.normal(0.0, 0.15)
    noise = rng.normal(0.0, 0.1, (129, 20, 2))

    def value(size, seed, optimizer):
        base = level[optimizer] + slope * math.log2(size / 16)
        return math.exp(base + noise[size, seed, OPTIMIZERS.index(optimizer)])

    return runs(value, seeds)


def falling(size, seed, optimizer):
    slope = {"sgd": 0.02, "adam": 0.01}[optimizer]
    return 0.9 + 0.01 * seed - (slope + 1e-4 * (seed * size % 7)) * math.log2(size / 16)


def judged(frame, *stated_here) -> pandas.DataFrame:
    table = claims.table(stated_here, lambda experiment, name: frame, "local", {})
    assert list(table.columns) == list(CLAIMS)
    return table.set_index("id")


def row(frame, kind, **given) -> pandas.Series:
    """Returns the row of a claim that is judged alone."""
    return judged(frame, claim("one", kind, **given)).loc["one"]


def part(found) -> dict:
    return json.loads(found["part"]) if found["part"] else {}


FRAME = scattered(np.random.default_rng(1))
VALUES = FRAME.pivot(index="seed", columns=["optimizer", "batch_size"], values="test_accuracy")
SGD, ADAM = VALUES["sgd"], VALUES["adam"]
LOG = np.log(SGD)
DOUBLINGS = np.log2(SIZES)


def slopes(table):
    return np.polyfit(DOUBLINGS, table.T, 1)[0]


def sizes(*chosen):
    return {**ONE, "batch_size": chosen}


TO_16 = {"sides": ({"batch_size": (64,)}, {"batch_size": (16,)}), "cells": ONE}
BEST_32 = {"chosen": (32,), "cells": sizes(16, 32)}
# Type with its test -> the numbers of its only contrast, and its bounds.
KNOWN = [
    ("trend", {"direction": "falls", "cells": ONE}, slopes(SGD), (None, 0)),
    ("trend", {"direction": "rises", "cells": ONE, "scale": "ratio"}, slopes(LOG), (1, None)),
    ("value", {"above": 2.5, "below": 4.0, "cells": sizes(16)}, SGD[16], (2.5, 4.0)),
    ("equivalence", {"margin": 1.0, "cells": sizes(32, 64)}, SGD[64] - SGD[32], (-1, 1)),
    ("comparison", {**TO_16, "above": 0.5}, SGD[64] - SGD[16], (0.5, None)),
    ("comparison", {**TO_16, "below": 2.0, "scale": "ratio"}, LOG[64] - LOG[16], (None, 2)),
    ("interaction", {**ADAM_TO_SGD, "above": 0.0}, slopes(ADAM) - slopes(SGD), (0, None)),
    ("argmax", BEST_32, SGD[32] - SGD[16], (0, None)),
    ("argmax", {**BEST_32, "best": "lowest"}, SGD[32] - SGD[16], (None, 0)),
    ("order", {"sides": ORDER, "cells": {"batch_size": (16,)}}, ADAM[16] - SGD[16], (0, None)),
    (
        *("exception", {"chosen": (32,), "direction": "falls", "cells": sizes(16, 32, 128)}),
        *(LOG[32] - (2 * LOG[16] + LOG[128]) / 3, (None, 1)),
    ),
]


@pytest.mark.parametrize(("kind", "given", "numbers", "bounds"), KNOWN)
def test_every_type_is_the_t_test_of_its_contrast(kind, given, numbers, bounds):
    """One claim and its contrary: each end is a one-sided bound at .05 / 2."""
    found = row(FRAME, kind, **given)
    ratio = found["scale"] == "ratio"
    mean, ends = np.mean(numbers), stats.t.interval(0.95, 5, np.mean(numbers), stats.sem(numbers))
    shown = [math.exp(one) if ratio else one for one in (mean, *ends)]
    if found["verdict"] != Verdict.CONTRADICTED or None in bounds:
        assert found[["estimate", "low", "high"]].tolist() == pytest.approx(shown)
    p = [
        stats.ttest_1samp(numbers, math.log(bound) if ratio else bound, alternative=way).pvalue
        for bound, way in zip(bounds, ("greater", "less"), strict=True)
        if bound is not None
    ]
    assert found["p"] == pytest.approx(max(p))
    assert found["p_against"] == pytest.approx(min(1, len(p) * min(1 - each for each in p)))
    expected = pytest.approx([math.nan if b is None else b for b in bounds], nan_ok=True)
    assert found[["low_bound", "high_bound"]].tolist() == expected
    assert (found["n"], found["replicates"], found["parts"]) == (6, 6, 1)


def test_every_series_needs_one_of_several_that_are_said_to_be_best():
    """Which of them may differ; some other one that beats all of them shows the contrary."""
    peak = {"sgd": 32, "adam": 64}
    frame = runs(lambda size, seed, one: (size == peak[one]) + 0.01 * (seed * size % 5))
    found = row(frame, "argmax", chosen=(32, 64))
    assert found["verdict"] == Verdict.SUPPORTED and found["parts"] == 2 * 2 * 2
    assert found["level"] == pytest.approx(LEVEL / 2 / 2)
    wrong = row(frame, "argmax", chosen=(16, 32))
    assert wrong["verdict"] == Verdict.CONTRADICTED and part(wrong)["optimizer"] == "adam"
    assert part(wrong)["batch_size"][1] == 64


def test_what_a_document_states_is_one_family_with_one_level():
    each = enumerate(itertools.product(SIZES, (2.5, 3.2, 3.5)))
    many = [
        claim(f"s{index}", "value", above=low, cells=sizes(size)) for index, (size, low) in each
    ]
    table = judged(FRAME, *many, claim("alone", "value", "Another", above=2.5, cells=sizes(16)))
    own = table[table["document"] == "A document"]
    p = np.array([own["p"], own["p_against"]])
    assert set(own["level"]) == {verdicts.family_level(p.ravel())} != {table["level"]["alone"]}
    told = stats.false_discovery_control(p.ravel()).reshape(p.shape) <= LEVEL
    decided = [Verdict.SUPPORTED, Verdict.CONTRADICTED]
    assert own["verdict"].tolist() == np.select([*told], decided, Verdict.NOT_RESOLVED).tolist()
    assert own["seeds_to_resolve"].notna().sum() == (~told.any(axis=0)).sum() > 0


def not_here(status):
    frame = runs(falling)[lambda every: every["optimizer"] == "sgd"]
    frame.loc[frame["batch_size"] == 16, "status"] = status
    return frame


def not_installed():
    every = [runs(falling).assign(own_framework=name) for name in ("jax", "mxnet")]
    every[1]["status"] = "not_installed"
    return pandas.concat(every, ignore_index=True)


LOW = {"above": 0.5}
REPLICAS = {"sides": ({"replicas": (2,)}, {"replicas": (1,)}), "above": 0.0}
OTHER = {"sides": ({"machine": ("local",)}, {"machine": ("cluster",)}), "above": 0.0}


@pytest.mark.parametrize(
    ("frame", "kind", "given", "reason", "of"),
    [
        (not_here("no_gpu"), "value", LOW, Reason.NO_GPU, {}),
        (not_here("missing"), "value", {**LOW, "requires": "gpu"}, Reason.NO_GPU, {}),
        (FRAME, "comparison", {**REPLICAS, "requires": "gpu"}, Reason.FEW_GPUS, {}),
        (FRAME, "comparison", {**OTHER, "requires": "machine"}, Reason.NO_MACHINE, {}),
        (not_here("no_cores"), "value", LOW, Reason.NO_CORES, {}),
        (not_installed(), "value", LOW, Reason.NOT_INSTALLED, {"own_framework": ["mxnet"]}),
        (FRAME.iloc[:0], "value", LOW, Reason.NO_RESULTS, {}),
        (FRAME, "value", {**LOW, "cells": sizes(16, 512)}, Reason.NOT_IN_GRID, {"batch_size": 512}),
        (FRAME, "trend", {"direction": "falls", "cells": sizes(16)}, Reason.NOT_IN_GRID, {}),
        (not_here("diverged"), "value", LOW, Reason.NO_VALUE, {"batch_size": 16}),
        (
            FRAME.assign(test_accuracy=FRAME["test_accuracy"].where(FRAME["seed"] > 0, 0.0)),
            *("trend", {"direction": "falls", "scale": "ratio"}, Reason.NOT_POSITIVE, {}),
        ),
    ],
)  # fmt: skip
def test_what_is_missing_is_named(frame, kind, given, reason, of):
    found = row(frame, kind, **given)
    assert (found["verdict"], found["reason"]) == (Verdict.NOT_TESTABLE, reason)
    assert json.loads(found["reason_of"] or "{}") == of
    assert math.isnan(found["estimate"])


def trajectories(short=()) -> pandas.DataFrame:
    """Returns trajectories of four evaluations; those of `short`, (size, seed), end at half."""
    rows = itertools.product((16, 32), range(8), range(1, 5))
    rows = [row for row in rows if row[2] <= 2 or row[:2] not in short]
    frame = pandas.DataFrame(rows, columns=["batch_size", "seed", "epoch"])
    size, seed, step = (frame[name] for name in frame)
    frame["run"] = size.astype(str) + "-" + seed.astype(str)
    frame = frame.assign(machine="local", status="finished", seconds=1.0, updates=10 * step)
    return frame.assign(
        examples=10 * size * step, validation_loss=(1 + 0.01 * seed) / (step * size)
    )


def test_a_trajectory_is_read_at_a_budget_that_every_training_reached():
    """Of those that went on the seeds that are left would be a choice."""
    of = {"table": "trajectories", "column": "validation_loss"}
    falls = {**of, "cells": {"updates": (40,)}, "direction": "falls"}
    found = row(trajectories(), "trend", **falls)
    assert found["verdict"] == Verdict.SUPPORTED
    assert found["estimate"] == pytest.approx(-1.035 / (4 * 32))
    some = trajectories([(32, 3), (32, 7)])
    found = row(some, "trend", **falls)
    assert (found["verdict"], found["reason"]) == (Verdict.NOT_TESTABLE, Reason.NO_BUDGET)
    assert found["reason_of"] == '{"updates": 40}'
    small = {"updates": (40,), "batch_size": (16,)}  # none of which ended before
    assert row(some, "value", above=0.0, cells=small, **of)["verdict"] == Verdict.SUPPORTED


def test_keys_distinguish_series_and_what_lies_in_one_cell_is_averaged():
    layers = (("a", 1.0), ("b", 2.0))
    at = (runs(falling, layer=name, distance=level) for name, level in layers)
    frame = pandas.concat(at, ignore_index=True)
    given = {"table": "layers", "column": "distance", "above": 0.0, "cells": sizes(16)}
    found = row(frame, "value", **given)
    assert found["parts"] == 2 and part(found)["layer"] in ("a", "b")
    twice = pandas.concat([runs(lambda *_: 1.0), runs(lambda *_: 3.0)], ignore_index=True)
    assert row(twice, "value", above=0.0)["estimate"] == 2.0
    at = (runs(lambda *run, e=e: 0.1 * e + 0.01 * run[1], at_epoch=2**e) for e in range(3))
    epochs = pandas.concat(at, ignore_index=True)
    along = {"table": "at_epochs", "over": "at_epoch", "direction": "rises", "cells": ONE}
    found = row(epochs, "trend", **along)
    assert found["estimate"] == pytest.approx(0.1) and found["parts"] == len(SIZES)


def test_a_slope_over_levels_with_a_zero_is_per_unit():
    """Zero has no doubling: dropout 0, .25 and .5 lie at equal distances."""
    shares = (0.0, 0.25, 0.5)
    at = (runs(lambda *run, p=p: 0.9 - (0.2 + 0.01 * run[1]) * p, dropout=p) for p in shares)
    frame = pandas.concat(at, ignore_index=True)
    along = {"over": "dropout", "direction": "falls", "cells": sizes(16)}
    found = row(frame, "trend", **along)
    assert (found["per"], found["estimate"]) == ("unit", pytest.approx(-0.225))
    found = row(frame[frame["dropout"] > 0], "trend", **along)
    assert (found["per"], found["estimate"]) == ("doubling", pytest.approx(-0.05625))
    found = row(frame, "exception", chosen=(0.25,), **along)  # no place beside a zero
    assert found["reason"] == Reason.NOT_IN_GRID


def test_times_are_repeated_by_timing_jobs():
    job = pandas.DataFrame({"batch_size": SIZES, "status": "finished", "machine": "local"})
    job["seconds_per_step"] = 100.0 / job["batch_size"]
    falls = {"direction": "falls", "table": "throughput", "column": "seconds_per_step"}
    for jobs, verdict in ((1, Verdict.ONE_SEED), (6, Verdict.SUPPORTED)):
        frame = pandas.concat([job.assign(repeat=one) for one in range(jobs)], ignore_index=True)
        assert row(frame, "trend", **falls)[["verdict", "n"]].tolist() == [verdict, jobs]


def test_a_claim_is_tested_at_every_look_by_the_seeds_of_then():
    """By 6 and 9 of 9 seeds, at 2/3 and 1/3 of the level; other cells may have fewer."""
    rng = np.random.default_rng(5)
    noise = rng.normal(0, 0.1, (129, 9))
    frame = runs(lambda size, seed, optimizer: (optimizer == "adam") + noise[size, seed], range(9))
    frame = frame[(frame["seed"] < 6) | (frame["optimizer"] == "sgd")]
    values = noise[16]
    given = claim("one", "value", above=0.0, cells={**ONE, "batch_size": (16,)})
    table = claims.table([given], lambda *_: frame, "local", {"gap": (6, 9)}).loc[0]
    tails = [stats.ttest_1samp(values[:n], 0.0, alternative="greater").pvalue for n in (6, 9)]
    assert table["p"] == pytest.approx(min(1, tails[0] * 1.5, tails[1] * 3))
    assert table["n"] == table["replicates"] == (9 if table["verdict"] == "not_resolved" else 6)
    early = runs(lambda size, seed, _: (1.0 if seed < 6 else -1.0) + noise[size, seed], range(9))
    decided = claims.table([given], lambda *_: early, "local", {"gap": (6, 9)}).loc[0]
    assert decided[["verdict", "n", "replicates"]].tolist() == ["supported", 6, 6]
    sides = claim("two", "comparison", **ADAM_TO_SGD, above=0.9, cells={"batch_size": (16,)})
    both = claims.table([sides], lambda *_: frame, "local", {"gap": (6, 9)}).loc[0]
    assert (both["n"], both["estimate"]) == (6, pytest.approx(1.0))
