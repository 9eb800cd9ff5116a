"""Write the reference in Markdown: every factor, measure, timing, column, figure and word."""

import re
from collections.abc import Iterable

from batchscope.core import display
from batchscope.core.errors import UserError
from batchscope.core.problems import received
from batchscope.study import explanations, table_entries
from batchscope.study.decision_columns import CLAIMS, INTERIMS
from batchscope.study.figures import FIGURES
from batchscope.study.model import Parameter
from batchscope.study.registry import ENTRIES, MEASURES, SWEEP_TIMINGS, TRAINING_TIMINGS
from batchscope.study.run_factors import FACTORS, TIMING_ONLY_FACTORS
from batchscope.study.specifications import AXIS_WORDS, Column, Entry, Figure


def _without_entries(described: dict[str, Column]) -> dict[str, Column]:
    """Return the columns that are neither factors nor columns of measures and timings."""
    elsewhere = {*FACTORS}.union(*(entry.columns for entry in ENTRIES.values()))
    return {name: column for name, column in described.items() if name not in elsewhere}


_COLUMNS = {name: table.columns for name, table in table_entries.TABLES.items() if table.columns}
_COLUMNS["at_epochs"] = _without_entries(table_entries.AT_EPOCHS)
_COLUMNS |= {"claims": CLAIMS, "interims": INTERIMS}  # tables of a study, not of an experiment
_DECISIONS = [*(name for name in table_entries.DECISIONS if name != "advice"), "claims"]
_WORDS = "## Words of the report"
_TRAINING_TABLES = [
    name for name in _COLUMNS if name not in {*table_entries.TIMING_TABLES, *_DECISIONS}
]


def full_page() -> str:
    """Return the page docs/reference.md."""
    parts = [
        "# Reference",
        "Printed by `python workflow/run.py explain`; `explain NAME` prints one entry.",
        "## Factors",
        "A study must state the factors without a default. Names of runs spell the short names.",
        _parameters(FACTORS.values()),
        "## Factors of times alone",
        _parameters(TIMING_ONLY_FACTORS.values()),
        "## Measures",
        *(_entry(entry) for entry in {**MEASURES, **TRAINING_TIMINGS}.values()),
        "## Timings",
        *(_entry(entry) for entry in SWEEP_TIMINGS.values()),
        "## Columns of runs.csv",
        "Besides the factors, and the columns of measures and timings above.",
        _columns(_without_entries(table_entries.RUNS)),
        "## Tables of trainings",
        "Besides run, factors and status; `at_epochs.csv` also has the columns of measures. "
        "[Claims](claims.md) may use a table with a line `Keys`, which distinguish a run's rows.",
        *(_table_text(name) for name in _TRAINING_TABLES),
        "## Tables of decisions",
        "Besides the factors of a series. See [verdicts](measures.md#how-a-verdict-is-reached). "
        "`claims.csv` has a row per claim, `limits.csv` the columns of `sweeps.csv`.",
        *(_table_text(name) for name in _DECISIONS),
        "## Tables of timings",
        *(_table_text(name) for name in table_entries.TIMING_TABLES),
        "## Figures",
        *(f"### {figure.name}\n\n{_caption(figure)}" for figure in FIGURES.values()),
        _WORDS,
        "The text behind each question mark; `explain` ignores case and underscores.",
        _list((f"`{word}`", text) for word, text in explanations.EXPLANATIONS.items()),
    ]
    return "\n\n".join(parts) + "\n"


def entries(name: str) -> str:
    """Return the sections and items of the page with a name, or the text of a word.

    Raises:
        UserError: If the name is unknown.
    """
    page, word = full_page(), explanations.key(name)
    # Names of columns may contain settings: `sharpness_{spaces}_{epsilons}`.
    templates = re.findall(r"^- `(\w+{[^`]+)`", page, re.M)
    matching = [item for item in templates if re.fullmatch(re.sub(r"{\w+}", ".+", item), name)]
    pattern = "|".join(map(re.escape, (name, *matching)))
    title, text = display.capital(word.replace("_", " ")), explanations.EXPLANATIONS.get(word)
    parts = [f"{title}: {text}"] if text else []
    for section in re.split(r"\n(?=#)", page.partition(_WORDS)[0]):
        heading, _, body = section.strip().partition("\n\n")
        if heading.lstrip("# ") == name:
            parts.append(section.strip())
        elif not any(part.startswith("## ") for part in parts):
            # Tables that repeat an item of a section `##` (factors, runs.csv) are left out.
            items = re.findall(rf"^- `(?:{pattern})`.*", body, re.M)
            parts += ["\n".join([heading, "", *items])] if items else []
    if not parts:
        names = re.findall(r"^(?:### |- `)(\w+)", page, re.M)
        expected = "a factor, measure, timing, column, figure or word of the report"
        raise UserError(received(("explain",), name, expected, names).line)
    return "\n\n".join(parts) + "\n"


def _entry(entry: Entry) -> str:
    lists = [_parameters(entry.parameters.values()), _columns(entry.columns)]
    return "\n\n".join(filter(None, [f"### {entry.name}", entry.doc, *lists]))


def _table_text(name: str) -> str:
    keys, line = table_entries.TABLES[name].keys if name in table_entries.TABLES else None, ""
    if keys is not None:
        line = f"Keys: {display.listed([f'`{key}`' for key in keys] or ['none'])}.\n\n"
    return f"### {name}.csv\n\n{line}{_columns(_COLUMNS[name])}"


def _caption(figure: Figure) -> str:
    if figure.variant_of:
        return f"`{figure.variant_of}` by {AXIS_WORDS[figure.variant_axis]}."
    return figure.caption


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
