"""Models of the claims in a study file, and the checks that `read` makes when planning.

A claim is a checkable sentence of a document with its test. A new kind of test is a subclass of
`Test` in `AnyTest`. Its range goes into `Test.bounds`, its own keys into the defaults above
`AnyTest`, and cells of its own into `_planned_test`. Its statistics are in `analysis.claims`.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Discriminator, Field, ValidationError, model_validator
from pydantic_core import PydanticCustomError

from batchscope.core import display
from batchscope.core.problems import Place, Problem, received, unknown
from batchscope.study import factor_maps, figures, log_format, run_factors, table_entries
from batchscope.study.figures import FIGURES
from batchscope.study.model import UNIQUE, Model, Name, Number, Positive, Scalar, Text
from batchscope.study.outcomes import FALLS
from batchscope.study.registry import OUTCOME_MEASURES
from batchscope.study.table_entries import CLAIMABLE_TABLES as TABLES

if TYPE_CHECKING:
    from batchscope.study.plan import PlannedExperiment

GPU, MACHINE = "gpu", "machine"
RATIO, DIFFERENCE = "ratio", "difference"


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
            limit = 1 if key == "margin" else 0
            if getattr(self, key) is not None and getattr(self, key) <= limit:
                text = "On the scale ratio, {key} should be greater than {limit}"
                raise PydanticCustomError("ratio", text, {"key": key, "limit": limit})
        return self

    @property
    def sides(self) -> tuple[dict[str, Any], ...]:
        """Cells of the sides of a comparison or interaction (the first minus the second), or of the
        groups of an order (from the lowest to the highest).
        """
        return ()

    @property
    def timed(self) -> bool:
        return self.table in table_entries.TIMING_TABLES

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
        """Stated range of the value, the difference or the ratio."""
        no_change = 1.0 if self.ratio else 0.0
        if self.type == "equivalence" or None not in (self.near, self.margin):
            center = no_change if self.near is None else self.near
            if self.ratio:
                return center / self.margin, center * self.margin
            return center - self.margin, center + self.margin
        if isinstance(self, _BoundedTest):
            low, high = self.above, self.below
            return -math.inf if low is None else low, math.inf if high is None else high
        falls = self.best == "lowest" if self.type == "argmax" else self.direction == FALLS
        return (-math.inf, no_change) if falls else (no_change, math.inf)

    @property
    def budget(self) -> dict[str, Any]:
        """The budget of trajectories; empty for other tables."""
        budgets = table_entries.BUDGETS if self.table == "trajectories" else ()
        fixed = {name: self.cells.get(name, ()) for name in budgets}
        return {name: values[0] for name, values in fixed.items() if len(values) == 1}

    @property
    def compared(self) -> list[tuple[dict[str, Any], ...]]:
        """The sides of each contrast; one empty side if the test compares no sides."""
        if self.type == "order":
            return [(upper, lower) for lower, upper in itertools.pairwise(self.sides)]
        return [self.sides or ({},)]

    def selections(self) -> Iterator[dict[str, Any]]:
        """Yield the cells of each side, and those of the best values or exceptions."""
        chosen_cells = ({self.over: self.chosen},) if self.chosen else ()
        for side in (*(self.sides or ({},)), *chosen_cells):
            yield {**self.cells, **side}


class _BoundedTest(Test):
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


class Value(_BoundedTest):
    """The column is within bounds."""

    type: Literal["value"]


class ComparisonTest(_BoundedTest):
    """The difference or ratio of two sides is within bounds."""

    type: Literal["comparison"]
    of: Cells
    """One side of a comparison, or one series of an interaction."""
    to: Cells
    """The other side."""
    scale: Scale = DIFFERENCE

    @property
    def sides(self) -> tuple[dict[str, Any], ...]:
        return self.of, self.to


class Interaction(ComparisonTest):
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


# Only some tests have these keys. Pydantic warns of fields that shadow attributes of a class.
Test.direction, Test.best, Test.chosen, Test.scale = "", "highest", (), DIFFERENCE
Test.above = Test.below = Test.near = Test.margin = None

AnyTest = Annotated[
    Trend | Equivalence | Value | ComparisonTest | Interaction | Argmax | Order | ExceptionOf,
    Discriminator("type"),
    Field(description="Test of a claim."),
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
    claims: Iterable[Claim], experiments: Mapping[str, PlannedExperiment], problems: list[Problem]
) -> tuple[Claim, ...]:
    """Return the valid claims with the types of factors in their cells, and with a figure.

    Problems are appended to `problems`.
    """
    testable = {name: item for name, item in experiments.items() if not item.external_runs}
    valid: dict[str, Claim] = {}
    for index, claim in enumerate(claims):
        place, name = ("claims", index), claim.test.experiment
        if claim.id in valid:
            problems.append(received((*place, "id"), claim.id, "an id that no other claim has"))
        if name not in testable:
            expected = "an experiment that trains or times here"
            problems.append(received((*place, "test", "experiment"), name, expected, testable))
            continue
        experiment = testable[name]
        test, test_problems = _planned_test((*place, "test"), claim.test, experiment)
        problems += test_problems
        if not test_problems:
            drawn = experiment.keys.figures or tuple(FIGURES)
            if claim.figure and claim.figure not in drawn:
                expected = f"a figure of the experiment {name}"
                problems.append(received((*place, "figure"), claim.figure, expected, drawn))
            figure = claim.figure or _first_figure(test, experiment, drawn)
            valid[claim.id] = claim.model_copy(update={"test": test, "figure": figure})
    return tuple(valid.values())


def _planned_test(
    place: Place, test: Test, experiment: PlannedExperiment
) -> tuple[Test, list[Problem]]:
    """Return a test with the types of factors in its cells, and its problems."""
    problems: list[Problem] = []
    readers = _value_readers(experiment, test.table)
    columns = {key: log_format.prefixed_name(key) for key in experiment.command_factors}

    def read_values(key_place: Place, key: str, raw: tuple[Any, ...]) -> tuple[Any, ...]:
        if key not in readers:
            problems.append(unknown(key_place, "factor", readers))
            return ()
        values = []
        for index, item in enumerate(raw):
            try:
                values.append(readers[key](item))
            except (ValidationError, PydanticCustomError):
                item_place = (*key_place, index) if len(raw) > 1 else key_place
                problems.append(received(item_place, item, f"a value of {key.replace('_', ' ')}"))
        return tuple(values)

    def read_cells(key_place: Place, raw: Mapping[str, tuple[Any, ...]]) -> dict[str, Any]:
        by_key = {key: read_values((*key_place, key), key, items) for key, items in raw.items()}
        return {columns.get(key, key): items for key, items in by_key.items() if items}

    if test.over not in readers:
        problems.append(unknown((*place, "over", test.over), "factor", readers))
    elif test.type in ("trend", "interaction", "exception") and _has_texts(test, experiment):
        problems.append(received((*place, "over"), test.over, "a factor with numbers"))
    changed: dict[str, Any] = {"over": columns.get(test.over, test.over)}
    for key in {"cells", "of", "to"} & {*type(test).model_fields}:
        changed[key] = read_cells((*place, key), getattr(test, key))
    if test.type == "order":
        key_place = (*place, "order")
        sides = [read_cells((*key_place, index), side) for index, side in enumerate(test.order)]
        changed["order"] = tuple(sides)
    if test.chosen:
        changed["chosen"] = read_values((*place, "is"), test.over, test.chosen)
    test = test.model_copy(update=changed)
    if test.table == "trajectories" and len(test.budget) != 1 and not problems:
        text = f"Trajectories are read at one budget: {', '.join(table_entries.BUDGETS)}."
        problems.append(Problem((*place, "cells"), text))
    problems += [*_unusable_columns(place, test, experiment), *_unpaired_sides(place, test)]
    return test, problems


def _has_texts(test: Test, experiment: PlannedExperiment) -> bool:
    """Return whether `over` is a factor, or a key of the table, with texts as values."""
    if test.over in TABLES[test.table].keys:
        return TABLES[test.table].columns[test.over].kind == "str"
    sweeps = (sweep.factors for sweep in experiment.sweeps)
    values = [factors.get(test.over) for factors in (*experiment.factors_of.values(), *sweeps)]
    return test.over == MACHINE or any(isinstance(value, str) for value in values)


def _read_number(value: Any) -> int | float:
    if isinstance(value, bool | str):
        raise PydanticCustomError("number_type", "Input should be a number")
    return value


def _value_readers(experiment: PlannedExperiment, table: str) -> dict[str, Callable[[Any], Any]]:
    """Return factor or key -> function that reads its value. Seeds pair cells and are no cells."""
    factors = run_factors.SWEEP_FACTORS if experiment.timings else run_factors.FACTORS
    if experiment.command_factors:
        factors = factor_maps.command_factors(experiment.command_factors)
    readers = {name: factor.read_item for name, factor in factors.items() if name != "seed"}
    readers |= dict.fromkeys(("dataset", "model", "machine"), str)
    for key in TABLES[table].keys:
        readers[key] = str if TABLES[table].columns[key].kind == "str" else _read_number
    return readers


def _unusable_columns(place: Place, test: Test, experiment: PlannedExperiment) -> Iterator[Problem]:
    """Yield an unknown column, and a table that cannot be read at a budget."""
    table, column = test.table, test.column
    measures = {**experiment.measures, **experiment.timings}
    is_measured = {*TABLES[table].measures} & {*measures}
    is_trained = (experiment.runs or experiment.commands) and not TABLES[table].measures
    if experiment.commands:
        measures = dict.fromkeys(OUTCOME_MEASURES, {})
    valid = []
    if is_measured or is_trained:
        valid = table_entries.claimable_columns(table, measures, experiment.tasks)
    if experiment.commands and table in ("runs", "trajectories"):
        valid += log_format.metric_columns(experiment.metrics)
    if column not in valid:
        text = f"a column of {table}.csv that the experiment measures"
        yield received((*place, "column"), column, text, valid)
    schedule = experiment.horizon_schedule
    if schedule and table == "trajectories":
        text = f"{schedule.expected}, or another table, {schedule.why}"
        yield received((*place, "table"), table, text)


def _unpaired_sides(place: Place, test: Test) -> Iterator[Problem]:
    """Yield sides with different factors, and sides with the same cells."""
    key_place = (*place, "order" if test.type == "order" else "to")
    for side in test.sides[1:]:
        if side and test.sides[0] and {*side} != {*test.sides[0]}:
            names = [display.listed(sorted(factors)) for factors in (test.sides[0], side)]
            yield Problem(key_place, f"Expected the factors {names[0]} (received {names[1]}).")
            break
    sides = [{factor: {*values} for factor, values in side.items()} for side in test.sides]
    if any(side and side in sides[:index] for index, side in enumerate(sides)):
        yield Problem(key_place, "The sides have the same cells.")


def _first_figure(test: Test, experiment: PlannedExperiment, drawn: Iterable[str]) -> str:
    """Return the first figure with the table or else with the column of a test; or else any."""
    with_table = [name for name in TABLES[test.table].figures if name in drawn]
    drawn_figures = [figures.for_tasks(name, experiment.tasks) for name in drawn]
    with_column = [figure.name for figure in drawn_figures if figure.shows(test.column)]
    return next(iter([*with_table, *with_column, *experiment.keys.figures]), "")
