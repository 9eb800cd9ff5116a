"""The answers that an experiment gives: each outcome with its slope, its test and a verdict.

Runs are paired by seed: a seed fixes initial weights and data order at every batch size.
Directions are stated beforehand, in `outcomes` or by the study, each with its source.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from batchscope import wording
from batchscope.analysis import intervals, paired_tests, run_series
from batchscope.analysis.intervals import Interval
from batchscope.catalogue import outcomes
from batchscope.catalogue.outcomes import FALLS, LEVEL, RISES, Outcome, seeds_needed
from batchscope.store import records

if TYPE_CHECKING:
    import pandas

STOPS = ("patience", "target_train_loss")  # factors that stop a training where they are above 0
# A training that ran all its epochs without being stopped gives no more than a lower bound.
_UNTIL_STOPPED = ("epochs_run", "train_seconds")
_TIMED = "seconds_per_epoch"  # of a timing job, and not of a training
_MOST_LENGTHS = 3  # batch sizes whose epochs are listed one by one
# Verdicts beside the directions.
ONE_SIZE = "one batch size"  # there is no other to compare it with
NOT_RESOLVED = "not resolved"
FEW_SEEDS = "not enough seeds"  # and in brackets how many of how many
AGAINST = ", against what was stated"  # after the opposite direction
_OPPOSITE = {RISES: FALLS, FALLS: RISES}


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
    # A timing job ran whatever became of the trainings; else only finished runs count.
    finished = rows if column == _TIMED else run_series.finished(rows)
    finished = finished.astype({column: float}).drop_duplicates(["seed", "batch_size"], keep="last")
    table = finished.pivot(index="seed", columns="batch_size", values=column)
    values = table.reindex(index=seeds, columns=sizes).to_numpy(float)
    used = np.isfinite(values).any(axis=0)
    kept, empty = (list(itertools.compress(sizes, which)) for which in (used, ~used))
    return Pairs(seeds, kept, values[:, used], empty)


class End(NamedTuple):
    """An outcome, its mean over seeds, at one end of a series' batch sizes."""

    batch_size: int
    interval: Interval


class Test(NamedTuple):
    """The test of one outcome; its numbers are NaN where nothing is tested.

    Attributes:
        name: `page`, `paired_t`, or None where nothing is tested.
        p_against: That of the opposite direction.
        p_holm: p, adjusted over all that was passed; `p_against_holm` likewise.
    """

    name: str | None
    p: float
    p_against: float
    p_holm: float = math.nan
    p_against_holm: float = math.nan


@dataclass(frozen=True)
class Answer:
    """What the runs of one series say about one outcome. Numbers that do not exist are NaN.

    Attributes:
        experiment: Name of the experiment; None in a frame without the column.
        series: Words for the series; empty for the only one.
        held: What was equal at all batch sizes, as `held` returns it.
        slope: Change per doubling of the batch size, in pairs.
        pairs: How many seeds have a value at every batch size.
        verdict: `rises`, `falls`, or why neither is reported.
        note: What a reader must know beside the verdict, or an empty string.
    """

    experiment: str | None
    outcome: Outcome
    series: str
    held: str
    smallest: End
    largest: End
    slope: Interval
    pairs: int
    test: Test
    verdict: str
    note: str


class _Asked(NamedTuple):
    """One outcome of one series of an experiment, with its test before any adjustment."""

    experiment: str | None
    outcome: Outcome
    group: run_series.Series
    pairs: Pairs
    test: Test


def answers(
    frame: pandas.DataFrame, claims: Mapping[str, Mapping[str, Outcome]] | None = None
) -> list[Answer]:
    """Returns what the runs say about every outcome of every series.

    Args:
        frame: The rows of runs.csv of one experiment, or of all experiments of a study, one
            below the other: Holm's adjustment runs over all that is passed. What two experiments
            ask of the same runs is one test.
        claims: Experiment -> column -> what the study states about it, in place of what is asked
            of every study.
    """
    found: list[tuple[Any, _Asked]] = []
    experiments = frame["experiment"].unique() if "experiment" in frame else [None]
    for experiment in experiments:
        rows = frame if experiment is None else frame[frame["experiment"] == experiment]
        groups = run_series.series(rows)
        stated = (claims or {}).get(experiment, {})
        columns = [name for name in rows.columns if rows[name].notna().any()]
        every = filter(None, (stated.get(name) or outcomes.outcome(name) for name in columns))
        for outcome, group in itertools.product(every, groups):
            if asked := _asked(experiment, outcome, group):
                found.append((_tested(outcome, group.frame) or len(found), asked))
    tests = dict(found)  # by what they are of: each counts once
    p = [asked.test.p for asked in tests.values()]
    against = [asked.test.p_against for asked in tests.values()]
    adjusted = zip(paired_tests.holm(p).tolist(), paired_tests.holm(against).tolist(), strict=True)
    both = dict(zip(tests, adjusted, strict=True))
    count = sum(map(math.isfinite, p))
    return [_answer(asked, Test(*asked.test[:3], *both[key]), count) for key, asked in found]


def _tested(outcome: Outcome, rows: pandas.DataFrame) -> tuple[Any, ...]:
    """Returns what a test is of: an outcome, with its values, of certain runs of a machine.

    A timing job is of a configuration, which several runs share that train differently.
    """
    if "run" not in rows:
        return ()
    of = ["batch_size", "seed"] if outcome.column == _TIMED else ["run"]
    machines = rows["machine"] if "machine" in rows else itertools.repeat("")
    values = rows[outcome.column].astype(float).map(repr)  # two settings may share a column's name
    return (
        outcome.column,
        outcome.direction,
        frozenset(zip(machines, *(rows[name] for name in of), values, strict=False)),
    )


def _asked(experiment: str | None, outcome: Outcome, group: run_series.Series) -> _Asked | None:
    pairs = pair(group.frame, outcome.column)
    if not pairs.batch_sizes:
        return None
    if outcome.column == "epochs_run" and epochs_chosen(group.frame):
        return None  # the horizon, not an outcome
    # Where nothing stopped any run, epochs and times are lower bounds alone.
    stoppable = outcome.column in _UNTIL_STOPPED and not epochs_chosen(group.frame)
    bounds = stoppable and all_ran_out(group.frame)
    tested = len(pairs.batch_sizes) > 1 and not bounds
    (test, p), (_, against) = [
        _trend(pairs, way) if tested else (None, math.nan)
        for way in (outcome.direction, _OPPOSITE[outcome.direction])
    ]
    return _Asked(experiment, outcome, group, pairs, Test(test, p, against))


def _answer(asked: _Asked, test: Test, tests: int) -> Answer:
    """Returns the answer by a test whose p-values are adjusted, one of so many."""
    outcome, rows, pairs = asked.outcome, asked.group.frame, asked.pairs
    needed = seeds_needed(len(pairs.batch_sizes), tests)
    bounds = ran_out(rows) if outcome.column in _UNTIL_STOPPED else {}
    return Answer(
        experiment=asked.experiment,
        outcome=outcome,
        series=asked.group.label,
        held=held(rows),
        smallest=_end(pairs, 0),
        largest=_end(pairs, -1),
        slope=_slope(pairs),
        pairs=len(pairs.complete),
        test=test,
        verdict=_verdict(outcome, pairs, needed, test),
        note=_note(outcome, pairs, bounds),
    )


def held(rows: pandas.DataFrame) -> str:
    """Returns what the finished runs of a series have in common where their trainings ended.

    Which batch size is better depends on it: `at equal epochs (40)`, `at equal updates (900)`, `at
    an equal training loss (0.1)`, or `at each run's own end`, with how long that is: `(10 epochs at
    batch size 16, 40 at 256)`, or `(patience 10, 12 to 88 epochs)`.
    """
    finished = run_series.finished(rows)
    ends = {
        "at an equal training loss": "target_train_loss",
        "at equal epochs": "epochs_run",
        "at equal updates": "steps_run",
    }
    for words, column in ends.items():
        values = finished[column].dropna().unique() if column in finished else ()
        if len(values) == 1 and values[0] > 0:
            return f"{words} ({wording.shortest(float(values[0]))})"
    values = finished["patience"].unique() if "patience" in finished else ()
    # It could stop all of the runs alike.
    patience = f"patience {values[0]:.0f}" if len(values) == 1 and values[0] > 0 else ""
    how_long = ", ".join(filter(None, [patience, _lengths(finished)]))
    return f"at each run's own end{f' ({how_long})' if how_long else ''}"


def _lengths(finished: pandas.DataFrame) -> str:
    """Returns how long runs of different length are; by batch size where that is short."""
    for name, column in (("epoch", "epochs_run"), ("update", "steps_run")):
        if column not in finished or finished.empty or finished[column].isna().any():
            continue
        lengths = finished.groupby("batch_size")[column].agg(["min", "max"]).astype(int)
        if (lengths["min"] < lengths["max"]).any() or len(lengths) > _MOST_LENGTHS:
            return f"{lengths['min'].min()} to {wording.count(int(lengths['max'].max()), name)}"
        first, *rest = lengths["max"].items()
        parts = [f"{wording.count(first[1], name)} at batch size {first[0]}"]
        return ", ".join([*parts, *(f"{length} at {size}" for size, length in rest)])
    return ""


def _slope(pairs: Pairs) -> Interval:
    """Returns the change per doubling of the batch size."""
    complete = pairs.complete
    if len(pairs.batch_sizes) < 2 or not len(complete):
        return Interval()
    return intervals.t_interval(paired_tests.slopes_per_doubling(complete, pairs.batch_sizes))


def all_ran_out(rows: pandas.DataFrame) -> bool:
    """Returns whether some runs finished, and all of them after all their epochs."""
    finished = run_series.finished(rows)
    return bool(len(finished) and (finished["epochs_run"] == finished["epochs"]).all())


def epochs_chosen(rows: pandas.DataFrame) -> bool:
    """Returns whether all finished runs ran all their epochs since nothing could stop them."""
    return all_ran_out(rows) and not unstopped(rows).any()


def unstopped(rows: pandas.DataFrame) -> pandas.Series:
    """Returns which finished runs ran all their epochs though something could have stopped them."""
    ran = rows["status"].eq(records.FINISHED) & (rows["epochs_run"] == rows["epochs"]).fillna(False)
    rules = [name for name in STOPS if name in rows]
    return ran & (rows[rules] > 0).any(axis=1)


def ran_out(rows: pandas.DataFrame) -> dict[int, tuple[int, int]]:
    """Returns batch size -> how many of how many finished runs of a series were not stopped.

    Batch sizes without any are left out.
    """
    finished = run_series.finished(rows)
    counts = unstopped(finished).groupby(finished["batch_size"]).agg(["sum", "count"])
    found = zip(counts.index, counts["sum"], counts["count"], strict=True)
    return {int(size): (int(some), int(all_)) for size, some, all_ in found if some}


def ran_out_words(found: dict[int, tuple[int, int]]) -> str:
    """Returns `3 of 6 runs at batch size 256 ran ...` of what `ran_out` returned."""
    parts = [f"{some} of {all_} at batch size {size}" for size, (some, all_) in found.items()]
    words = ", ".join(parts).replace(" at ", " runs at ", 1)
    return f"{words} ran to the last epoch that they may" if parts else ""


def _trend(pairs: Pairs, direction: str) -> tuple[str | None, float]:
    """Returns the test's name and its p: Page's for three sizes or more, a t-test for two."""
    complete = pairs.complete
    if len(complete) < 2:
        return None, math.nan
    if complete.shape[1] > 2:
        return "page", paired_tests.trend(complete, pairs.batch_sizes, direction)
    return "paired_t", float(paired_tests.paired_t(complete[:, 1] - complete[:, 0], direction))


def _end(pairs: Pairs, index: int) -> End:
    size = pairs.batch_sizes[index]
    return End(int(size), intervals.t_interval(pairs.values[:, index]))


def _verdict(outcome: Outcome, pairs: Pairs, needed: int, test: Test) -> str:
    if len(pairs.batch_sizes) < 2:
        return ONE_SIZE
    if len(pairs.complete) < needed:
        return f"{FEW_SEEDS} ({len(pairs.complete)} of {needed})"
    if test.p_holm < LEVEL:
        return outcome.direction
    if test.p_against_holm < LEVEL:
        return f"{_OPPOSITE[outcome.direction]}{AGAINST}"
    return NOT_RESOLVED


def _note(outcome: Outcome, pairs: Pairs, bounds: dict[int, tuple[int, int]]) -> str:
    """Returns what a reader must know beside the verdict, or an empty string."""
    notes = []
    if pairs.empty:
        notes.append(f"no finished run at batch size {', '.join(map(str, pairs.empty))}")
    if bounds:
        notes.append(f"{ran_out_words(bounds)}, so that its mean is a lower bound")
    complete, seeds = len(pairs.complete), len(pairs.seeds)
    if complete < seeds and len(pairs.batch_sizes) > 1:
        notes.append(f"{complete} of {seeds} seeds finished at every batch size")
    return "; ".join(notes)
