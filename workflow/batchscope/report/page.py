"""Pages and texts from our templates: the one module that renders them, and the words they share.

All of them escape every text, since an escaping page trusts the macros of any other template; what
is made of a template that ends in .txt.j2 is plain text again.
"""

from __future__ import annotations

import base64
import functools
import hashlib
import re
from typing import Any

import jinja2
from markupsafe import Markup, escape

from batchscope import project_files, wording
from batchscope.catalogue import factor_words
from batchscope.host import absence
from batchscope.report.text import plain


def markdown(text: Any) -> Markup:
    """Returns text that stands for itself in Markdown: no mark-up, no tag, no end of a cell."""
    marked = re.sub(r"([\\`*_\[\]|])", r"\\\1", str(escape(text)))
    return Markup(" ".join(marked.replace("&#34;", '"').replace("&#39;", "'").split()))


def counted(number: int, noun: str, several: str = "") -> str:
    """Returns a number with its noun: `1 run`, `1,000 runs`."""
    return f"{number:,} {noun if number == 1 else several or wording.plural(noun)}"


def cells(found: list[tuple[str, list[str]]], last: str = "and") -> str:
    """Returns names with their values: `batch size 4, epoch 1 and 2`."""
    return ", ".join(" ".join(filter(None, [name, wording.listed(of, last)])) for name, of in found)


_FILTERS = {
    **{each.__name__: each for each in (cells, counted, markdown, plain)},
    **{
        name: getattr(wording, name)
        for name in ("batch_size", "capital", "cell", "duration", "grouped", "listed", "lower")
        + ("number", "p_value", "percent", "shortest", "size")
    },
    "described": factor_words.describe,
    "bracketed": lambda ends: wording.bracketed(*ends),
    "status": absence.word,
}


def render(template: str, **values: Any) -> str:
    """Returns what a template makes of values; it goes into a file, or to the terminal."""
    text = _environment().get_template(template).render(**values)
    return Markup(text).unescape() if template.endswith(".txt.j2") else text


@functools.cache
def _environment() -> jinja2.Environment:
    """Returns what compiles each template once: it takes longer than to fill it in."""
    found = jinja2.Environment(
        loader=jinja2.FileSystemLoader(project_files.TEMPLATES),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    found.filters.update(_FILTERS)
    return found


def asset(name: str) -> str:
    """Returns one of our own files without indents and whole lines of comment.

    Refuses what could end its element early.
    """
    text = (project_files.TEMPLATES / name).read_text(encoding="utf-8")
    if "</" in text:
        raise ValueError(f"Expected no closing tag in {name}.")
    lines = (line.strip() for line in text.splitlines())
    return "\n".join(line for line in lines if line and not line.startswith("//")) + "\n"


def policy(script: str = "") -> str:
    """Returns a policy under which only this script runs, or none, and nothing is fetched."""
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    scripts = f"'sha256-{digest}'" if script else "'none'"
    return (
        f"default-src 'none'; style-src 'unsafe-inline'; script-src {scripts}; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )
