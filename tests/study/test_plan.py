"""From a configuration to runs."""

import copy
import time
from pathlib import Path

import pytest

from batchscope import figures
from batchscope.study import names, planner
from small_study import config, forbid, problems, timed


def factors(study, *wanted):
    return [tuple(run[name] for name in wanted) for run in study.runs.values()]


def test_precedence_is_defaults_set_cases_vary_seed():
    study = planner.make(
        config(
            defaults={"momentum": 0.1, "epochs": 1, "batch_size": 1},
            experiment={
                "set": {"momentum": 0.2},
                "cases": [{"epochs": 3}, {"epochs": 4, "optimizer": "rmsprop"}],
                "vary": {"batch_size": [16, 8]},
                "seeds": [7],
            },
        )
    )
    wanted = ("momentum", "epochs", "optimizer", "batch_size", "seed")
    assert factors(study, *wanted) == [
        (0.2, 3, "sgd", 16, 7),
        (0.2, 3, "sgd", 8, 7),
        (0.2, 4, "rmsprop", 16, 7),
        (0.2, 4, "rmsprop", 8, 7),
    ]


def test_five_thousand_runs_are_planned_at_once():
    experiment = {"vary": {"batch_size": list(range(1, 101))}, "seeds": 50}
    experiment["measure"] = ["evaluate", "sharpness", "time_epoch"]
    raw = config(max_runs=5000, experiment=experiment)

    def seconds():
        start = time.process_time()
        assert len(planner.make(raw).runs) == 5000
        return time.process_time() - start

    assert any(seconds() < 1.0 for _ in range(3))


def test_too_few_seeds_and_others_than_planned_are_warned_of():
    def warnings(seeds, scale="full", sizes=(16, 32, 64), **keys):
        body = {"vary": {"batch_size": list(sizes)}, "seeds": seeds, **keys}
        reduced = {"experiments": {"a": {"seeds": 7}}}
        return planner.make(config(experiment=body, reduced=reduced), scale).warnings

    (few,) = warnings(1)
    assert few.startswith("experiments.a.seeds: ") and "(received 1)" in few
    assert warnings(6) == warnings(1, sizes=[16]) == ()
    assert warnings(8, seeds_planned=8) == warnings(8, "reduced", seeds_planned=8) == ()
    (line,) = warnings(8, "reduced", seeds_planned=6)
    assert line.startswith("reduced.experiments.a.seeds: ")
    for seeds in (6, 9):
        (line,) = warnings(seeds, seeds_planned=8)
        assert line.startswith("experiments.a.seeds: ") and f"8 seeds (received {seeds})" in line


def test_runs_are_named_by_what_they_are_and_shared_by_experiments():
    raw = config()
    raw["experiments"]["a"]["set"] = {"momentum": 0}
    raw["experiments"]["b"] = {"set": {"batch_size": 16, "patience": 0}, "seeds": 3}
    study = planner.make(raw)
    expected = [
        f"digits-065f9c58+small_cnn+bs={size}+lr=0.1+opt=sgd+ep=2+seed={seed}"
        for size, seed in ((16, 0), (16, 1), (32, 0), (32, 1), (16, 2))
    ]
    assert list(study.runs) == expected
    assert list(study.experiments["a"].runs) == expected[:4]
    assert list(study.experiments["b"].runs) == [*expected[:2], expected[4]]
    assert all(names.parse_run(name) == run for name, run in study.runs.items())
    experiment = study.experiments["a"]
    assert (experiment.title, experiment.keys.question, experiment.measures) == ("a", "", {})
    assert study.models == {"small_cnn": None}
    assert (study.title, study.folder_name) == ("s", "s")


def test_the_reduced_form_replaces_whole_keys():
    raw = config(
        experiment={"cases": [{"momentum": 0.5}, {"momentum": 0.9}], "title": "Kept"},
        datasets={"tiny": {"source": "digits"}},
        reduced={
            "defaults": {"epochs": 1},
            "datasets": {"tiny": {"split": {"train": 20, "validation": 5, "test": 5}}},
            "experiments": {
                "a": {
                    "vary": {"batch_size": [64]},
                    "seeds": [3],
                    "cases": None,
                    "set": {"dataset": "tiny"},
                }
            },
        },
    )
    before = copy.deepcopy(raw)
    full, reduced = planner.make(raw), planner.make(raw, "reduced")
    assert raw == before
    assert (len(full.runs), full.folder_name, full.reduced) == (8, "s", False)
    assert (reduced.folder_name, reduced.reduced) == ("s-reduced", True)
    assert factors(reduced, "batch_size", "epochs", "seed", "momentum") == [(64, 1, 3, 0.0)]
    assert reduced.experiments["a"].title == "Kept"
    ((token, definition),) = reduced.datasets.items()
    assert token.startswith("tiny-") and definition["split"]["train"] == 20
    raw["reduced"]["experiments"]["a"]["vary"]["batch_size"] = [5000]
    assert len(planner.make(raw).runs) == 8  # no problem of the full study
    assert problems(raw, "reduced")


def test_pairs_share_everything_but_one_factor():
    """The large run follows the small one, seed by seed, in the order of the file."""
    experiment = {
        "vary": {"batch_size": [16, 32, 64], "learning_rate": [0.1, 0.2]},
        "measure": {"line": {"between": {"batch_size": [64, 16]}, "points": 5}},
    }
    study = planner.make(config(experiment=experiment))
    planned = study.experiments["a"]
    assert planned.measures["line"]["points"] == 5 and "between" not in planned.measures["line"]
    assert len(planned.pairs["line"]) == 2 * 2
    for small, large in planned.pairs["line"]:
        one, other = study.runs[small], study.runs[large]
        assert (one["batch_size"], other["batch_size"]) == (64, 16)
        assert {k for k in one if one[k] != other[k]} == {"batch_size"}


@pytest.mark.parametrize(
    ("timing", "measure", "timed"),
    [
        (None, "time_epoch", True),
        ({"throughput": None}, "evaluate", True),
        (None, "evaluate", False),
        ("max_batch_size", "evaluate", False),  # no steps are timed
    ],
)
def test_trainings_have_seconds_by_their_own_timing_or_one_beside_them(timing, measure, timed):
    raw = config(experiment={"measure": measure})
    if timing:
        raw["experiments"]["a"] |= {"margins": {"test_loss": 0.1}, "beside": ["t"]}
        raw["experiments"]["a"] |= {"measure": ["evaluate"]}
        raw["experiments"]["t"] = {"vary": {"batch_size": [16, 32]}, "timing": timing}
    experiment = planner.make(raw).experiments["a"]
    assert experiment.timed == timed
    assert ("loss_curves_by_seconds" in figures.figure_names(experiment)) == timed
    raw["experiments"]["a"]["budgets"] = {"seconds": 1}
    assert planner.make(raw) if timed else problems(raw)


def test_a_loop_is_a_sweep_of_its_own():
    own, other = planner.make(timed()).experiments["a"].sweeps
    assert other.name == f"{own.name}+loop=eager"


def test_no_other_machine_has_the_results_of_this_one(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("results").mkdir()
    Path("link").symlink_to("results")
    (line,) = problems(config(machines={"other": {"results": "link"}}))
    assert line.startswith("machines.other.results: ") and "(received 'link', " in line
    raw = config(machines={"other": {"results": "theirs"}})
    assert any("machines.other.results: " in warning for warning in planner.make(raw).warnings)
    forbid(monkeypatch)
    (line,) = problems(raw)
    assert line.startswith("machines.other.results: ") and "'theirs' (Permission denied)" in line


@pytest.mark.parametrize(
    "measure",
    [
        {"line": {"between": {"batch_size": [16, 32]}}},
        {"sharpness": {"epsilons": [index / 10000 for index in range(1, 60)]}},
    ],
)
def test_too_long_names_of_settings_and_of_pairs_are_refused(measure):
    name = "d" * 60
    raw = config(defaults={"dataset": name}, datasets={name: {"source": "digits"}})
    assert planner.make(raw).runs
    raw["experiments"]["a"]["measure"] = measure
    (line,) = problems(raw)
    assert line.startswith("experiments.a: ") and "characters" in line
