"""Self-contained HTML pages from our templates: nothing in them runs but our script, or fetches.

Templates of plain text end in .txt.j2, and escape nothing.
"""

from __future__ import annotations

import base64
import functools
import hashlib
from typing import Any

import jinja2

from batchscope import project_files


def render(template: str, **values: Any) -> str:
    """Returns a page; every text is escaped there, but for our own style sheet and script."""
    return _environment().get_template(template).render(**values)


def words(template: str) -> Any:
    """Returns the macros of a template of plain text."""
    return _environment().get_template(template).module


@functools.cache
def _environment() -> jinja2.Environment:
    """Returns what compiles each template once: it takes longer than to fill it in."""
    return jinja2.Environment(
        loader=jinja2.FileSystemLoader(project_files.TEMPLATES),
        autoescape=lambda name: name is None or not name.endswith(".txt.j2"),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )


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
