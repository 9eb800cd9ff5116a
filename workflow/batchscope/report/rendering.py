"""Jinja: a template and its values -> HTML or plain text.

The functions of `core.display` and `report.text` are filters; any other filter is in `_FILTERS`.
All templates escape, because a page trusts the macros of any other template. The text of a template
that ends in .txt.j2 is therefore unescaped at the end.
"""

import base64
import functools
import hashlib
import inspect
from typing import Any

import jinja2
from markupsafe import Markup

from batchscope.core import display, project_files
from batchscope.host import requirements
from batchscope.report import text
from batchscope.study import explanations

_FILTERS = {
    **{
        name: function
        for module in (display, text)
        for name, function in inspect.getmembers(module, inspect.isfunction)
        if function.__module__ == module.__name__
    },
    "status": requirements.label,
    "verdict": text.VERDICTS.get,
}


def render(template: str, **values: Any) -> str:
    text = _environment().get_template(template).render(**values)
    return Markup(text).unescape() if template.endswith(".txt.j2") else text


def phrase(macro: str, row: dict[str, Any]) -> str:
    module = _environment().get_template("claim_words.html.j2").module
    return Markup(getattr(module, macro)(row)).unescape()


@functools.cache
def _environment() -> jinja2.Environment:
    """Return the environment of all templates, which compiles each template once."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(project_files.TEMPLATES),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters.update(_FILTERS)
    environment.globals["explanations"] = explanations.EXPLANATIONS
    return environment


def asset(name: str) -> str:
    return (project_files.TEMPLATES / name).read_text(encoding="utf-8")


def policy(script: str = "") -> str:
    """Return a Content-Security-Policy that allows this script only, and no request."""
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    scripts = f"'sha256-{digest}'" if script else "'none'"
    return (
        f"default-src 'none'; style-src 'unsafe-inline'; script-src {scripts}; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )
