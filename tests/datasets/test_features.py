"""Features of a table's rows, by hand: categories, medians and the record to apply them."""

import json

import numpy as np
import pandas
import pytest

from batchscope import datasets
from batchscope.datasets.features import Features
from batchscope.study import dataset_definitions
from prepared_data import all_parts, csv, prepared
from project import ROOT

PAGE = (ROOT / "docs" / "data_and_models.md").read_text(encoding="utf-8")
CODE = PAGE[PAGE.index("import json\n") :].partition("```")[0]
NAN = np.nan
TRAIN = pandas.DataFrame({"x": [1, NAN, 4, 7], "k": ["a", "c", NAN, "a"], "z": 5.0})
OTHERS = pandas.DataFrame({"x": [NAN, 10, 1], "k": ["b", "c", "b"], "z": [6.0, 5, 5]})


def test_features_by_hand():
    features = Features("own", TRAIN)
    deviation = np.std([1, 4, 4, 7])  # the median is 4, and so is the mean
    expected = [[0, 0, 0, 1], [6 / deviation, 0, 1, 0], [-3 / deviation, 0, 0, 0]]
    assert features.transform(OTHERS) == pytest.approx(np.array(expected))
    assert features.transform(TRAIN)[:, 1:3].tolist() == [[1, 0], [0, 1], [0, 0], [1, 0]]
    assert features.record() == {
        "feature_means": [4, 0, 0, 5],
        "feature_deviations": [pytest.approx(deviation), 1, 1, 1],
        "feature_names": ["x", "k=a", "k=c", "z"],
        "feature_medians": {"x": 4, "z": 5},
        "categories": {"k": ["a", "c"]},
    }


def lines(rows=40):
    """A number with gaps, words (one is rare), a truth, a code, and a label that they tell."""
    yield "x,job,member,code,note,label"
    for row in range(rows):
        x, job = row * row, "rare" if row == 7 else ("nurse", " chef ")[row % 2]
        told = "no" if row % 4 else "yes"
        yield f"{'' if row % 8 == 5 else x},{job},{row % 3 == 0},{row % 2},n{row},{told}"


def test_the_code_of_the_page_repeats_a_table_of_words_and_gaps(tmp_path):
    text = "\n".join(lines())
    options = {"ignore": ["note"], "missing": "median", "categorical": ["code"]}
    data = prepared(tmp_path, csv(tmp_path, text, **options))
    record, seen = data.record, data.record["categories"]["job"]
    jobs = [f"job={word}" for word in seen]
    assert record["feature_names"] == ["x", *jobs, "member", "code=0", "code=1"]
    assert {"chef", "nurse"} <= {*seen} <= {"chef", "nurse", "rare"}
    (tmp_path / "record.json").write_text(json.dumps(record))
    code = CODE.replace("results/data/table-12345678", str(tmp_path))
    exec(code.replace("new.csv", str(tmp_path / "own.csv")), variables := {})
    repeated = variables["features"].to_numpy(float)
    stored, _ = all_parts(data)
    order = [np.lexsort(item.T.round(4)) for item in (repeated, stored)]
    assert repeated[order[0]] == pytest.approx(stored[order[1]], abs=1e-5)
    assert data.images("train")[:, -3].astype(float).mean() == pytest.approx(0, abs=1e-6)
    # What is known before it is prepared.
    definition = dataset_definitions.resolve(csv(tmp_path, text, **options))
    assert datasets.complete_model_input(tmp_path, "own-00000000", definition) == data.model_input
