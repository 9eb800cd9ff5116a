"""Trainings of a known critical batch size, as the tables of an experiment have them."""

import itertools
import math
from collections.abc import Iterable
from typing import Any

import numpy as np
import pandas

from batchscope.analysis import to_target_tables
from batchscope.analysis.targets import ComparisonRequest, Target

CRITICAL, SCALE, FIXED, PER_IMAGE = 40.0, 10.0, 0.002, 0.0001
SIZES = (8, 16, 32, 64, 128)
TO = [Target("validation_loss", 0.2)]
# Updates to the target, as exact as a loss that is straight in its logarithm makes a crossing.
EXACT = math.log(10) * SCALE * (1 + CRITICAL / np.array(SIZES))


def tables(
    rates: Iterable[float] = (0.1, 0.2, 0.4, 0.8),
    sizes: Iterable[int] = SIZES,
    timed: bool = True,
    **factors: Any,
) -> tuple[pandas.DataFrame, pandas.DataFrame]:
    """Returns trajectories and runs of three seeds; without seconds unless `timed`.

    At .2 a training takes `EXACT` times a factor of its seed whose geometric mean is 1, at .1
    twice and at .4 1.2 times as many updates. At .8 seed 1 diverges.
    """
    rows, runs = [], []
    for size, seed, rate in itertools.product(sizes, (0, 1, 2), rates):
        factor = math.exp(0.02 * (seed - 1)) * {0.1: 2.0, 0.4: 1.2, 0.8: 0.9}.get(rate, 1.0)
        status = "diverged" if rate == 0.8 and seed == 1 else "finished"
        run = {"run": f"{size}/{rate}/{seed}", "batch_size": size, "learning_rate": rate}
        run |= {"seed": seed, "machine": "local", "status": status, **factors}
        runs.append(run)
        for updates in range(5, 501, 5):
            loss = 2 * math.exp(-updates / (factor * SCALE * (1 + CRITICAL / size)))
            seconds = updates * (FIXED + PER_IMAGE * size) if timed else math.nan
            used = {"examples": updates * size, "updates": updates, "seconds": seconds}
            rows.append({**run, **used, "validation_loss": loss})
    whole = {"examples": "Int64", "updates": "Int64"}
    return pandas.DataFrame(rows).astype(whole), pandas.DataFrame(runs)


def fitted(
    trajectories: pandas.DataFrame, runs: pandas.DataFrame, targets: Iterable[Target] = TO
) -> tuple[pandas.DataFrame, pandas.DataFrame]:
    """Returns the tables of fits and of what each training takes."""
    stated = {target.column: target.value for target in targets}
    return to_target_tables.tables(runs, trajectories, ComparisonRequest({"target": stated}))
