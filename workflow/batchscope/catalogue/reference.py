"""The reference: every factor, measure, timing, column and figure, as Markdown of the catalogue."""

from __future__ import annotations

from collections.abc import Iterable

from batchscope import wording
from batchscope.catalogue import columns, figures, measure_settings, run_factors, tables
from batchscope.catalogue.decision_columns import CLAIMS
from batchscope.catalogue.entries import Column, Entry
from batchscope.catalogue.measures import MEASURES
from batchscope.catalogue.name_codec import spelled
from batchscope.catalogue.parameters import Parameter
from batchscope.catalogue.timings import OF_SWEEPS, OF_TRAININGS
from batchscope.errors import UserError
from batchscope.problems import nearest

_HEAD = (
    "# Reference\n\nPrinted by `python workflow/run.py explain`; `explain NAME` prints one entry."
)


def whole() -> str:
    """Returns the whole reference."""
    return "\n\n".join([_HEAD, *(text for section in _sections() for text in section)]) + "\n"


def one(name: str) -> str:
    """Returns what the reference says of a factor, measure, timing, column or figure.

    Raises:
        UserError: If there is none of that name.
    """
    found = [part for entry, part in _entries() if entry == name]
    if not found:
        known = dict.fromkeys(entry for entry, _ in _entries())
        hint = f" Did you mean '{match}'?" if (match := nearest(name, known)) else ""
        raise UserError(
            f"explain: received {name!r}; a factor, measure, timing, column or figure is "
            f"expected.{hint}"
        )
    return "\n\n".join(found) + "\n"


def _sections() -> Iterable[list[str]]:
    yield [
        "## Factors",
        "What a training is made of. A dash means that the factor must be given.",
        _parameters("factor", run_factors.FACTORS.values()),
    ]
    of_times = run_factors.TIMING_ONLY_FACTORS.values()
    yield ["## Factors of times alone", _parameters("factor", of_times)]
    yield ["## Measures", *(_entry(entry) for entry in {**MEASURES, **OF_TRAININGS}.values())]
    yield ["## Timings", *(_entry(entry) for entry in OF_SWEEPS.values())]
    yield ["## Columns of runs.csv", _columns(columns.COLUMNS)]
    yield [
        "## Tables of trainings",
        "Beside run, factors and status.",
        *(_TABLES[name] for name in _OF_TRAININGS),
    ]
    yield [
        "## Tables of decisions",
        "Beside the factors of a series; `claims.csv` is the study's and has a row per claim. "
        "`limits.csv` has the columns of `sweeps.csv`, of the experiments under `beside`.",
        *(_TABLES[name] for name in _DECISIONS),
    ]
    yield ["## Tables of timings", *(_TABLES[name] for name in tables.OF_TIMINGS)]
    yield ["## Figures", *(f"### {item.name}\n\n{item.caption}" for item in _FIGURES)]


def _entries() -> Iterable[tuple[str, str]]:
    """Yields name and text of everything that can be asked for."""
    for factor in {**run_factors.FACTORS, **run_factors.TIMING_ONLY_FACTORS}.values():
        yield factor.name, _parameters("factor", [factor])
    for entry in measure_settings.ENTRIES.values():
        yield entry.name, _entry(entry)
    for name, column in columns.COLUMNS.items():
        if name not in run_factors.FACTORS:
            yield name, _columns({name: column})
    for name, found in _COLUMNS.items():
        yield f"{name}.csv", _columns(found)
        for column, entry in found.items():
            if column not in _FIRST:
                yield column, f"{name}.csv:\n\n{_columns({column: entry})}"
    for figure in _FIGURES:
        yield figure.name, f"Figure {figure.name}: {figure.caption}"


_FIGURES = tuple(figures.FIGURES.values())


def _entry(entry: Entry) -> str:
    parts = [f"### {entry.name}", entry.doc]
    if entry.settings:
        parts.append(_parameters("setting", entry.settings))
    if entry.columns:
        parts.append(_columns(entry.columns))
    return "\n\n".join(parts)


def _parameters(noun: str, parameters: Iterable[Parameter]) -> str:
    rows = []
    for item in parameters:
        left_out = "-" if item.core else f"`{spelled(item, item.birth)}`"
        expected = item.expected.replace("|", "\\|")
        rows.append((f"`{item.name}`", f"`{item.alias}`", left_out, item.doc, expected))
    return _table((noun, "alias", "if left out", "what it is", "expected"), rows)


def _columns(found: dict[str, Column]) -> str:
    rows = [(f"`{name}`", item.unit, item.doc) for name, item in found.items()]
    return _table(("column", "unit", "what it holds"), rows)


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [head, ("---",) * len(head), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


# What a row is of, in many tables.
_FIRST = {*run_factors.FACTORS, *columns.COLUMNS}
_COLUMNS = {name: table.columns for name, table in tables.TABLES.items() if table.columns}
_COLUMNS["claims"] = CLAIMS  # of a study, not of an experiment
_DECISIONS = [name for name in tables.DECISIONS if name != "advice"]
_DECISIONS.append("claims")
_OF_TRAININGS = [name for name in _COLUMNS if name not in {*tables.OF_TIMINGS, *_DECISIONS}]


def _of_table(name: str) -> str:
    keys = tables.TABLES[name].keys if name in tables.TABLES else None
    text = "A [claim](claims.md) may be of it"
    if keys:
        text += f"; rows are distinguished by {wording.listed(f'`{key}`' for key in keys)}"
    claim = "" if keys is None else f"{text}.\n\n"
    return f"### {name}.csv\n\n{claim}{_columns(_COLUMNS[name])}"


_TABLES = {name: _of_table(name) for name in _COLUMNS}
