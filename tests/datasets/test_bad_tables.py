"""Tables as people have them: all problems of a table are reported at once."""

import pytest

from prepared_data import csv, faults

DAYS = [f"2024-01-{day:02}" for day in range(1, 13)]
NUMBERS = [0.5, 2, 2, 7.25, 1, 1, 3, 8, 2.5, 0, 4, 4]
JOBS = ["clerk", "nurse", "chef"] * 4
CLASSES = ["no", "yes"] * 6


def table(separator=",", **columns):
    """Return the lines of 12 rows, below the names of the columns; `_` stands for no name."""
    head = separator.join("" if name == "_" else name for name in columns)
    rows = zip(*columns.values(), strict=True)
    return [head, *(separator.join(map(str, row)) for row in rows)]


def but(cells, **changed):
    """Return cells with some replaced, by their rows: `but(NUMBERS, r3="x")`."""
    return [changed.get(f"r{row}", cell) for row, cell in enumerate(cells)]


def plain(**columns):
    labels = columns.pop("y", CLASSES)
    return table(a=NUMBERS, **columns, y=labels)


# Name -> the lines, more of the definition, and place and received value of each problem.
BAD = {
    "columns that are no features": (
        plain(
            _=range(12),
            id=[f"p{row}" for row in range(12)],
            day=DAYS,
            time=[f"{day} 10:00:00" for day in DAYS],
            de=["1.2.2024", "13.12.24"] * 6,
            five=[5] * 12,
            empty=[""] * 12,
            large=but(NUMBERS, r2="inf"),
        ),
        {},
        [
            (
                "own.csv",
                "2 (the numbers of the rows, 0 to 11), id (12 different words, such as 'p0'), "
                "day (dates, such as '2024-01-01'), time (dates, such as '2024-01-01 10:00:00'), "
                "de (dates, such as '1.2.2024'), five (5 in every row), empty (no value), "
                "large (a number above 3.4e+38)",
            ),
        ],
    ),
    "missing cells": (
        plain(b=but(NUMBERS, r3="", r5="NA", r7="?"), job=but(JOBS, r0=" ")),
        {},
        [("column b, row 4", "nothing (and 2 more cells)"), ("column job, row 1", "nothing")],
    ),
    "missing labels": (
        plain(y=but(CLASSES, r4="")),
        {"missing": "median"},
        [("column y, row 5", "nothing")],
    ),
    "a word among numbers, and dates": (
        plain(b=but(NUMBERS, r1="red"), day=DAYS),
        {},
        [("column b, row 2", "'red'"), ("own.csv", "day (dates, such as '2024-01-01')")],
    ),
    "wrong names": (
        plain(job=JOBS),
        {"label": "yy", "ignore": ["b"], "categorical": ["a", "jobs"]},
        [("own.label", "'yy'"), ("own.ignore", "'b'"), ("own.categorical", "'jobs'")],
    ),
    "a name twice": (
        ["y,a,y", *(f"0,{line}" for line in plain()[1:])],
        {},
        [("own.csv", "'y' as the name of 2 columns")],
    ),
    "decimal commas and points": (
        table(";", a=but([str(n).replace(".", ",") for n in NUMBERS], r6="1.5"), y=CLASSES),
        {"separator": ";", "decimal": ","},
        [("column a, row 7", "'1.5'")],
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_all_problems_are_reported_at_once(name, tmp_path):
    lines, options, expected = BAD[name]
    definition = csv(tmp_path, "\n".join(lines), **options)
    reported = [line.removeprefix("datasets.") for line in faults(tmp_path, definition)]
    assert len(reported) == len(expected), reported
    for line, (place, received) in zip(reported, expected, strict=True):
        where, _, text = line.partition(": received ")
        assert where.endswith(place) and text.startswith(received), line
        assert text[len(received)] in ";, (", line


def test_one_column_is_refused(tmp_path):
    (line,) = faults(tmp_path, csv(tmp_path, "\n".join(plain()), separator=";"))
    assert "own.csv: received one column (a,y);" in line


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("a,y\n1,n\u00e9\n".encode("latin-1"), "'utf-8' codec"),
        (b"a,y\n1,no\n1,no,2\n", "Error tokenizing data. C error: Expected 2 fields in line 3"),
    ],
)
def test_a_file_that_pandas_cannot_read(content, reason, tmp_path):
    definition = csv(tmp_path, "")
    (tmp_path / "own.csv").write_bytes(content)
    (line,) = faults(tmp_path, definition)
    assert f"own.csv: cannot be read ({reason}" in line


def test_many_problems_are_counted(tmp_path):
    columns = {f"c{index}": but(NUMBERS, r1="") for index in range(30)}
    lines = faults(tmp_path, csv(tmp_path, "\n".join(plain(**columns))))
    assert len(lines) == 21 and ": 10 more" in lines[-1]


def test_many_words_are_no_categories(tmp_path):
    words = [f"w{row // 2}" for row in range(210)]
    text = "\n".join(
        [
            "job,code,a,y",
            *(f"{word},{word[1:]},{row % 7},{row % 2}" for row, word in enumerate(words)),
        ]
    )
    definition = csv(tmp_path, text, categorical=["code"], ignore=["a"])
    (line,) = faults(tmp_path, definition)
    assert "received job (105 different words, such as 'w0'), code (105 different" in line
    assert line.endswith("(add `ignore: [a, job, code]`).")
