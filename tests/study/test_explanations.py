"""Every check, verdict, grade and headline has an explanation of one sentence or two."""

import ast
from pathlib import Path

import pytest

from batchscope.analysis import advice
from batchscope.cli import reference
from batchscope.report import page
from batchscope.study.explanations import EXPLANATIONS
from batchscope.study.outcomes import Verdict
from html_page import Page

SOURCES = Path(advice.__file__).parents[1]
HEADLINES = {
    *("recommended", "nothing_learned", "rate_not_found", "not_distinguished", "no_outcome")
}


def names_of_checks():
    """Yield the names of the checks and needs that the advice can have, as its code spells them."""
    for path in [*SOURCES.glob("analysis/advice*.py"), SOURCES / "study" / "advice_needs.py"]:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            called = isinstance(node, ast.Call) and getattr(node.func, "id", "")
            if called in ("_check", "_flagged", "Need"):
                yield from list(filter(None, map(text_of, node.args[:2])))[:1]


def text_of(argument):
    """Return the text of a literal, or of a constant of the advice; an empty text of others."""
    value = getattr(argument, "value", getattr(advice, getattr(argument, "id", ""), ""))
    return value if isinstance(value, str) else ""


def test_each_code_has_one():
    checks = {*names_of_checks()}
    assert len(checks) >= 15 and {"baseline", "rate_on_edge", "seeds", "target"} <= checks
    codes = {*Verdict, *advice.Grade, *HEADLINES, *checks}
    assert codes - EXPLANATIONS.keys() == set()


def test_each_is_short():
    assert {word for word, text in EXPLANATIONS.items() if not 40 <= len(text) <= 90} == set()


@pytest.mark.parametrize("word", ["not_resolved", "Not resolved", "critical batch size", "p-value"])
def test_explain_takes_the_words_of_a_reader(word):
    key = word.lower().replace(" ", "_").replace("-", "_")
    assert EXPLANATIONS[key] in reference.entries(word)


def test_a_question_mark_opens_its_text_without_a_script():
    template = """{% from "macros.html.j2" import help, help_texts -%}
    {% set content %}<p>{{ help("within") }}{{ help("no_such_word") }}</p>{% endset -%}
    {{ content }}{{ help_texts(content) }}"""
    html = page._environment().from_string(template).render()
    (button,) = Page(html).all("button")
    assert button["popovertarget"] == "help-within" and button["type"] == "button"
    assert button["aria-label"] == "Explain: within"
    (opened,) = Page(html).all("div")
    assert "popover" in opened and opened["id"] == "help-within"
