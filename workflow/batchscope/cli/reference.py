"""The reference: every factor, measure, timing, column, figure and word, as Markdown."""

from __future__ import annotations

from collections.abc import Iterable

from batchscope import wording
from batchscope.errors import UserError
from batchscope.problems import nearest
from batchscope.study import columns, explanations, tables
from batchscope.study.decision_columns import CLAIMS, INTERIMS
from batchscope.study.figures import FIGURES
from batchscope.study.registry import MEASURES, OF_SWEEPS, OF_TRAININGS
from batchscope.study.run_factors import FACTORS, TIMING_ONLY_FACTORS
from batchscope.study.setting import Parameter
from batchscope.study.specifications import Column, Entry
from batchscope.study.versions import ENTRIES


def _without_entries(described: dict[str, Column]) -> dict[str, Column]:
    """Return the columns without factors and columns of measures and timings."""
    elsewhere = {*FACTORS}.union(*(entry.columns for entry in ENTRIES.values()))
    return {name: column for name, column in described.items() if name not in elsewhere}


_COLUMNS = {name: table.columns for name, table in tables.TABLES.items() if table.columns}
_COLUMNS["at_epochs"] = _without_entries(columns.AT_EPOCHS)
_COLUMNS |= {"claims": CLAIMS, "interims": INTERIMS}  # of a study, not of an experiment
_DECISIONS = [*(name for name in tables.DECISIONS if name != "advice"), "claims"]
_OF_TRAININGS = [name for name in _COLUMNS if name not in {*tables.OF_TIMINGS, *_DECISIONS}]


def whole() -> str:
    """Returns the whole reference."""
    parts = [
        "# Reference",
        "Printed by `python workflow/run.py explain`; `explain NAME` prints one entry.",
        "## Factors",
        "A study must state the factors without a default. Names of runs spell the short names.",
        _parameters(FACTORS.values()),
        "## Factors of times alone",
        _parameters(TIMING_ONLY_FACTORS.values()),
        "## Measures",
        *(_entry(entry) for entry in {**MEASURES, **OF_TRAININGS}.values()),
        "## Timings",
        *(_entry(entry) for entry in OF_SWEEPS.values()),
        "## Columns of runs.csv",
        "Besides the factors, and the columns of measures and timings above.",
        _columns(_without_entries(columns.COLUMNS)),
        "## Tables of trainings",
        "Besides run, factors and status; `at_epochs.csv` also has the columns of measures.",
        *(_of_table(name) for name in _OF_TRAININGS),
        "## Tables of decisions",
        "Besides the factors of a series. `claims.csv` has a row for each claim of a study. "
        "`limits.csv` has the columns of `sweeps.csv`.",
        *(_of_table(name) for name in _DECISIONS),
        "## Tables of timings",
        *(_of_table(name) for name in tables.OF_TIMINGS),
        "## Figures",
        *(f"### {figure.name}\n\n{figure.caption}" for figure in FIGURES.values()),
        "## Words of the report",
        "The text behind each question mark; `explain` ignores case and underscores.",
        _list((f"`{word}`", text) for word, text in explanations.EXPLANATIONS.items()),
    ]
    return "\n\n".join(parts) + "\n"


def one(name: str) -> str:
    """Return the text of a factor, measure, timing, column, figure or word of the report.

    Raises:
        UserError: If nothing has that name.
    """
    words = explanations.key(name)
    found = [part for entry, part in _entries() if entry in (name, words)]
    if not found:
        match = nearest(name, dict.fromkeys(entry for entry, _ in _entries()))
        hint = f" Did you mean '{match}'?" if match else ""
        raise UserError(
            f"explain: received {name!r}; a factor, measure, timing, column, figure or word of the "
            f"report is expected.{hint}"
        )
    return "\n\n".join(found) + "\n"


def _entries() -> Iterable[tuple[str, str]]:
    """Yield name and text of each entry that `explain` prints."""
    for word, text in explanations.EXPLANATIONS.items():
        yield word, f"{wording.capital(word.replace('_', ' '))}: {text}"
    for factor in {**FACTORS, **TIMING_ONLY_FACTORS}.values():
        yield factor.name, _parameters([factor])
    for entry in ENTRIES.values():
        yield entry.name, _entry(entry)
    for name, column in columns.COLUMNS.items():
        if name not in FACTORS:
            yield name, _columns({name: column})
    for name, found in _COLUMNS.items():
        yield f"{name}.csv", _columns(found)
        for column, entry in found.items():
            # What a row is of, in many tables, is none of theirs.
            if column not in FACTORS and column not in columns.COLUMNS:
                yield column, f"{name}.csv:\n\n{_columns({column: entry})}"
    for figure in FIGURES.values():
        yield figure.name, f"Figure {figure.name}: {figure.caption}"


def _entry(entry: Entry) -> str:
    parts = [f"### {entry.name}", entry.doc]
    if entry.parameters:
        parts.append(_parameters(entry.parameters.values()))
    if entry.columns:
        parts.append(_columns(entry.columns))
    return "\n\n".join(parts)


def _of_table(name: str) -> str:
    keys, claim = tables.TABLES[name].keys if name in tables.TABLES else None, ""
    if keys is not None:
        listed = wording.listed(f"`{key}`" for key in keys)
        by = f"; rows are distinguished by {listed}" if keys else ""
        claim = f"A [claim](claims.md) may be of it{by}.\n\n"
    return f"### {name}.csv\n\n{claim}{_columns(_COLUMNS[name])}"


def _parameters(parameters: Iterable[Parameter]) -> str:
    items = []
    for item in parameters:
        default = "" if item.default is None else f", default `{item.spelled(item.default)}`"
        items.append((f"`{item.name}` (`{item.alias}`{default}; {item.allowed})", item.doc))
    return _list(items)


def _columns(described: dict[str, Column]) -> str:
    units = {name: f" ({item.unit})" if item.unit else "" for name, item in described.items()}
    return _list((f"`{name}`{units[name]}", item.doc) for name, item in described.items())


def _list(items: Iterable[tuple[str, str]]) -> str:
    return "\n".join(f"- {name}: {text}" for name, text in items)
