"""Every check, verdict, grade and headline has an explanation of one sentence or two."""

import re
from pathlib import Path

import pytest

from batchscope.analysis import advice
from batchscope.cli import reference
from batchscope.study import suggestions
from batchscope.study.explanations import EXPLANATIONS
from batchscope.study.outcomes import Verdict

SOURCES = Path(advice.__file__).parents[1]
HEADLINES = {
    *("recommended", "nothing_learned", "rate_not_found", "not_distinguished", "no_outcome")
}
CALL = re.compile(r"\b(?:_check|_flagged|Need)\(\s*(?:\"(\w+)\"|([A-Z_]+)\b)")


def checks() -> set[str]:
    """Return the checks and needs that the advice can have, as its code spells them."""
    paths = [*SOURCES.glob("analysis/advice*.py"), SOURCES / "study" / "suggestions.py"]
    calls = [call for path in paths for call in CALL.findall(path.read_text(encoding="utf-8"))]
    constants = vars(suggestions) | vars(advice)
    return {name or constants[constant] for name, constant in calls}


def test_each_code_has_a_short_one():
    assert len(checks()) >= 15
    assert {"baseline", "rate_on_edge", "seeds", "target", "time_epoch"} <= checks()
    codes = {*Verdict, *advice.Grade, *HEADLINES, *checks()}
    assert codes - EXPLANATIONS.keys() == set()
    assert {word for word, text in EXPLANATIONS.items() if not 40 <= len(text) <= 90} == set()


@pytest.mark.parametrize("word", ["not_resolved", "Not resolved", "critical batch size", "p-value"])
def test_explain_takes_the_words_of_a_reader(word):
    key = word.lower().replace(" ", "_").replace("-", "_")
    assert EXPLANATIONS[key] in reference.entries(word)
