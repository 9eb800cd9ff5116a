"""What documents state, as `claims` has it: each with the test that the runs put it to."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from batchscope import wording
from batchscope.catalogue import (
    command_names,
    figures,
    own_columns,
    run_factors,
    run_names,
    tables,
    tasks,
)
from batchscope.catalogue.entries import REPEATS
from batchscope.catalogue.figures import FIGURES
from batchscope.catalogue.outcomes import FALLS, LEAST_SEEDS
from batchscope.catalogue.readers import expected, number, plain, read_items
from batchscope.catalogue.registry import OF_OUTCOMES
from batchscope.catalogue.run_factors import EVERY_FACTOR
from batchscope.catalogue.tables import CLAIMED as TABLES
from batchscope.problems import Findings, Place, Problem, received, unknown
from batchscope.study import horizons, messages
from batchscope.study.claim_models import DIFFERENCE, RATIO, ClaimKeys, TestKeys

if TYPE_CHECKING:
    from batchscope.study.plan import Experiment

_SHOWN = 6  # claims that a warning names
_BOUNDED = ("value", "comparison", "interaction")
_AS_GIVEN = ("type", "experiment", "table", "column", "over", "direction", "best", "scale")
_POSITIONS = {"trend": 2, "equivalence": 2, "interaction": 2, "argmax": 2, "exception": 3}

Cells = dict[str, tuple[Any, ...]]
Grid = list[dict[str, Any]]  # the factors of every cell of an experiment
Known = Mapping[str, Callable[[Any], Any]]  # what cells may name -> what reads a value of it


@dataclass(frozen=True)
class Test:
    """How a claim is tested.

    Attributes:
        cells: Factor or key -> the values to which the rows are restricted.
        over: The factor along which a trend, a best value and so on are sought.
        chosen: Values of `over`: stated to be best, or to be exceptions.
        sides: Cells of both sides of a comparison or an interaction, the first less the other; or
            of the groups of an order, from the lowest to the highest.
        scale: `difference`, or `ratio` for values that are compared on a logarithmic scale.
    """

    type: str
    experiment: str
    column: str
    table: str = "runs"
    cells: Cells = field(default_factory=dict)
    over: str = "batch_size"
    direction: str = ""
    best: str = "highest"
    chosen: tuple[Any, ...] = ()
    sides: tuple[Cells, ...] = ()
    low: float = -math.inf
    high: float = math.inf
    scale: str = DIFFERENCE

    @property
    def timed(self) -> bool:
        return self.table in tables.OF_TIMINGS

    @property
    def file(self) -> str:
        return self.table

    @property
    def asked(self) -> str:
        """The experiment of whose every series it states a trend over batch sizes; or empty."""
        whole = self.type == "trend" and self.table == "runs" and not self.cells
        return self.experiment if whole and self.over == "batch_size" else ""

    @property
    def ratio(self) -> bool:
        return self.scale == RATIO or self.type == "exception"

    @property
    def bounds(self) -> tuple[float, float]:
        """Where it states a slope, a value, a difference or a ratio to lie."""
        if self.type in (*_BOUNDED, "equivalence"):
            return self.low, self.high
        falls = self.best == "lowest" if self.type == "argmax" else self.direction == FALLS
        none = 1.0 if self.ratio else 0.0
        return (-math.inf, none) if falls else (none, math.inf)

    @property
    def budget(self) -> dict[str, Any]:
        """The budget at which trajectories are read; of other tables none."""
        budgets = tables.BUDGETS if self.table == "trajectories" else ()
        fixed = {name: self.cells.get(name, ()) for name in budgets}
        return {name: values[0] for name, values in fixed.items() if len(values) == 1}

    @property
    def compared(self) -> list[tuple[Cells, ...]]:
        if self.type == "order":
            return [(upper, lower) for lower, upper in itertools.pairwise(self.sides)]
        return [self.sides or ({},)]

    def selections(self) -> Iterator[Cells]:
        named = ({self.over: self.chosen},) if self.chosen else ()
        for side in (*(self.sides or ({},)), *named):
            yield {**self.cells, **side}


@dataclass(frozen=True)
class Claim:
    """A checkable sentence of a document.

    Attributes:
        id: Its name in claims.csv.
        place: Where it stands in the document.
        requires: `gpu` or `machine` where it can be tested only with a GPU, or with the results of
            a second machine; else empty.
        figure: The figure of the experiment that shows it; empty where none does.
    """

    id: str
    document: str
    place: str
    sentence: str
    test: Test
    requires: str = ""
    figure: str = ""


def read(
    findings: Findings,
    stated: Iterable[ClaimKeys],
    experiments: Mapping[str, Experiment],
    machines: tuple[str, ...],
    training_sizes: Mapping[str, int | None],
) -> tuple[Claim, ...]:
    """Returns the sound claims of a study; reports and warns of all else.

    Args:
        stated: What the file states.
        training_sizes: Data set -> training examples, None where only the files know.
    """
    found: dict[str, Claim] = {}
    for index, keys in enumerate(stated):
        at = ("claims", index)
        if keys.id in found:
            text = f"received '{keys.id}' again; every id once is expected."
            findings.report(Problem((*at, "id"), text))
        if test := _test(findings, (*at, "test"), keys.test, experiments):
            figure = _figure(findings, at, keys.figure, experiments[test.experiment], test)
            words = (keys.id, keys.document, keys.place, keys.sentence)
            found[keys.id] = Claim(*words, test, keys.requires, figure)
    claims = tuple(found.values())
    stated_of = {claim.test.experiment for claim in claims}
    grids = {name: _grid(experiments[name], machines) for name in stated_of}
    lacking, few = {}, {}
    for claim in claims:
        test, of = claim.test, f"experiments.{claim.test.experiment}"
        grid, experiment = grids[test.experiment], experiments[test.experiment]
        why = "" if claim.requires else _lacks(test, grid)
        if not (why or claim.requires or experiment.commands):
            why = _beyond(test, grid, training_sizes)
        lacking[claim.id] = why and f"{of} has {why}; it is expected by"
        seeds, least = _too_few(test, experiment), f"at least {LEAST_SEEDS} are expected"
        few[claim.id] = seeds and f"received {seeds} in {of}; {least} for a verdict on"
    _warn(findings, lacking)
    _warn(findings, few)
    return claims


def _warn(findings: Findings, why: Mapping[str, str]) -> None:
    """Warns of every reason once, with the claims that have it."""
    claims: dict[str, list[str]] = {}
    for name, text in why.items():
        claims.setdefault(text, []).append(name)
    claims.pop("", None)
    for text, names in claims.items():
        more = [f"{len(names) - _SHOWN} more"] if len(names) > _SHOWN else []
        listed = wording.listed([*names[:_SHOWN], *more])
        findings.warn(Problem(("claims",), f"{text} {listed}."))


def _test(
    findings: Findings, place: Place, keys: TestKeys, experiments: Mapping[str, Experiment]
) -> Test | None:
    """Returns a test, or None where something in it is reported."""
    before, name = len(findings.problems), keys.experiment
    if name not in experiments or experiments[name].own.path:
        here = [one for one, found in experiments.items() if not found.own.path]
        text = "an experiment that trains or times here" if name in experiments else "an experiment"
        choices = here if name in experiments else experiments
        findings.report(received((*place, "experiment"), name, text, choices))
        return None
    given = {key: getattr(keys, key) for key in _AS_GIVEN if hasattr(keys, key)}
    low, high = _bounds(keys)
    test = Test(**given, low=low, high=high)
    experiment = experiments[name]
    known, about = _factors(experiment), TABLES[test.table]
    for key in about.keys:
        known[key] = plain if about.columns[key].kind == "str" else _number
    columns = {key: own_columns.named(key) for key in experiment.own_factors}

    def cells(at: Place, given: dict[str, Any]) -> Cells:
        found = {key: _values(findings, (*at, key), key, raw, known) for key, raw in given.items()}
        return {columns.get(key, key): values for key, values in found.items() if values}

    if test.over not in known:
        findings.report(unknown((*place, "over", test.over), "factor", known))
    sides = [((*place, key), getattr(keys, key)) for key in ("of", "to") if hasattr(keys, key)]
    order = getattr(keys, "order", [])
    sides += [((*place, "order", index), side) for index, side in enumerate(order)]
    chosen = getattr(keys, "chosen", [])
    test = replace(
        test,
        cells=cells((*place, "cells"), keys.cells),
        chosen=_values(findings, (*place, "is"), test.over, chosen, known) if chosen else (),
        sides=tuple(cells(*each) for each in sides),
        over=columns.get(test.over, test.over),
    )
    findings.report(*_wrong_column(place, test, experiment), *_apart(place, test))
    if low >= high:
        findings.report(received((*place, "below"), high, "a number above `above`"))
    at = (*place, "cells")
    if test.table == "trajectories" and len(test.budget) != 1 and not findings.broken(at):
        text = f"received without one budget; one of {', '.join(tables.BUDGETS)} is expected."
        findings.report(Problem(at, text))
    return None if len(findings.problems) > before else test


def _factors(experiment: Experiment) -> dict[str, Callable[[Any], Any]]:
    """Returns factor -> what reads its value; a seed pairs cells, and distinguishes none."""
    found = run_factors.SWEEP_FACTORS if experiment.times.timings else run_factors.FACTORS
    if experiment.own_factors:
        found = command_names.factors(experiment.own_factors)
    known = {name: one.read_item for name, one in found.items() if name != "seed"}
    return {**known, **dict.fromkeys(("dataset", "model", "machine"), plain)}


def _wrong_column(place: Place, test: Test, experiment: Experiment) -> Iterator[Problem]:
    """Yields that an experiment has no such column, or that it cannot be read at a budget."""
    table, column = test.table, test.column
    measures = {**experiment.trainings.measures, **experiment.times.timings}
    filling = {*TABLES[table].measures} & {*measures}
    if experiment.commands:
        measures = dict.fromkeys(OF_OUTCOMES, {})
    trained = (experiment.trainings.runs or experiment.commands) and not TABLES[table].measures
    learned = experiment.trainings.tasks
    known = tables.claimed(table, measures, learned) if filling or trained else []
    if experiment.commands and table in ("runs", "trajectories"):
        known += filter(tasks.own, experiment.own.columns)
    if column not in known:
        text = f"a column of {table}.csv that the experiment measures"
        yield received((*place, "column"), column, text, known)
    schedule = horizons.of_own_runs(experiment.own.schedule)
    schedule = schedule or horizons.schedule_of(experiment.trainings.runs.values())
    if schedule and table == "trajectories":
        text = f"received trajectories {schedule.why}; {schedule.expected}, or another table."
        yield Problem((*place, "table"), text)


def _apart(place: Place, test: Test) -> Iterator[Problem]:
    """Yields the sides that do not differ in their values alone.

    What one side fixes and another leaves open would differ between the two as well.
    """
    at = (*place, "order" if test.type == "order" else "to")
    for side in test.sides[1:]:
        if side and test.sides[0] and {*side} != {*test.sides[0]}:
            names = [wording.listed(sorted(each)) for each in (side, test.sides[0])]
            text = f"received {names[0]} beside {names[1]}; the same factors are expected."
            yield Problem(at, text)
            break
    read = [{factor: {*values} for factor, values in side.items()} for side in test.sides]
    if any(side and side in read[:index] for index, side in enumerate(read)):
        yield Problem(at, "received the same cells twice; different ones are expected.")


def _bounds(keys: TestKeys) -> tuple[float, float]:
    """Returns the bounds of what is stated; of an equivalence those of a difference."""
    bounds = {key: getattr(keys, key, None) for key in ("above", "below", "near", "margin")}
    ratio, margin = getattr(keys, "scale", DIFFERENCE) == RATIO, bounds["margin"]
    if margin is not None and (bounds["near"] is not None or keys.type == "equivalence"):
        near = bounds["near"] if bounds["near"] is not None else 1 if ratio else 0
        return (near / margin, near * margin) if ratio else (near - margin, near + margin)
    low, high = bounds["above"], bounds["below"]
    return -math.inf if low is None else low, math.inf if high is None else high


def _values(findings: Findings, place: Place, key: str, raw: Any, known: Known) -> tuple[Any, ...]:
    """Returns the values of a factor or key in cells; reports what is none."""
    if key not in known:
        findings.report(unknown(place, "factor", known))
        return ()
    several = isinstance(raw, list)
    read = partial(read_items, known[key]) if several else known[key]
    values, problems = messages.read(read, raw, place)
    findings.report(*problems)
    if problems:
        return ()
    return values if several else (values,)


def _number(raw: Any) -> int | float:
    value = number(raw)
    if value is None:
        raise expected("a number")
    return value


def _figure(
    findings: Findings, place: Place, given: str, experiment: Experiment, test: Test
) -> str:
    """Returns the figure that shows what a test is of: the one named, or the first that fits."""
    if given and (given not in FIGURES or (experiment.figures and given not in experiment.figures)):
        expected = f"a figure of the experiment {experiment.name}"
        findings.report(received((*place, "figure"), given, expected, experiment.figures))
    # An experiment that names none draws all that it can.
    shown = experiment.figures or tuple(FIGURES)
    learned = experiment.trainings.tasks
    of_column = [name for name in shown if figures.learned(name, learned).shows(test.column)]
    of_table = [name for name in TABLES[test.table].figures if name in shown]
    return given or next(iter([*of_table, *of_column, *experiment.figures]), "")


def _grid(experiment: Experiment, machines: tuple[str, ...]) -> Grid:
    every = [*experiment.trainings.runs.values()]
    for sweep in experiment.times.sweeps:
        every += [{**sweep.factors, "batch_size": size} for size in sweep.batch_sizes]
    found: dict[str, dict[str, Any]] = {}
    for factors in every:
        names = {key: run_names.split_token(factors[key])[0] for key in ("dataset", "model")}
        plain = {key: value for key, value in factors.items() if key != "seed"} | names
        found.setdefault(repr(sorted(plain.items())), plain)
    for run in experiment.commands.values():
        own = {own_columns.named(key): each for key, each in run.factors.items() if key != "seed"}
        found.setdefault(repr(sorted(own.items())), own)
    return [
        {**cell, "at_epoch": epoch, "machine": machine}
        for epoch in experiment.at_epochs or (None,)
        for machine in machines
        for cell in found.values()
    ]


def _matching(grid: Grid, cells: Cells) -> Grid:
    """Returns the cells of a grid that have some of these values; keys of rows are not in it."""
    return [
        cell
        for cell in grid
        if all(cell[key] in values for key, values in cells.items() if key in cell)
    ]


def _lacks(test: Test, grid: Grid) -> str:
    """Returns what an experiment has not, of what a test names or needs; else an empty text."""
    for cells in test.selections():
        for key, values in cells.items():
            lacking = [one for one in values if not _matching(grid, {**cells, key: (one,)})]
            if lacking:
                # Where the grid has the value somewhere, it is the other cells that it lacks.
                somewhere = all(_matching(grid, {key: (value,)}) for value in lacking)
                others = {k: v for k, v in cells.items() if k != key} if somewhere else {}
                named = {key: lacking, **others}.items()
                parts = [f"{k.replace('_', ' ')} {wording.listed(v, 'or')}" for k, v in named]
                return f"no {wording.listed(parts, 'with')}"
    if test.over not in EVERY_FACTOR or any(test.over in side for side in test.sides):
        return ""
    least = _POSITIONS.get(test.type, 1)
    for side in test.sides or ({},):
        count = len({cell.get(test.over) for cell in _matching(grid, {**test.cells, **side})})
        if count < least:
            values = f"{wording.count(count, 'value')} of {test.over.replace('_', ' ')}"
            return f"{values} where {least} are needed"
    return ""


def _beyond(test: Test, grid: Grid, training_sizes: Mapping[str, int | None]) -> str:
    """Returns what some training that a test reads does not reach, or an empty text."""
    read = [cell for cells in test.selections() for cell in _matching(grid, cells)]
    for column, budget in test.budget.items():
        end, noun = horizons.shortest(column, read, training_sizes), column.removesuffix("s")
        if end is not None and end < budget:
            shortest = f"its shortest training of {wording.count(end, noun)}"
            return f"no {noun} {wording.shortest(budget)} in {shortest}"
    return ""


def _too_few(test: Test, experiment: Experiment) -> str:
    """Returns how few replicates there are where no result could decide a test; else nothing."""
    noun, count = "seed", len(experiment.trainings.seeds)
    if test.timed:
        filling, timings = TABLES[test.table].measures, experiment.times.timings
        noun = "repeat of the timing"
        count = min(each[REPEATS.name] for name, each in timings.items() if name in filling)
    return wording.count(count, noun) if count < LEAST_SEEDS else ""
