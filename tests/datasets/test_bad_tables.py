"""Tables as people have them: each is answered in one go, with all of its problems."""

import codecs

import pytest
from test_csv_file import csv

from batchscope import errors
from prepared_data import faults

DAYS = [f"2024-01-{day:02}" for day in range(1, 13)]
NUMBERS = [0.5, 2, 2, 7.25, 1, 1, 3, 8, 2.5, 0, 4, 4]
JOBS = ["clerk", "nurse", "chef"] * 4
CLASSES = ["no", "yes"] * 6


def table(separator=",", **columns):
    """Lines of 12 rows, below the names of the columns; `_` stands for no name."""
    head = separator.join("" if name == "_" else name for name in columns)
    rows = zip(*columns.values(), strict=True)
    return [head, *(separator.join(map(str, row)) for row in rows)]


def but(cells, **changed):
    """Cells of which some are others, by their rows: `but(NUMBERS, r3="x")`."""
    return [changed.get(f"r{row}", cell) for row, cell in enumerate(cells)]


def plain(**columns):
    labels = columns.pop("y", CLASSES)
    return table(a=NUMBERS, **columns, y=labels)


def altered(lines, old, new):
    return [line.replace(old, new) for line in lines]


# Name -> the lines, more of the definition, and place and received value of each problem.
BAD = {
    "index column": (plain(_=range(12)), {}, [("column 2", "the numbers of the rows, 0 to 11")]),
    "ids that are words": (
        plain(id=[f"p{row}" for row in range(12)]),
        {"categorical": "auto"},
        [("column id", "'p0' and another word in each row")],
    ),
    "dates": (
        plain(day=DAYS, time=[f"{day} 10:00:00" for day in DAYS], de=["1.2.2024", "13.12.24"] * 6),
        {"categorical": "auto"},
        [
            ("column day", "dates, such as '2024-01-01'"),
            ("column time", "dates, such as '2024-01-01 10:00:00'"),
            ("column de", "dates, such as '1.2.2024'"),
        ],
    ),
    "missing cells": (
        plain(b=but(NUMBERS, r3="", r5="NA", r7="?"), job=but(JOBS, r0=" ")),
        {"categorical": ["job"]},
        [("column b, line 5", "nothing (and 2 more cells)"), ("column job, line 2", "nothing")],
    ),
    "ragged lines, and a wrong cell": (
        [*plain(b=but(NUMBERS, r1="red"))[:6], "1,2", "1,2,3,4", "", *plain(b=NUMBERS)[6:]],
        {},
        [("line 7", "2 columns"), ("line 8", "4 columns"), ("column b, line 3", "'red'")],
    ),
    "wrong names": (
        plain(job=JOBS),
        {"label": "yy", "ignore": ["b"], "categorical": ["a", "jobs"]},
        [("own.categorical", "'jobs'"), ("own.label", "'yy'"), ("own.ignore", "'b'")],
    ),
    "one class": (plain(y=["no"] * 12), {}, [("column y", "one class")]),
    "an open quote": ([*plain(), '1,"no'], {}, [("line 14", "a cell that cannot be read")]),
    "decimal commas and points": (
        table(";", a=but([str(n).replace(".", ",") for n in NUMBERS], r6="1.5"), y=CLASSES),
        {},
        [("column a, line 8", "'1.5'")],
    ),
    "classes that are spelled in two ways": (
        plain(y=["<=50K", "<=50K.", ">50K", "<=50K"] * 3),
        {},
        [("column y", "'<=50K' (6 rows) and '<=50K.' (3 rows)")],
    ),
    "no names": (plain(job=JOBS)[1:], {"label": 3}, [("line 1", "'clerk' beside numbers")]),
    "quantities or classes": (
        plain(y=range(12)),
        {},
        [("column y", "12 different whole numbers in 12 rows")],
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_every_problem_at_once(name, tmp_path):
    lines, more, expected = BAD[name]
    definition = csv(tmp_path, "\n".join(lines), **more)
    found = [line.removeprefix("datasets.") for line in faults(tmp_path, definition)]
    assert len(found) == len(expected), found
    for line, (place, received) in zip(found, expected, strict=True):
        where, _, text = line.partition(": received ")
        assert where.endswith(place) and text.startswith(received), line
        assert text[len(received)] in ";, (", line


@pytest.mark.parametrize(
    ("content", "place", "received"),
    [
        ("a,y\n1,né\n".encode("latin-1"), "own.csv, line 2", "'1,né' in Latin-1"),
        (codecs.BOM_UTF16 + "a,y\n".encode("utf-16-le"), "own.csv", "a binary file"),
        (b'""', "own.csv", "blank lines alone"),
    ],
)
def test_a_file_of_other_bytes(content, place, received, tmp_path):
    definition = csv(tmp_path, "")
    (tmp_path / "own.csv").write_bytes(content)
    (line,) = faults(tmp_path, definition)
    assert f"{place}: received {received};" in line


def test_many_problems_are_counted(tmp_path):
    lines = [*plain(), *[*["1"] * 8, *plain()[1:]] * 10]
    found = faults(tmp_path, csv(tmp_path, "\n".join(lines)))
    assert len(found) == errors._MOST_LISTED + 1 and ": 60 more" in found[-1]


def test_many_words_are_no_categories(tmp_path):
    words = [f"w{row // 2}" for row in range(210)]
    text = "\n".join(
        ["job,town,a,y", *(f"{word},{word},{row % 7},{row % 2}" for row, word in enumerate(words))]
    )
    for given in ("auto", ["job", "town"]):
        first, second = faults(tmp_path, csv(tmp_path, text, categorical=given))
        assert "column job: received 105 different words" in first and "column town" in second
