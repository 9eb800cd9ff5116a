"""How often a study without any effect gets a verdict: its batch sizes are shuffled.

    python benchmarks/verdicts.py results/studies/NAME/EXPERIMENT [--studies 1000]
        [--seed 0] [--processes 2]

Within each seed the labels of the batch sizes are shuffled, all trainings of a size together, so
that none is better than another; rates are chosen, budgets found and verdicts given as for the
study itself. Printed: in how many percent of such studies any row is said to have a trend, any
batch size to be beyond its margin, and either, with the interval of Clopper and Pearson. Either
must stay at 5 % or below. A study of 144 trainings takes some .5 s of a core, so that 1,000 of them
take 5 minutes on two.
"""

from __future__ import annotations

import argparse
import functools
import os
import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "workflow"))

import numpy as np
import pandas

from batchscope.analysis import budgets, largest_within_margin, run_series, verdict_matrix
from batchscope.tables import csv_tables


def relabelled(
    runs: pandas.DataFrame, evaluations: pandas.DataFrame, rng: np.random.Generator
) -> tuple[pandas.DataFrame, pandas.DataFrame]:
    """Returns both tables with the batch sizes shuffled within each seed.

    What goes along with a batch size, such as its epochs, goes along with the label: else trainings
    of one label would fall into several series, none of which has enough seeds for a verdict.
    """
    sizes = sorted(runs["batch_size"].unique().tolist())
    names = {
        (seed, size): other
        for seed in sorted(runs["seed"].unique().tolist())
        for size, other in zip(sizes, rng.permutation(sizes).tolist(), strict=True)
    }
    found = []
    for frame in (runs, evaluations):
        keys = zip(frame["seed"], frame["batch_size"], strict=True)
        labels = pandas.Series([names[key] for key in keys], frame.index)
        by_size = frame.groupby("batch_size")
        along = {
            name: labels.map(by_size[name].first())
            for name in run_series.factor_columns(frame)
            if frame[name].nunique() > 1 and by_size[name].nunique().max() == 1
        }
        found.append(frame.assign(batch_size=labels, **along))
    return found[0], found[1]


def verdicts(
    runs: pandas.DataFrame,
    evaluations: pandas.DataFrame,
    studies: int,
    seed: int,
    processes: int = 1,
) -> dict[str, list[bool]]:
    """Returns, of each kind of verdict, in which relabelled studies it was given.

    Every study is drawn from a seed of its own: as many processes as one likes find the same.
    """
    judge = functools.partial(_judged, runs, evaluations, seed)
    if processes > 1:
        with ProcessPoolExecutor(processes) as pool:
            found = list(pool.map(judge, range(studies), chunksize=5))
    else:
        found = [judge(study) for study in range(studies)]
    return {kind: [each[kind] for each in found] for kind in ("trend", "beyond", "either")}


def _judged(
    runs: pandas.DataFrame, evaluations: pandas.DataFrame, seed: int, study: int
) -> dict[str, bool]:
    """Returns kind of verdict -> whether one relabelled study was given any."""
    rng = np.random.default_rng([seed, study])
    table = verdict_matrix.table(*relabelled(runs, evaluations, rng), {}, {})
    trend = bool((table["trend"] != verdict_matrix.NONE).any())
    beyond = bool((table["verdict"] == largest_within_margin.BEYOND).any())
    return {"trend": trend, "beyond": beyond, "either": trend or beyond}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path, help="the tables of an experiment")
    parser.add_argument("--studies", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--processes", type=int, default=len(os.sched_getaffinity(0)))
    asked = parser.parse_args()
    runs, evaluations = (
        csv_tables.read(asked.folder / name) for name in ("runs.csv", "trajectories.csv")
    )
    found = verdicts(runs, evaluations, asked.studies, asked.seed, asked.processes)
    for kind, given in found.items():
        share = budgets.reached([0.0 if one else float("inf") for one in given])
        print(
            f"{kind}: {share.count} of {share.of} studies, {100 * share.count / share.of:.1f} % "
            f"[{100 * share.low:.1f}, {100 * share.high:.1f}]"
        )


if __name__ == "__main__":
    main()
