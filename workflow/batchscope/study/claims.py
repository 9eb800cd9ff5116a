"""What documents state, as `claims` has it: each with the test that the runs put it to."""

from __future__ import annotations

import contextlib
import itertools
import math
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from batchscope import wording
from batchscope.catalogue import claim_tables, coercion, outcomes, run_names, tables
from batchscope.catalogue.claim_tables import TABLES
from batchscope.catalogue.coercion import as_map
from batchscope.catalogue.entries import REPEATS
from batchscope.catalogue.figures import FIGURES
from batchscope.catalogue.horizons import CONSTANT, REASON
from batchscope.catalogue.sweep_names import EVERY_FACTOR
from batchscope.problems import Findings, Place, Problem, received, unknown
from batchscope.study import experiment_kinds, horizons
from batchscope.study.experiment_kinds import TRAINING
from batchscope.study.value_reader import Broken, Reader

if TYPE_CHECKING:
    from batchscope.study.plan import Experiment

_SHOWN = 6  # claims that a warning names
GPU, MACHINE = "gpu", "machine"
RATIO, DIFFERENCE = "ratio", "difference"
# Type -> the keys of its test beside those of every test, those that it must have first.
_BOUNDS = ("above", "below", "near", "margin")
TYPES: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "trend": (("direction",), ("over", "scale")),
    "equivalence": (("margin",), ("over", "scale")),
    "value": ((), ("over", *_BOUNDS)),
    "comparison": (("of", "to"), ("over", "scale", *_BOUNDS)),
    "interaction": (("of", "to"), ("over", "scale", *_BOUNDS)),
    "argmax": (("is",), ("over", "best")),
    "order": (("order",), ("over",)),
    "exception": (("is", "direction"), ("over",)),
}
_COMMON = ("type", "experiment", "table", "column", "cells")

Cells = dict[str, tuple[Any, ...]]


@dataclass(frozen=True)
class Test:
    """How a claim is tested.

    Attributes:
        cells: Factor or key -> the values to which the rows are restricted.
        over: The factor along which a trend, a best value and so on are sought.
        chosen: Values of `over`: stated to be best, or to be exceptions.
        of: Cells of the first side of a comparison or an interaction.
        to: Cells of the other side.
        order: Groups of cells, from the lowest to the highest.
        scale: `difference`, or `ratio` for values that are compared on a logarithmic scale.
    """

    type: str
    experiment: str
    table: str
    column: str
    cells: Cells = field(default_factory=dict)
    over: str = "batch_size"
    direction: str = ""
    best: str = "highest"
    chosen: tuple[Any, ...] = ()
    of: Cells = field(default_factory=dict)
    to: Cells = field(default_factory=dict)
    order: tuple[Cells, ...] = ()
    low: float = -math.inf
    high: float = math.inf
    scale: str = DIFFERENCE

    @property
    def timed(self) -> bool:
        """Whether timing jobs repeat it, and not seeds."""
        return self.table in tables.OF_TIMINGS

    @property
    def file(self) -> str:
        """Name of the table that has a row for each of its replicates."""
        return tables.by_job(self.table) if self.timed else self.table

    @property
    def asked(self) -> str:
        """The experiment of whose every series it states a trend over batch sizes; or empty."""
        whole = self.type == "trend" and self.table == "runs" and not self.cells
        return self.experiment if whole and self.over == "batch_size" else ""

    def selections(self) -> Iterator[Cells]:
        """Yields the cells that it reads: of both sides, or of every group."""
        sides = [side for side in (self.of, self.to, *self.order) if side] or [{}]
        for side in [*sides, {self.over: self.chosen}] if self.chosen else sides:
            yield {**self.cells, **side}


@dataclass(frozen=True)
class Claim:
    """A checkable sentence of a document.

    Attributes:
        id: Its name in the ledger.
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
    raw: Any,
    experiments: Mapping[str, Experiment],
    machines: tuple[str, ...],
    training_sizes: Mapping[str, int | None],
) -> tuple[Claim, ...]:
    """Returns the sound claims of a study; reports and warns of all else.

    Args:
        raw: What `claims` holds, of a structure that fits the schema.
        training_sizes: Data set -> training examples, None where only the files know.
    """
    found: dict[str, Claim] = {}
    grids: dict[str, list[dict[str, Any]]] = {}
    lacking: dict[str, list[str]] = {}
    for index, body in enumerate(raw or ()):
        place = ("claims", index)
        if body["id"] in found:
            text = f"received '{body['id']}' again; every id once is expected."
            findings.report(Problem((*place, "id"), text))
        test = _test(findings, (*place, "test"), body["test"], experiments)
        if test is None:
            continue
        experiment = experiments[test.experiment]
        if test.table == "trajectories" and (why := _falling(experiment)):
            findings.report(Problem((*place, "test", "table"), why))
            continue
        words = (body[key] for key in ("id", "document", "place", "sentence"))
        figure = _figure(findings, place, body, experiment, test)
        claim = Claim(*words, test, body.get("requires", ""), figure)
        found[claim.id] = claim
        if test.experiment not in grids:
            grids[test.experiment] = _grid(experiment, machines)
        grid = grids[test.experiment]
        why = _lacks(test, experiment, grid) or _beyond(test, experiment, grid, training_sizes)
        if why and not claim.requires:
            lacking.setdefault(why, []).append(claim.id)
    for why, ids in lacking.items():
        findings.warn(Problem(("claims",), f"{why}; it is expected by {_some(ids)}."))
    stated = tuple(found.values())
    _warn_of_seeds(findings, stated, experiments, grids)
    return stated


def _test(
    findings: Findings, place: Place, body: dict[str, Any], experiments: Mapping[str, Experiment]
) -> Test | None:
    """Returns a test, or None where something in it is reported."""
    before = len(findings.problems)
    findings.report(*_wrong_keys(place, body))
    name, column = body["experiment"], body["column"]
    here = {one: found for one, found in experiments.items() if not found.own.path}
    if name not in here:
        known, text = experiments, "an experiment"
        if name in experiments:
            known, text = here, "an experiment that trains or times here"
        findings.report(received((*place, "experiment"), name, text, known))
        return None
    experiment = here[name]
    table, over = body.get("table", "runs"), body.get("over", "batch_size")
    measures = {**experiment.trainings.measures, **experiment.times.timings}
    filling = {*TABLES[table].measures} & {*measures}
    trained = experiment.trainings.runs and not TABLES[table].measures
    known = claim_tables.columns_of(table, measures) if filling or trained else []
    if column not in known:
        text = f"a column of {table}.csv that the experiment measures"
        findings.report(received((*place, "column"), column, text, known))
    low, high = _bounds(findings, place, body)
    keys = TABLES[table].keys
    # A seed pairs the cells of a claim, and distinguishes none.
    kind = experiment_kinds.TIMING if experiment.times.timings else TRAINING
    factors = (*kind.known, *keys, "machine")
    numbers = {key for key in keys if tables.TABLES[table].columns[key].kind != "str"}
    read = partial(_values, Reader(findings, {}, {}), known=factors, numbers=numbers)

    def cells(at: Place, given: Any) -> Cells:
        return {
            key: values
            for key, raw in as_map(given).items()
            if (values := read((*at, key), key, raw))
        }

    if over not in factors:
        findings.report(unknown((*place, "over", over), "factor", factors))
    as_given = ("type", "experiment", "column", "direction", "best", "scale")
    test = Test(
        **{key: body[key] for key in as_given if key in body},
        **{key: cells((*place, key), body.get(key)) for key in ("cells", "of", "to")},
        table=table,
        over=over,
        chosen=read((*place, "is"), over, body.get("is", [])),
        order=tuple(cells(*each) for each in coercion.items((*place, "order"), body.get("order"))),
        low=low,
        high=high,
    )
    for at, words in _apart(test):
        findings.report(Problem((*place, at), words))
    at = (*place, "cells")
    if table == "trajectories" and _budgets(test) != 1 and not findings.broken(at):
        text = f"received without one budget; one of {', '.join(claim_tables.BUDGETS)} is expected."
        findings.report(Problem(at, text))
    return None if len(findings.problems) > before else test


def _wrong_keys(place: Place, body: dict[str, Any]) -> Iterator[Problem]:
    """Yields the keys that a test of its type does not have, and those that it lacks."""
    needed, others = TYPES[body["type"]]
    allowed = (*_COMMON, *needed, *others)
    yield from (unknown((*place, key), "key", allowed) for key in body if key not in allowed)
    for key in needed:
        if key not in body:
            text = f"missing; it is expected beside type: {body['type']}."
            yield Problem((*place, key), text)


def _apart(test: Test) -> Iterator[tuple[str, str]]:
    """Yields the sides that do not differ in their values alone, and what to say of them.

    What one side fixes and another leaves open would differ between the two as well.
    """
    sides = {"to": [test.of, test.to], "order": [*test.order]}
    for key, (first, *others) in {key: found for key, found in sides.items() if found}.items():
        for other in others:
            if first and other and {*first} != {*other}:
                names = [wording.listed(sorted(side)) for side in (other, first)]
                yield key, f"received {names[0]} beside {names[1]}; the same factors are expected."
                break
        read = [{factor: {*values} for factor, values in side.items()} for side in (first, *others)]
        if any(side and side in read[:index] for index, side in enumerate(read)):
            yield key, "received the same cells twice; different ones are expected."


def _falling(experiment: Experiment) -> str:
    """Returns why trainings cannot be read at a budget; empty if they can."""
    schedule = horizons.falling_schedule(experiment.trainings.runs.values())
    if not schedule:
        return ""
    expected = f"schedule {CONSTANT} is expected, or another table"
    return f"received trajectories with schedule {schedule}, {REASON}; {expected}."


def _budgets(test: Test) -> int:
    """Returns how many budgets a test fixes at one value."""
    return sum(len(test.cells.get(name, ())) == 1 for name in claim_tables.BUDGETS)


def _bounds(findings: Findings, place: Place, body: dict[str, Any]) -> tuple[float, float]:
    """Returns the bounds of what is stated; of an equivalence those of a difference."""
    numbers = {key: coercion.number(body[key]) for key in _BOUNDS if key in body}
    ratio = body.get("scale") == RATIO
    for key, value in numbers.items():
        least = 1 if ratio and key == "margin" else 0
        if (ratio or key == "margin") and value <= least:
            findings.report(received((*place, key), body[key], f"a number above {least}"))
            return -math.inf, math.inf
    if body["type"] == "equivalence" and "margin" in numbers:
        margin = numbers["margin"]
        return (1 / margin, margin) if ratio else (-margin, margin)
    if "near" in numbers and "margin" in numbers:
        near, margin = numbers["near"], numbers["margin"]
        return (near / margin, near * margin) if ratio else (near - margin, near + margin)
    low, high = numbers.get("above", -math.inf), numbers.get("below", math.inf)
    if "above" in TYPES[body["type"]][1]:
        if low == -math.inf and high == math.inf:
            text = "received no bound; above, below, or near with margin is expected."
            findings.report(Problem(place, text))
        elif low >= high:
            findings.report(received((*place, "below"), body["below"], "a number above `above`"))
    return low, high


def _values(
    reader: Reader, place: Place, key: str, raw: Any, known: tuple[str, ...], numbers: set[str]
) -> tuple[Any, ...]:
    """Returns the values of a factor or key in cells; reports what is none.

    Args:
        numbers: Keys whose values are numbers.
    """

    def read(at: Place, one: Any) -> Any:
        if key in EVERY_FACTOR and key not in ("dataset", "model"):  # by their names in the study
            return reader.value(at, EVERY_FACTOR[key], one)
        if key in numbers and coercion.number(one) is None:
            reader.findings.report(received(at, one, "a number"))
            raise Broken
        return coercion.plain(one)

    if key not in known:
        reader.findings.report(unknown(place, "factor", known))
        return ()
    if isinstance(raw, list):
        return reader.distinct(place, raw, read)
    with contextlib.suppress(Broken):
        return (read(place, raw),)
    return ()


def _figure(
    findings: Findings, place: Place, body: dict[str, Any], experiment: Experiment, test: Test
) -> str:
    """Returns the figure that shows what a test is of: the one named, or the first that fits."""
    given = body.get("figure", "")
    if given and (given not in FIGURES or (experiment.figures and given not in experiment.figures)):
        expected = f"a figure of the experiment {experiment.name}"
        findings.report(received((*place, "figure"), given, expected, experiment.figures))
    if given:
        return given
    # An experiment that names none draws all that it can.
    shown = experiment.figures or tuple(FIGURES)
    of_column = [name for name in shown if test.column in FIGURES[name].columns]
    of_table = [name for name in TABLES[test.table].figures if name in shown]
    return next(iter([*of_table, *of_column, *experiment.figures]), "")


def _grid(experiment: Experiment, machines: tuple[str, ...]) -> list[dict[str, Any]]:
    """Returns the factors of every cell of an experiment, by the names that cells have."""
    every = [*experiment.trainings.runs.values()]
    for sweep in experiment.times.sweeps:
        every += [{**sweep.factors, "batch_size": size} for size in sweep.batch_sizes]
    found: dict[str, dict[str, Any]] = {}
    for factors in every:
        plain = {name: value for name, value in factors.items() if name != "seed"}
        for name in ("dataset", "model"):
            plain[name] = run_names.split_token(str(plain[name]))[0]
        found.setdefault(repr(sorted(plain.items())), plain)
    keys = {"at_epoch": experiment.at_epochs or (None,), "machine": machines}
    return [
        {**cell, **dict(zip(keys, values, strict=True))}
        for cell in found.values()
        for values in itertools.product(*keys.values())
    ]


def _matching(grid: list[dict[str, Any]], cells: Cells) -> list[dict[str, Any]]:
    """Returns the cells of a grid that have some of these values; keys of rows are not in it."""
    return [
        cell
        for cell in grid
        if all(cell[key] in values for key, values in cells.items() if key in cell)
    ]


def _lacks(test: Test, experiment: Experiment, grid: list[dict[str, Any]]) -> str:
    """Returns what the grid lacks for a test, or an empty text."""
    name = f"experiments.{experiment.name}"
    for cells in test.selections():
        for key, values in cells.items():
            lacking = [one for one in values if not _matching(grid, {**cells, key: (one,)})]
            if lacking:
                # Where the grid has the value somewhere, it is the other cells that it lacks.
                somewhere = all(_matching(grid, {key: (value,)}) for value in lacking)
                named = [(key, tuple(lacking))]
                named += [(k, v) for k, v in cells.items() if k != key and somewhere]
                parts = [f"{k.replace('_', ' ')} {wording.listed(v, 'or')}" for k, v in named]
                return f"{name} has no {wording.listed(parts, 'with')}"
    wanted = {"trend": 2, "equivalence": 2, "interaction": 2, "argmax": 2, "exception": 3}
    least = wanted.get(test.type, 1)
    if test.over not in EVERY_FACTOR or test.over in test.of:
        return ""
    for side in [test.of, test.to] if test.of else [{}]:
        positions = {cell.get(test.over) for cell in _matching(grid, {**test.cells, **side})}
        if len(positions) < least:
            count = wording.count(len(positions), "value")
            return f"{name} has {count} of {test.over.replace('_', ' ')} where {least} are needed"
    return ""


def _beyond(
    test: Test,
    experiment: Experiment,
    grid: list[dict[str, Any]],
    training_sizes: Mapping[str, int | None],
) -> str:
    """Returns that a test's budget lies beyond some training that it reads, or an empty text."""
    if test.table != "trajectories":
        return ""
    read = [cell for cells in test.selections() for cell in _matching(grid, cells)]
    for column, values in test.cells.items():
        end = horizons.shortest(column, read, training_sizes)
        if end is not None and end < max(values):
            noun = column.removesuffix("s")
            what = f"has no {noun} {wording.shortest(max(values))} in its shortest training of "
            return f"experiments.{experiment.name} {what}{wording.count(end, noun)}"
    return ""


def _warn_of_seeds(
    findings: Findings,
    claims: tuple[Claim, ...],
    experiments: Mapping[str, Experiment],
    grids: Mapping[str, list[dict[str, Any]]],
) -> None:
    """Warns of claims that no result could decide, one line per experiment and reason."""
    short: dict[tuple[str, str, int, int], list[str]] = {}
    tests = Counter(claim.document for claim in claims)
    for claim in claims:
        name = claim.test.experiment
        positions = len({cell.get(claim.test.over) for cell in grids[name]})
        needed = seeds_needed(claim.test, positions, tests[claim.document])
        noun, count = "seed", len(experiments[name].trainings.seeds)
        if claim.test.timed:
            timings = experiments[name].times.timings.items()
            filling = TABLES[claim.test.table].measures
            noun = "repeat of the timing"
            count = min(each[REPEATS.name] for timing, each in timings if timing in filling)
        if count < needed:
            short.setdefault((name, noun, count, needed), []).append(claim.id)
    for (name, noun, count, needed), ids in short.items():
        text = f"received {wording.count(count, noun)} in experiments.{name}; at least {needed} "
        text += f"are expected for a verdict on {_some(ids)}."
        findings.warn(Problem(("claims",), text))


def _some(ids: list[str]) -> str:
    """Returns the first of some ids, and how many more there are."""
    shown = ids if len(ids) <= _SHOWN else [*ids[:_SHOWN], f"{len(ids) - _SHOWN} more"]
    return wording.listed(shown)


def seeds_needed(test: Test, positions: int, tests: int) -> int:
    """Returns the paired seeds below which a test, one of so many, cannot get a verdict."""
    return outcomes.seeds_needed(positions if test.type == "trend" else 2, tests)
