"""External runs: logs that exist already, read and checked, in our tables' columns."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import pandas

from batchscope import problems, wording
from batchscope.errors import UserError, raise_problems
from batchscope.external import cells, files, log_checks, log_factors, numbers
from batchscope.external.cells import LogCells
from batchscope.study import own_columns, tasks
from batchscope.study.log_columns import RATE
from batchscope.study.log_source import Source
from batchscope.study.own_columns import AXES, LEAST_SIZES, LOSSES, of_metrics, outcomes
from batchscope.study.run_factors import FALLING

DIVERGED, FINISHED, OFF_TARGET = "diverged", "finished", "off_target"
_RUN = ["batch_size", "seed"]
# The most over the fewest examples of single rows at one budget: updates are whole, and an
# epoch's last batch may be padded or smaller.
_ROUNDED, _SAME_BUDGET = 1.01, 1.05
_MOST_SHOWN = 5  # logs in a note


@dataclass(frozen=True)
class ExternalRuns:
    """Runs that were made elsewhere."""

    path: str  # as the study names it: a file or a pattern
    cells: LogCells
    # One per evaluation, run by run in order of updates, under the names of our tables: `run`,
    # `machine`, batch size, seed, `factors`, `status`, what was used and evaluated; and as
    # `at_target` whether the single row of its run is its target.
    rows: pandas.DataFrame
    factors: tuple[str, ...]  # columns that may distinguish series
    notes: tuple[str, ...]  # what was understood otherwise than it is written

    @cached_property
    def sha256(self) -> str:
        return self.cells.sha256

    @property
    def single(self) -> bool:
        return not self.rows["run"].duplicated().any()

    @property
    def at_targets(self) -> bool:
        return bool(self.rows["at_target"].any())

    @cached_property
    def distinguishing(self) -> list[str]:
        """The factors that distinguish series: no number that follows from the others."""
        kept = [name for name in self.factors if self.rows[name].nunique() > 1]
        for name in [each for each in kept if _numeric(self.rows[each])]:
            others = ["batch_size", *(each for each in kept if each != name)]
            if not self.rows[[*others, name]].drop_duplicates().duplicated(others).any():
                kept.remove(name)
        return kept

    @property
    def tasks(self) -> tuple[str, ...]:
        return tasks.of_columns(self.rows)

    @property
    def rates(self) -> tuple[float, ...]:
        tried = RATE in self.distinguishing and _numeric(self.rows[RATE])
        return tuple(sorted(self.rows[RATE].unique().tolist())) if tried else ()

    @cached_property
    def series(self) -> list[pandas.DataFrame]:
        names = [name for name in self.distinguishing if name != RATE]
        return [rows for _, rows in self.rows.groupby(names, sort=False)] if names else [self.rows]

    @property
    def schedule(self) -> str:
        """A schedule that falls towards the horizon, so that runs are read at their ends alone.

        Empty where there is none, and where the single row of each run is its target.
        """
        found = [] if self.at_targets or "schedule" not in self.rows else self.rows["schedule"]
        return next((each for each in found if each in FALLING), "")

    def filled(self, column: str) -> bool:
        return column in self.rows and bool(self.rows[column].notna().any())


def _numeric(values: pandas.Series) -> bool:
    return values.dtype.kind in "if"


def read(source: Source, folder: Path | str = ".") -> ExternalRuns:
    """Reads external runs from logs, whose paths are seen from a folder.

    Columns: `batch_size`, `seed`, `updates`, `examples` or `epoch`; `seconds` where they are known;
    any of the losses and metrics. `run` is passed over, and `status` says what became of a run.
    What else there is may distinguish series; see `external_factors`. A run has a row per
    evaluation, or a single one: at its target, or at a budget that is equal for its series.

    Raises:
        ConfigError: If the logs are not such runs; with every problem, at its place.
        UserError: If a log is missing or cannot be read, or leaves a question open.
    """
    found = cells.gather(source, Path(folder))
    raise_problems(log_checks.of_names(found))
    rows = numbers.read(found)
    if assumed := "seed" not in rows:
        rows["seed"] = 0
    factors, notes = log_factors.choose(found, rows)
    rows = rows.assign(**factors)
    rows["order"] = rows.groupby([*_RUN, *factors], sort=False).ngroup()
    rows, note = numbers.counted_from_zero(found, rows, rows["order"], source.examples_per_epoch)
    rows = numbers.completed(found, rows, source.examples_per_epoch)
    raise_problems(log_checks.no_seed(found, rows) if assumed else ())
    raise_problems(log_checks.twice(found, rows))
    begun = rows["order"].groupby(found.places["log"]).unique().explode()
    rows = _evaluations(found, rows)
    lost = [found.logs[log].path for log, run in begun.items() if run not in {*rows["order"]}]
    if lost:
        shown = ", ".join(lost[:_MOST_SHOWN]) + " ..." * (len(lost) > _MOST_SHOWN)
        count = wording.count(len(lost), "log")
        notes.append(f"{count} without any loss or metric left out: {shown}")
    path = ", ".join(files.located(os.path.join(folder, each)) for each in source.files)
    path = found.files[0] if len(found.files) == len(source.files) == 1 else path
    names = _run_names(found, rows[[*_RUN, *factors]])
    rows.insert(0, "machine", own_columns.ELSEWHERE)
    rows.insert(0, "run", names)
    rows["status"] = _statuses(rows)
    raise_problems(log_checks.repeated(found, rows))
    raise_problems([*log_checks.backwards(found, rows), *log_checks.disagreeing(found, rows)])
    raise_problems(log_checks.of_epochs(found, rows, source.examples_per_epoch))
    raise_problems([*log_checks.without_end(found, rows), *log_checks.identical(found, rows)])
    runs = ExternalRuns(path, found, rows, tuple(factors), ())
    rows["at_target"], at_budgets = False, []
    for each in runs.series if runs.single else ():
        used = _budget(each, found.place)
        at_budgets += [used] if used else []
        rows.loc[each.index, "at_target"] = not used
    raise_problems(_few_sizes(runs))
    notes += [note] if note else []
    notes += ["no seed: of each batch size there is one training, seed 0"] if assumed else []
    if at_budgets:
        shown = wording.listed(dict.fromkeys(at_budgets))
        notes.append(f"single rows at equal budgets ({shown}): compared there, and no targets")
    rows = rows.drop(columns=["order", numbers.STATED])
    return dataclasses.replace(runs, rows=rows, notes=tuple(notes))


def _evaluations(found: LogCells, rows: pandas.DataFrame) -> pandas.DataFrame:
    """Returns rows run by run in order of updates, without those that only say how a run ended.

    Raises:
        ConfigError: With the rows that do not say how much was used.
    """
    by_run = rows.groupby("order")
    stated = rows[numbers.STATED].where(lambda texts: texts != "")
    rows = rows.assign(
        **{numbers.STATED: stated.groupby(rows["order"]).transform("last").fillna("")}
    )
    alone = by_run["order"].transform("size") == 1
    evaluated = [name for name in outcomes() if name in rows]
    if not evaluated and not alone.all():
        raise UserError(
            f"{found.place(0)}: no loss or metric: not in the columns "
            f"{cells.listed(found.logs[0].rows)}; name one by "
            "`columns: {validation_loss: ...}`, or give a single row of each run, at its target."
        )
    nothing = rows[evaluated].isna().all(axis=1)
    kinds = pandas.Series([each.format for each in found.logs])
    table = found.places["log"].map(kinds).eq("csv")
    over = ~alone & nothing & (rows["updates"].isna() | ~table)
    rows, alone = rows[~over], alone[~over]
    axes = [name for name in AXES if name in found.table and name in rows]
    wrong = []
    for row in rows.index[rows["updates"].isna() & ~alone]:
        name = next(name for name in ("updates", "examples", "epoch") if name in found.table)
        shown = problems.show(found.table.at[row, name])
        text = f"{found.place(row)}, {found.name(row, name)}: received {shown}; "
        wrong.append(f"{text}a number from 0 on is expected.")
    used = rows.loc[alone, axes].isna()
    for row, empty in used[used.any(axis=1) & ~used.all(axis=1)].iterrows():
        text = f"{found.place(row)}, {found.name(row, empty.idxmax())}: received nothing, but a "
        wrong.append(f"{text}number of another of {wording.listed(axes)}; all or none is expected.")
    raise_problems(wrong)
    return rows.sort_values(["order", "updates"], kind="stable")


def _run_names(found: LogCells, identity: pandas.DataFrame) -> list[str]:
    names = [name.removeprefix(own_columns.OWN) for name in identity]
    stem = Path(found.files[0]).stem if len(found.files) == 1 else "runs"
    first = f"{stem}-{found.sha256[:8]}"
    return [
        "+".join([first, *(f"{name}={each}" for name, each in zip(names, row, strict=True))])
        for row in identity.itertuples(index=False)
    ]


def _statuses(rows: pandas.DataFrame) -> pandas.Series:
    """Returns what became of each row's run: as its last row states, else as its losses say."""
    losses = rows.reindex(columns=(*LOSSES, *of_metrics(tasks.USER_METRICS))).astype(float)
    known, infinite = losses.notna().any(axis=1), np.isinf(losses).any(axis=1)
    last = infinite[known].groupby(rows["run"]).last()
    diverged = rows["run"].isin(last.index[last])
    found = pandas.Series(np.where(diverged, DIVERGED, FINISHED), rows.index)
    by_run = rows.groupby("run", sort=False)
    never = by_run["updates"].transform(lambda updates: updates.iloc[-1:].isna().all())
    stated = rows[numbers.STATED]
    return found.mask(never, OFF_TARGET).mask(stated != "", stated)


def _budget(rows: pandas.DataFrame, place: Callable[[int], str]) -> str:
    """Returns the budget at which the single rows of a series stand, in words; of targets nothing.

    Raises:
        UserError: If all used the same, and nothing else of them is known.
    """
    known = rows[rows["updates"].notna()]
    if known["batch_size"].nunique() < 2:
        return ""
    epochs = "epoch" in known and known["epoch"].nunique(dropna=False) == 1
    low, high = known["examples"].min(), known["examples"].max()
    outcome = next(
        (name for name in outcomes() if name in rows and known[name].notna().all()), None
    )
    if outcome is None:
        equal = epochs or low == high
    else:
        losses = known[outcome]
        rounded = high - low <= known["batch_size"].max() and high <= _ROUNDED * low
        apart = losses.max() > log_factors.SAME_LOSS * losses.min()
        equal = epochs or rounded or (apart and high <= _SAME_BUDGET * low)
    if not equal:
        return ""
    used = f"{wording.grouped(low)} examples"
    if epochs:
        used = f"{wording.shortest(known['epoch'].iloc[0])} epochs"
    if outcome is None and not ("seconds" in known and known["seconds"].notna().all()):
        raise UserError(
            f"{place(known.index[0])}: received {used} in the single row of every run, which is "
            "read as the one at its target; a row per evaluation is expected, or the row at "
            "which each run reached the target."
        )
    return used


def _few_sizes(runs: ExternalRuns) -> Iterator[str]:
    """Yields that no series holds enough batch sizes."""
    if any(rows["batch_size"].nunique() >= LEAST_SIZES for rows in runs.series):
        return
    sizes = sorted(runs.rows["batch_size"].unique().tolist())
    if len(sizes) < LEAST_SIZES:
        yield (
            f"{runs.path}, batch_size: received {wording.listed(map(str, sizes))}; at least "
            f"{LEAST_SIZES} different batch sizes are expected."
        )
        return
    shown = (name.removeprefix(own_columns.OWN) for name in runs.distinguishing if name != RATE)
    names, missing = [*shown], [name for name in numbers.KNOWN if name not in runs.rows]
    near = {name: problems.nearest(name, missing) for name in names}
    hints = "".join(f" Is '{name}' {known}?" for name, known in near.items() if known)
    yield (
        f"{runs.path}: received {len(runs.series)} series, distinguished by "
        f"{wording.listed(map(problems.clip, names))}, none with {LEAST_SIZES} batch sizes; series "
        f"of at least {LEAST_SIZES} are expected. Leave out columns that are measured or differ "
        f"between seeds.{hints}"
    )
