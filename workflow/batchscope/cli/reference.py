"""The reference: every factor, measure, timing, column, figure and word, as Markdown."""

from __future__ import annotations

import re
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

_COLUMNS = {name: table.columns for name, table in tables.TABLES.items() if table.columns}
_COLUMNS |= {"claims": CLAIMS, "interims": INTERIMS}  # of a study, not of an experiment
_DECISIONS = [*(name for name in tables.DECISIONS if name != "advice"), "claims"]
_WORDS = "## Words of the report"
_OF_TRAININGS = [name for name in _COLUMNS if name not in {*tables.OF_TIMINGS, *_DECISIONS}]


def whole() -> str:
    """Return the page docs/reference.md."""
    parts = [
        "# Reference",
        "Printed by `python workflow/run.py explain`; `explain NAME` prints one entry.",
        "## Factors",
        "What a training is made of. A dash means that the factor must be given.",
        _parameters("factor", FACTORS.values()),
        "## Factors of times alone",
        _parameters("factor", TIMING_ONLY_FACTORS.values()),
        "## Measures",
        *(_entry(entry) for entry in {**MEASURES, **OF_TRAININGS}.values()),
        "## Timings",
        *(_entry(entry) for entry in OF_SWEEPS.values()),
        "## Columns of runs.csv",
        _columns(columns.COLUMNS),
        "## Tables of trainings",
        "Beside run, factors and status.",
        *(_of_table(name) for name in _OF_TRAININGS),
        "## Tables of decisions",
        "Beside the factors of a series; `claims.csv` is the study's and has a row per claim. "
        "`limits.csv` has the columns of `sweeps.csv`, of the experiments under `beside`.",
        *(_of_table(name) for name in _DECISIONS),
        "## Tables of timings",
        *(_of_table(name) for name in tables.OF_TIMINGS),
        "## Figures",
        *(f"### {figure.name}\n\n{figure.caption}" for figure in FIGURES.values()),
        _WORDS,
        "The text behind each question mark; `explain` takes the word with or without underscores.",
        _table(
            ("word", "meaning"),
            ((f"`{word}`", text) for word, text in explanations.EXPLANATIONS.items()),
        ),
    ]
    return "\n\n".join(parts) + "\n"


def entries(name: str) -> str:
    """Return the sections and the rows of the page with a name, or the text of a word.

    Raises:
        UserError: If nothing has that name.
    """
    page, word = whole(), explanations.key(name)
    parts = []
    if word in explanations.EXPLANATIONS:
        title = wording.capital(word.replace("_", " "))
        parts.append(f"{title}: {explanations.EXPLANATIONS[word]}")
    for section in re.split(r"\n(?=#)", page.partition(_WORDS)[0]):
        heading, *blocks = section.strip().split("\n\n")
        if heading.lstrip("# ") == name:
            parts.append(section.strip())
            continue
        if any(part.startswith("## ") for part in parts):
            continue  # a factor, or a column of runs.csv: other tables repeat it
        for block in blocks:
            rows = re.findall(rf"^\| `{re.escape(name)}` .*", block, re.M)
            if rows:
                parts.append("\n".join([heading, "", *block.splitlines()[:2], *rows]))
    if not parts:
        match = nearest(name, re.findall(r"^(?:### |\| `)(\w+)", page, re.M))
        hint = f" Did you mean '{match}'?" if match else ""
        raise UserError(
            f"explain: received {name!r}; a factor, measure, timing, column, figure or word of the "
            f"report is expected.{hint}"
        )
    return "\n\n".join(parts) + "\n"


def _entry(entry: Entry) -> str:
    parts = [f"### {entry.name}", entry.doc]
    if entry.parameters:
        parts.append(_parameters("setting", entry.parameters.values()))
    if entry.columns:
        parts.append(_columns(entry.columns))
    return "\n\n".join(parts)


def _of_table(name: str) -> str:
    keys, claim = tables.TABLES[name].keys if name in tables.TABLES else None, ""
    if keys is not None:
        key_names = wording.listed(f"`{key}`" for key in keys)
        by = f"; rows are distinguished by {key_names}" if keys else ""
        claim = f"A [claim](claims.md) may be of it{by}.\n\n"
    return f"### {name}.csv\n\n{claim}{_columns(_COLUMNS[name])}"


def _parameters(noun: str, parameters: Iterable[Parameter]) -> str:
    rows = []
    for item in parameters:
        left_out = "-" if item.default is None else f"`{item.spelled(item.default)}`"
        expected = item.allowed.replace("|", "\\|")
        rows.append((f"`{item.name}`", f"`{item.alias}`", left_out, item.doc, expected))
    return _table((noun, "alias", "if left out", "what it is", "expected"), rows)


def _columns(columns_by_name: dict[str, Column]) -> str:
    rows = [(f"`{name}`", item.unit, item.doc) for name, item in columns_by_name.items()]
    return _table(("column", "unit", "what it holds"), rows)


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [head, ("---",) * len(head), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)
