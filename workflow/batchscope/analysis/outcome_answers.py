"""The answers that an experiment gives: each outcome with its slope, its test and a verdict.

Runs are paired by seed: a seed fixes initial weights and data order at every batch size.
Directions are stated beforehand, in `outcomes` or by the study, each with its source.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from batchscope.analysis import run_series
from batchscope.catalogue import outcomes
from batchscope.catalogue.outcomes import FALLS, LEVEL, RISES, Outcome, seeds_needed

if TYPE_CHECKING:
    import pandas
from batchscope.analysis import intervals, paired_tests

STOPS = ("patience", "target_train_loss")  # factors that stop a training where they are above 0
# A training that ran all its epochs without being stopped gives no more than a lower bound.
_UNTIL_STOPPED = ("epochs_run", "train_seconds")
# Verdicts beside the directions.
ONE_SIZE = "one batch size"  # there is no other to compare it with
NOT_RESOLVED = "not resolved"
AGAINST = ", against what was stated"  # after the opposite direction, told by the slope's interval


def _outcomes(columns: list[str], claims: Mapping[str, Outcome]) -> list[Outcome]:
    """Returns what is asked about a frame's columns: the registry's, sharpness, claims, times."""
    asked = [claims.get(name) or outcomes.outcome(name) for name in columns]
    known = [item for item in asked if item]
    return [item for item in known if not item.timed] + [item for item in known if item.timed]


@dataclass(frozen=True)
class Pairs:
    """One outcome of one series, as seeds by batch sizes.

    Attributes:
        seeds: Every seed of the series.
        batch_sizes: Batch sizes at which at least one run gave a value, ascending.
        values: Shape (seeds, batch sizes); NaN where a run gave none.
        empty: Batch sizes at which no run gave a value.
    """

    seeds: list[int]
    batch_sizes: list[int]
    values: np.ndarray
    empty: list[int]

    @property
    def complete(self) -> np.ndarray:
        """The rows of seeds with a value at every batch size: all that is compared."""
        return self.values[np.isfinite(self.values).all(axis=1)]


def pair(rows: pandas.DataFrame, column: str) -> Pairs:
    """Returns an outcome as seeds by batch sizes; NaN where a run did not finish."""
    seeds = sorted(rows["seed"].unique().tolist())
    sizes = sorted(rows["batch_size"].unique().tolist())
    values = np.full((len(seeds), len(sizes)), intervals.NAN)
    # A timing job ran whatever became of the trainings; else only finished runs count.
    ran = rows["status"] == "finished"
    finished = rows if column == "seconds_per_epoch" else rows[ran]
    columns = (finished["seed"], finished["batch_size"], finished[column].astype(float))
    for seed, size, value in zip(*columns, strict=True):
        values[seeds.index(seed), sizes.index(size)] = value
    used = np.isfinite(values).any(axis=0)
    return Pairs(
        seeds,
        [size for size, keep in zip(sizes, used, strict=True) if keep],
        values[:, used],
        [size for size, keep in zip(sizes, used, strict=True) if not keep],
    )


def answers(
    frame: pandas.DataFrame, claims: Mapping[str, Mapping[str, Outcome]] | None = None
) -> list[dict[str, Any]]:
    """Returns what the runs say about every outcome of every series.

    Args:
        frame: The rows of runs.csv of one experiment, or of all experiments of a study, one
            below the other: Holm's adjustment runs over all that is passed. What two experiments
            ask of the same runs is one test.
        claims: Experiment -> column -> what the study states about it, in place of what is asked
            of every study.

    Returns:
        One mapping per experiment, outcome and series: `experiment`, `outcome` (column),
        `label`, `unit`, `series` (words; empty for the only one), `factors`, `smallest` and
        `largest` (batch size, value, low, high, n), `slope` per doubling (value, low, high),
        `change` from smallest to largest in pairs (value, low, high), `seeds`, `pairs`
        (complete ones), `batch_sizes`, `direction`, `source`, `test` (`page`, `paired_t` or
        None), `p`, `p_holm`, `seeds_needed` (for a verdict), `ran_out` (of outcomes that end
        with the training), `verdict` and `note`. Numbers that do not exist are None.
    """
    found: list[dict[str, Any]] = []
    tests: dict[Any, float] = {}  # by what they are of: each counts once
    keys = []
    experiments = frame["experiment"].unique() if "experiment" in frame else [None]
    for experiment in experiments:
        rows = frame if experiment is None else frame[frame["experiment"] == experiment]
        groups = run_series.series(rows)
        columns = [name for name in rows.columns if rows[name].notna().any()]
        for asked in _outcomes(columns, (claims or {}).get(experiment, {})):
            for group in groups:
                answer = _answer(asked, group)
                if answer:
                    bounds = ran_out(group.frame) if asked.column in _UNTIL_STOPPED else {}
                    found.append({"experiment": experiment, **answer, "ran_out": bounds})
                    keys.append(_tested(asked, group.frame) or len(keys))
                    tests[keys[-1]] = intervals.NAN if answer["p"] is None else answer["p"]
    adjusted = dict(zip(tests, paired_tests.holm(list(tests.values())), strict=True))
    count = sum(math.isfinite(p) for p in tests.values())
    for answer, key in zip(found, keys, strict=True):
        answer["p_holm"] = _number(adjusted[key])
        answer["seeds_needed"] = seeds_needed(len(answer["batch_sizes"]), count)
        answer["verdict"] = _verdict(answer)
        answer["note"] = _note(answer)
    return found


def _tested(asked: Outcome, rows: pandas.DataFrame) -> tuple[Any, ...]:
    """Returns what a test is of: an outcome, with its values, of certain runs of a machine."""
    if "run" not in rows:
        return ()
    machines = rows["machine"] if "machine" in rows else itertools.repeat("")
    values = rows[asked.column].astype(float).map(repr)  # two settings may share a column's name
    return (
        asked.column,
        asked.direction,
        frozenset(zip(machines, rows["run"], values, strict=False)),
    )


def _answer(asked: Outcome, group: run_series.Series) -> dict[str, Any] | None:
    pairs = pair(group.frame, asked.column)
    if not pairs.batch_sizes:
        return None
    if asked.column == "epochs_run" and epochs_chosen(group.frame):
        return None  # the horizon, not an outcome
    complete, seeds = pairs.complete, len(pairs.seeds)
    slope = change = intervals.t_interval([])
    test, p = None, intervals.NAN
    if len(pairs.batch_sizes) > 1 and len(complete):
        slope = intervals.t_interval(paired_tests.slopes_per_doubling(complete, pairs.batch_sizes))
        change = intervals.t_interval(complete[:, -1] - complete[:, 0])
        # Where nothing stopped any run, their epochs are lower bounds alone.
        bounds = asked.column == "epochs_run" and all_ran_out(group.frame)
        if not (asked.timed or bounds):
            test, p = _trend(complete, asked.direction)
    if asked.timed:
        # Seeds share their configuration's timing: an interval over them would be false.
        slope, change = (
            intervals.Interval(item.mean, intervals.NAN, intervals.NAN, item.n)
            for item in (slope, change)
        )
    return {
        "outcome": asked.column,
        "label": asked.label,
        "unit": asked.unit,
        "series": group.label,
        "factors": group.factors,
        "smallest": _end(group.frame, asked, pairs, 0),
        "largest": _end(group.frame, asked, pairs, -1),
        "slope": _interval(slope),
        "change": _interval(change),
        "seeds": seeds,
        "pairs": len(complete),
        "batch_sizes": pairs.batch_sizes,
        "empty_batch_sizes": pairs.empty,
        "direction": asked.direction,
        "source": asked.source,
        "timed": asked.timed,
        "test": test,
        "p": _number(p),
    }


def all_ran_out(rows: pandas.DataFrame) -> bool:
    """Returns whether some runs finished, and all of them after all their epochs.

    Rows hold `epochs_run` and `epochs`.
    """
    finished = rows[rows["status"] == "finished"]
    return bool(len(finished) and (finished["epochs_run"] == finished["epochs"]).all())


def epochs_chosen(rows: pandas.DataFrame) -> bool:
    """Returns whether all finished runs ran all their epochs since nothing could stop them."""
    return all_ran_out(rows) and not unstopped(rows).any()


def unstopped(rows: pandas.DataFrame) -> pandas.Series:
    """Returns which finished runs ran all their epochs though something could have stopped them.

    Where nothing could, the epochs were chosen. Rows hold `epochs_run` and `epochs`.
    """
    ran = (rows["status"] == "finished") & (rows["epochs_run"] == rows["epochs"]).fillna(False)
    rules = [name for name in STOPS if name in rows]
    return ran & (rows[rules] > 0).any(axis=1)


def ran_out(rows: pandas.DataFrame) -> dict[int, tuple[int, int]]:
    """Returns batch size -> how many of how many finished runs of a series were not stopped.

    Batch sizes without any are left out.
    """
    finished = rows[rows["status"] == "finished"]
    counts = unstopped(finished).groupby(finished["batch_size"]).agg(["sum", "count"])
    found = zip(counts.index, counts["sum"], counts["count"], strict=True)
    return {int(size): (int(some), int(all_)) for size, some, all_ in found if some}


def ran_out_words(found: dict[int, tuple[int, int]]) -> str:
    """Returns `3 of 6 runs at batch size 256 ran ...` of what `ran_out` returned."""
    told = [f"{some} of {all_} at batch size {size}" for size, (some, all_) in found.items()]
    if not told:
        return ""
    told[0] = told[0].replace(" at ", " runs at ", 1)
    return f"{', '.join(told)} ran to the last epoch that they may"


def _trend(complete: np.ndarray, direction: str) -> tuple[str | None, float]:
    """Returns the test's name and its p: Page's for three sizes or more, a t-test for two."""
    if len(complete) < 2:
        return None, intervals.NAN
    if complete.shape[1] > 2:
        return "page", paired_tests.page_trend(complete, direction)
    return "paired_t", float(paired_tests.paired_t(complete[:, 1] - complete[:, 0], direction))


def _end(rows: pandas.DataFrame, asked: Outcome, pairs: Pairs, index: int) -> dict[str, Any]:
    size = pairs.batch_sizes[index]
    interval = intervals.t_interval(pairs.values[:, index])
    if asked.timed:
        interval = _quartiles(rows[rows["batch_size"] == size], asked.column, interval)
    return {"batch_size": int(size), **_interval(interval), "n": interval.n}


def _quartiles(
    rows: pandas.DataFrame, column: str, interval: intervals.Interval
) -> intervals.Interval:
    """Returns the value with the timing job's quartiles where the frame holds them."""
    low, high = f"{column}_q1", f"{column}_q3"
    if low not in rows or high not in rows:
        return intervals.Interval(interval.mean, intervals.NAN, intervals.NAN, interval.n)
    return intervals.Interval(
        interval.mean, float(rows[low].mean()), float(rows[high].mean()), interval.n
    )


def _interval(interval: intervals.Interval) -> dict[str, float | None]:
    return {
        "value": _number(interval.mean),
        "low": _number(interval.low),
        "high": _number(interval.high),
    }


def _number(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None


def _verdict(answer: dict[str, Any]) -> str:
    if answer["timed"]:
        return "not tested"
    if len(answer["batch_sizes"]) < 2:
        return ONE_SIZE
    if answer["pairs"] < answer["seeds_needed"]:
        return f"not enough seeds ({answer['pairs']} of {answer['seeds_needed']})"
    if answer["p_holm"] is None:
        return NOT_RESOLVED  # bounds alone
    if answer["p_holm"] < LEVEL:
        return answer["direction"]
    low, high = answer["slope"]["low"], answer["slope"]["high"]
    opposite, beyond = (FALLS, high < 0) if answer["direction"] == RISES else (RISES, low > 0)
    return f"{opposite}{AGAINST}" if beyond else NOT_RESOLVED


def _note(answer: dict[str, Any]) -> str:
    """Returns what a reader must know beside the verdict, or an empty string."""
    notes = []
    if answer["timed"]:
        notes.append("timed once per configuration, so seeds give it no interval")
    if answer["empty_batch_sizes"]:
        sizes = ", ".join(str(size) for size in answer["empty_batch_sizes"])
        notes.append(f"no finished run at batch size {sizes}")
    if answer["ran_out"]:
        notes.append(f"{ran_out_words(answer['ran_out'])}, so that its mean is a lower bound")
    some_failed = answer["pairs"] < answer["seeds"]
    if some_failed and len(answer["batch_sizes"]) > 1 and not answer["timed"]:
        notes.append(f"{answer['pairs']} of {answer['seeds']} seeds finished at every batch size")
    return "; ".join(notes)
