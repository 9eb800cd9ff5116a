"""The README's tables, made from the registries: `python tests/readme.py` writes them."""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
README = ROOT / "README.md"
sys.path.insert(0, str(ROOT / "workflow"))


def _default(parameter) -> str:
    from batchscope.catalogue.parameters import format_value

    return "-" if parameter.birth is None else f"`{format_value(parameter, parameter.birth)}`"


def _row(parameter, *first: str) -> str:
    expected = parameter.expected.replace("|", "\\|")
    cells = [*first, f"`{parameter.alias}`", _default(parameter), parameter.doc, expected]
    return "| " + " | ".join(cells) + " |"


def factors() -> str:
    from batchscope.catalogue import run_factors

    head = "| factor | alias | if left out | what it is | expected |\n|---|---|---|---|---|\n"
    return head + "\n".join(_row(p, f"`{p.name}`") for p in run_factors.FACTORS.values())


def measures() -> str:
    from batchscope.catalogue.measure_settings import MEASURES

    head = "| measure | setting | alias | if left out | what it is | expected |\n"
    rows = [
        _row(setting, f"`{measure}`", f"`{setting.name}`")
        for measure, settings in MEASURES.items()
        for setting in settings.values()
    ]
    return head + "|---|---|---|---|---|---|\n" + "\n".join(rows)


def columns() -> str:
    from batchscope.tables import run_table

    return run_table.markdown().strip()


def timing_factors() -> str:
    from batchscope.catalogue import run_factors

    head = "| factor | alias | if left out | what it is | expected |\n|---|---|---|---|---|\n"
    rows = [_row(factor, f"`{name}`") for name, factor in run_factors.TIMING_ONLY_FACTORS.items()]
    return head + "\n".join(rows)


def timings() -> str:
    from batchscope.catalogue.measure_settings import TIMINGS

    head = "| timing | setting | alias | if left out | what it is | expected |\n"
    rows = [
        _row(setting, f"`{timing}`", f"`{setting.name}`")
        for timing, settings in TIMINGS.items()
        for setting in settings.values()
    ]
    return head + "|---|---|---|---|---|---|\n" + "\n".join(rows)


def timing_columns() -> str:
    from batchscope.catalogue import timing_columns

    rows = [
        f"| `{table}` | `{column}` | {doc} |"
        for table, columns in timing_columns.COLUMNS.items()
        for column, doc in columns.items()
    ]
    return "| table | column | what it holds |\n|---|---|---|\n" + "\n".join(rows)


TABLES = {
    "factors": factors,
    "measures": measures,
    "columns": columns,
    "timing_factors": timing_factors,
    "timings": timings,
    "timing_columns": timing_columns,
}


def written(text: str) -> str:
    """Returns the README with its tables made anew."""
    for name, make in TABLES.items():
        pattern = rf"(<!-- {name} -->\n).*?(<!-- end -->)"
        assert re.search(pattern, text, re.S), name
        body = make()
        text = re.sub(pattern, lambda m, body=body: f"{m[1]}{body}\n{m[2]}", text, flags=re.S)
    return text


if __name__ == "__main__":
    README.write_text(written(README.read_text(encoding="utf-8")), encoding="utf-8")
