"""A run's logs by words of its name."""

import pytest

from batchscope.errors import UserError
from batchscope.store import job_logs

RUNS = [f"digits+small_cnn+bs={size}+lr=0.1+seed={seed}" for size in (16, 160) for seed in (0, 1)]


@pytest.fixture
def results(tmp_path):
    for run in RUNS:
        for path in (f"train/{run}.log", f"evaluate/{run}/default.log"):
            log = tmp_path / "logs" / path
            log.parent.mkdir(parents=True, exist_ok=True)
            log.write_text("first\nlast\n\n")
    return tmp_path / "results"


def test_all_words_are_of_one_name(results):
    found = job_logs.find(results, ["bs=16", "seed=0"])
    assert {path.parts[path.parts.index("logs") + 1] for path in found} == {"train", "evaluate"}
    assert all(RUNS[0] in str(path) for path in found) and len(found) == 2
    assert len(job_logs.find(results, ["small_cnn"])) == 8
    assert len(job_logs.find(results, [RUNS[2]])) == 2
    assert job_logs.last_line(found[0]) == "last"
    with pytest.raises(UserError, match="bs=17"):
        job_logs.find(results, ["bs=17"])


def test_the_logs_of_a_study_come_before_those_of_others(results):
    root = results.parent / "logs"
    for path in ("report/default.log", "tabulate/default/a.log", "report/other.log"):
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).touch()
    of_default = {"default", RUNS[0]}
    found = [path.relative_to(root).as_posix() for path in job_logs.find(results, [], of_default)]
    # The settings of a measure may be called as the study is.
    expected = ["report/default.log", "tabulate/default/a.log", f"train/{RUNS[0]}.log"]
    assert sorted(found) == sorted([*expected, f"evaluate/{RUNS[0]}/default.log"])
    assert len(job_logs.find(results, ["small_cnn"], of_default)) == 2
    assert len(job_logs.find(results, ["bs=160"], of_default)) == 4  # of another study alone
