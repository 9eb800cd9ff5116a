"""Numbers of documents beside ours, on the page."""

from __future__ import annotations

import math

from batchscope.report import page, published_rows
from html_page import Page


def test_ours_and_theirs_stand_side_by_side():
    first = {"column": "test_accuracy", "value": 0.55, "series": "SGD <1>", "document": "Table 4"}
    first |= {"figure": "accuracy", "batch_size": 16, "here_n": 6, "here_reason": math.nan}
    ours = {"here": 0.6, "here_low": 0.5, "here_high": 0.7}
    row, absent = (
        {**published_rows.described_value({**first, **given}), "experiment": "Ours", "link": link}
        for given, link in (
            (ours, ("Figure 3", "#figure-3")),
            (dict.fromkeys(ours, math.nan), None),
        )
    )
    assert (row["published"], row["unit"], row["here"]) == ("55", "%", ("60", "50", "70"))
    assert absent["here"] is None
    used = {"dataset": "digits", "published": 23262, "place": "Setup", "counts": {"test": 355}}
    beside = {"examples": [used], "measured": [row], "absent": [absent]}
    parsed = Page(page.render("published.html.j2", section=beside))
    assert len(parsed.all("table")) == 2 and "SGD <1>" in parsed.text and "23,262" in parsed.text
    assert [each["href"] for each in parsed.all("a")] == ["#figure-3"]
