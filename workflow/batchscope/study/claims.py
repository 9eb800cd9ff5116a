"""Claims of documents: checkable sentences, each with its test.

A planned claim is the model of the study file with values of factors in its cells.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, ValidationError, model_validator
from pydantic_core import PydanticCustomError

from batchscope.core import display
from batchscope.core.problems import Place, Problem, received, unknown
from batchscope.study import (
    checks,
    external_columns,
    factor_models,
    figures,
    run_factors,
    tables,
)
from batchscope.study.figures import FIGURES
from batchscope.study.model import UNIQUE, Model, Name, Number, Positive, Scalar, Text
from batchscope.study.outcomes import FALLS
from batchscope.study.registry import OUTCOME_MEASURES
from batchscope.study.tables import CLAIMED as TABLES

if TYPE_CHECKING:
    from batchscope.study.plan import PlannedExperiment

GPU, MACHINE = "gpu", "machine"
RATIO, DIFFERENCE = "ratio", "difference"
Report = Callable[[Problem], None]


def _as_list(raw: Any) -> Any:
    return raw if isinstance(raw, list | tuple) else [raw]


Values = Annotated[
    tuple[Scalar, ...],
    Field(min_length=1),
    BeforeValidator(_as_list, json_schema_input_type=Any),
    UNIQUE,
]
Cells = Annotated[dict[str, Values], Field(min_length=1)]
Scale = Annotated[
    Literal["difference", "ratio"],
    Field(
        description="Whether the test is about differences, or about ratios of positive "
        "numbers. On the scale ratio, a slope is a factor per doubling."
    ),
]
Direction = Annotated[
    Literal["rises", "falls"],
    Field(description="Direction of a trend; for an exception, its side of the neighbours' line."),
]
Margin = Annotated[
    Positive,
    Field(description="Largest negligible distance; on the scale `ratio`, a factor above 1."),
]


class Test(Model):
    """Test of a claim."""

    type: str
    experiment: Name
    """The experiment whose runs or times test it."""
    table: Literal[tuple(TABLES)] = "runs"
    """One of its tables, without `.csv`."""
    column: Text
    """The column that the claim is about."""
    cells: Cells = {}
    """Factor or key of the table -> values that select rows. Default: all rows."""
    over: Text = "batch_size"
    """The factor of a trend, a best value or an exception."""

    @model_validator(mode="after")
    def _check_ratios(self) -> Self:
        """On the scale `ratio`, bounds are positive, and a margin is a factor above 1."""
        for key in ("above", "below", "near", "margin") if self.scale == RATIO else ():
            least = 1 if key == "margin" else 0
            if getattr(self, key, None) is not None and getattr(self, key) <= least:
                text = "On the scale ratio, {key} should be greater than {least}"
                raise PydanticCustomError("ratio", text, {"key": key, "least": least})
        return self

    @property
    def sides(self) -> tuple[dict[str, Any], ...]:
        """Cells of the sides of a comparison or interaction (the first minus the second), or of the
        groups of an order (from the lowest to the highest).
        """
        return ()

    @property
    def timed(self) -> bool:
        return self.table in tables.TIMING_TABLES

    @property
    def trend_experiment(self) -> str:
        """The experiment, if the claim is a trend over batch sizes in all its series."""
        all_series = self.type == "trend" and self.table == "runs" and not self.cells
        return self.experiment if all_series and self.over == "batch_size" else ""

    @property
    def ratio(self) -> bool:
        return self.scale == RATIO or self.type == "exception"

    @property
    def bounds(self) -> tuple[float, float]:
        falls = self.best == "lowest" if self.type == "argmax" else self.direction == FALLS
        no_change = 1.0 if self.ratio else 0.0
        return (-math.inf, no_change) if falls else (no_change, math.inf)

    @property
    def budget(self) -> dict[str, Any]:
        """The budget of trajectories; empty for other tables."""
        budgets = tables.BUDGETS if self.table == "trajectories" else ()
        fixed = {name: self.cells.get(name, ()) for name in budgets}
        return {name: values[0] for name, values in fixed.items() if len(values) == 1}

    @property
    def compared(self) -> list[tuple[dict[str, Any], ...]]:
        if self.type == "order":
            return [(upper, lower) for lower, upper in itertools.pairwise(self.sides)]
        return [self.sides or ({},)]

    def selections(self) -> Iterator[dict[str, Any]]:
        named = ({self.over: self.chosen},) if self.chosen else ()
        for side in (*(self.sides or ({},)), *named):
            yield {**self.cells, **side}


def _near(test: Any, no_change: float) -> tuple[float, float]:
    near, margin = getattr(test, "near", None), test.margin
    near = no_change if near is None else near
    return (near / margin, near * margin) if test.ratio else (near - margin, near + margin)


class _Bounded(Test):
    """A test of bounds."""

    above: Number | None = None
    """Lower bound of the value, difference or ratio."""
    below: Number | None = None
    """Upper bound."""
    near: Number | None = None
    """Instead of bounds, a number. The value is at most `margin` away from it."""
    margin: Margin | None = None

    @model_validator(mode="after")
    def _check_bounds(self) -> Self:
        if self.above is None and self.below is None and None in (self.near, self.margin):
            text = "Expected a bound (above, below, or near with margin)"
            raise PydanticCustomError("bounds", text)
        if self.bounds[0] >= self.bounds[1]:
            raise PydanticCustomError("bounds", "below should be greater than above")
        return self

    @property
    def bounds(self) -> tuple[float, float]:
        if None not in (self.near, self.margin):
            return _near(self, 0)
        low, high = self.above, self.below
        return -math.inf if low is None else low, math.inf if high is None else high


class _Sides(_Bounded):
    """A test of two sides, the first minus the second."""

    of: Cells
    """One side of a comparison, or one series of an interaction."""
    to: Cells
    """The other side."""
    scale: Scale = DIFFERENCE

    @property
    def sides(self) -> tuple[dict[str, Any], ...]:
        return self.of, self.to


class Trend(Test):
    """The column rises or falls."""

    type: Literal["trend"]
    direction: Direction
    scale: Scale = DIFFERENCE


class Equivalence(Test):
    """The column changes by less than a margin."""

    type: Literal["equivalence"]
    margin: Margin
    scale: Scale = DIFFERENCE

    @property
    def bounds(self) -> tuple[float, float]:
        return _near(self, 1 if self.ratio else 0)


class Value(_Bounded):
    """The column is within bounds."""

    type: Literal["value"]


class ComparisonTest(_Sides):
    """The difference or ratio of two sides is within bounds."""

    type: Literal["comparison"]


class Interaction(_Sides):
    """The difference or ratio of the slopes of two series is within bounds."""

    type: Literal["interaction"]


class Argmax(Test):
    """The column is best at one of some values."""

    type: Literal["argmax"]
    chosen: Annotated[Values, Field(alias="is")]
    """Values of the factor that the document calls best."""
    best: Literal["highest", "lowest"] = "highest"
    """Which value of the column is the best."""


class Order(Test):
    """Groups of cells are in an order."""

    type: Literal["order"]
    order: Annotated[tuple[Cells, ...], Field(min_length=2)]
    """Groups of cells, from the lowest to the highest."""

    @property
    def sides(self) -> tuple[dict[str, Any], ...]:
        return self.order


class ExceptionOf(Test):
    """Some values are off the line of their neighbours."""

    type: Literal["exception"]
    chosen: Annotated[Values, Field(alias="is")]
    """Values of the factor that the document calls exceptions."""
    direction: Direction


# Keys that only some tests have. Set here, since pydantic warns of fields that shadow them.
Test.direction, Test.best, Test.chosen, Test.scale = "", "highest", (), DIFFERENCE

AnyTest = Annotated[
    Trend | Equivalence | Value | ComparisonTest | Interaction | Argmax | Order | ExceptionOf,
    Field(discriminator="type", description="Test of a claim."),
]


class Claim(Model):
    """A checkable sentence of a document."""

    id: Name
    """Its name in claims.csv."""
    document: Text
    """The document; its claims in one study share the level of the tests."""
    place: Text
    """Place in the document."""
    sentence: Text
    """The statement, in your own words."""
    requires: Literal["", "gpu", "machine"] = ""
    """Requirement of the test: `gpu`, or `machine` for results of a second machine. If it is
    missing, the verdict is not testable.
    """
    figure: Text = ""
    """The figure of the experiment that shows it. Default: the first fitting one."""
    test: AnyTest


def read(
    claims: Iterable[Claim], experiments: Mapping[str, PlannedExperiment], report: Report
) -> tuple[Claim, ...]:
    """Return the claims with values of factors in their cells; report invalid ones."""
    valid: dict[str, Claim] = {}
    for index, claim in enumerate(claims):
        place = ("claims", index)
        if claim.id in valid:
            report(received((*place, "id"), claim.id, "an id that no other claim has"))
        experiment = _experiment((*place, "test", "experiment"), claim.test, experiments, report)
        if experiment and (test := _test((*place, "test"), claim.test, experiment, report)):
            figure = _figure(place, claim.figure, experiment, test, report)
            valid[claim.id] = claim.model_copy(update={"test": test, "figure": figure})
    return tuple(valid.values())


def _experiment(
    place: Place, test: Test, experiments: Mapping[str, PlannedExperiment], report: Report
) -> PlannedExperiment | None:
    experiment = experiments.get(test.experiment)
    if experiment and not experiment.external_runs:
        return experiment
    text = "an experiment that trains or times here" if experiment else "an experiment"
    internal = [name for name, planned in experiments.items() if not planned.external_runs]
    report(received(place, test.experiment, text, internal))
    return None


def _test(place: Place, test: Test, experiment: PlannedExperiment, report: Report) -> Test | None:
    """Return a test with values of factors in its cells; None if there is a problem."""
    problems: list[Problem] = []
    readers = _readers(experiment, test.table)
    columns = {key: external_columns.prefixed_name(key) for key in experiment.own_factors}

    def values(at: Place, key: str, raw: tuple[Any, ...]) -> tuple[Any, ...]:
        if key not in readers:
            problems.append(unknown(at, "factor", readers))
            return ()
        result = []
        for index, item in enumerate(raw):
            try:
                result.append(readers[key](item))
            except (ValidationError, PydanticCustomError):
                item_place = (*at, index) if len(raw) > 1 else at
                problems.append(received(item_place, item, f"a value of {key.replace('_', ' ')}"))
        return tuple(result)

    def cells(at: Place, raw: Mapping[str, tuple[Any, ...]]) -> dict[str, Any]:
        by_key = {key: values((*at, key), key, items) for key, items in raw.items()}
        return {columns.get(key, key): items for key, items in by_key.items() if items}

    if test.over not in readers:
        problems.append(unknown((*place, "over", test.over), "factor", readers))
    changed: dict[str, Any] = {"over": columns.get(test.over, test.over)}
    for key in {"cells", "of", "to"} & {*type(test).model_fields}:
        changed[key] = cells((*place, key), getattr(test, key))
    if test.type == "order":
        sides = enumerate(test.order)
        changed["order"] = tuple(cells((*place, "order", index), side) for index, side in sides)
    if test.chosen:
        changed["chosen"] = values((*place, "is"), test.over, test.chosen)
    test = test.model_copy(update=changed)
    if test.table == "trajectories" and len(test.budget) != 1 and not problems:
        text = f"Trajectories are read at one budget: {', '.join(tables.BUDGETS)}."
        problems.append(Problem((*place, "cells"), text))
    problems += [*_wrong_column(place, test, experiment), *_apart(place, test)]
    for problem in problems:
        report(problem)
    return None if problems else test


def _as_is(value: Any) -> Any:
    return value


def _number(value: Any) -> int | float:
    if isinstance(value, bool | str):
        raise PydanticCustomError("number_type", "Input should be a number")
    return value


def _readers(experiment: PlannedExperiment, table: str) -> dict[str, Callable[[Any], Any]]:
    """Return factor or key -> function that reads its value. Seeds pair cells, so have none."""
    factors = run_factors.SWEEP_FACTORS if experiment.timings else run_factors.FACTORS
    if experiment.own_factors:
        factors = factor_models.command_factors(experiment.own_factors)
    readers = {name: factor.read_item for name, factor in factors.items() if name != "seed"}
    columns = TABLES[table].columns
    of_keys = {key: _as_is if columns[key].kind == "str" else _number for key in TABLES[table].keys}
    return {**readers, **dict.fromkeys(("dataset", "model", "machine"), _as_is), **of_keys}


def _wrong_column(place: Place, test: Test, experiment: PlannedExperiment) -> Iterator[Problem]:
    """Yield an unknown column, and a table that cannot be read at a budget."""
    table, column = test.table, test.column
    measures = {**experiment.measures, **experiment.timings}
    filling = {*TABLES[table].measures} & {*measures}
    if experiment.commands:
        measures = dict.fromkeys(OUTCOME_MEASURES, {})
    trained = (experiment.runs or experiment.commands) and not TABLES[table].measures
    valid = tables.claimed(table, measures, experiment.tasks) if filling or trained else []
    if experiment.commands and table in ("runs", "trajectories"):
        valid += external_columns.metric_columns(experiment.metrics)
    if column not in valid:
        text = f"a column of {table}.csv that the experiment measures"
        yield received((*place, "column"), column, text, valid)
    schedule = checks.falling_schedule(experiment)
    if schedule and table == "trajectories":
        text = f"{schedule.expected}, or another table, {schedule.why}"
        yield received((*place, "table"), table, text)


def _apart(place: Place, test: Test) -> Iterator[Problem]:
    """Yield sides with different factors, and sides with the same cells."""
    at = (*place, "order" if test.type == "order" else "to")
    for side in test.sides[1:]:
        if side and test.sides[0] and {*side} != {*test.sides[0]}:
            names = [display.listed(sorted(factors)) for factors in (test.sides[0], side)]
            yield Problem(at, f"Expected the factors {names[0]} (received {names[1]}).")
            break
    read = [{factor: {*values} for factor, values in side.items()} for side in test.sides]
    if any(side and side in read[:index] for index, side in enumerate(read)):
        yield Problem(at, "The sides have the same cells.")


def _figure(
    place: Place, name: str, experiment: PlannedExperiment, test: Test, report: Report
) -> str:
    """Return the figure for the column of a test: the named one, or the first fitting one."""
    listed = experiment.keys.figures
    if name and (name not in FIGURES or (listed and name not in listed)):
        expected = f"a figure of the experiment {experiment.name}"
        report(received((*place, "figure"), name, expected, listed))
    # Without `figures`, an experiment draws all figures that its measures allow.
    drawn = listed or tuple(FIGURES)
    learned = experiment.tasks
    of_column = [key for key in drawn if figures.learned(key, learned).shows(test.column)]
    of_table = [key for key in TABLES[test.table].figures if key in drawn]
    return name or next(iter([*of_table, *of_column, *listed]), "")
