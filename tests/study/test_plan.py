"""From a configuration to runs."""

import copy
import time
from pathlib import Path

from batchscope.study import names, planner, run_factors, versions
from small_study import config, forbid, problems, timed


def planned(**experiment):
    """Returns the one experiment of a small study."""
    return planner.make(config(experiment=experiment)).experiments["a"]


def factors(study, *wanted):
    return [tuple(run[name] for name in wanted) for run in study.runs.values()]


def test_golden_tokens():
    """Frozen: these stand in the names of everybody's runs."""
    vary = {"batch_size": [8], "dataset": ["digits", "mnist"]}
    study = planner.make(config(experiment={"vary": vary}))
    assert list(study.datasets) == ["digits-065f9c58", "mnist-2f01a1fe"]


def test_runs_are_named_by_what_they_are():
    study = planner.make(config())
    assert list(study.runs) == [
        f"digits-065f9c58+small_cnn+bs={bs}+lr=0.1+opt=sgd+ep=2+seed={seed}"
        for bs in (16, 32)
        for seed in (0, 1)
    ]
    for name, run in study.runs.items():
        assert [*names.parse_run(name).items()] == [*run.items()]
    experiment = study.experiments["a"]
    assert [*experiment.runs] == [*study.runs]
    assert (experiment.title, experiment.keys.question, experiment.measures) == ("a", "", {})
    assert study.models == {"small_cnn": None}
    assert (study.title, study.folder_name) == ("s", "s")


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


def test_nothing_is_inherited_between_experiments():
    raw = config()
    raw["experiments"]["b"] = {"set": {"batch_size": 16}, "seeds": [0, 5]}
    raw["experiments"]["a"]["set"] = {"momentum": 0.9}
    study = planner.make(raw)
    runs = study.experiments["b"].runs
    assert [run["momentum"] for run in runs.values()] == [0, 0]


def test_experiments_share_runs():
    raw = config()
    raw["experiments"]["b"] = {"set": {"batch_size": 16}, "seeds": 3}
    study = planner.make(raw)
    assert len(study.runs) == 5
    assert set(study.experiments["a"].runs) & set(study.experiments["b"].runs)


def test_birth_values_are_not_spelled():
    spelled = config(defaults={"momentum": 0, "patience": 0, "threads": 1, "device": "cpu"})
    assert list(planner.make(spelled).runs) == list(planner.make(config()).runs)


def test_measures_as_list_and_as_map_are_the_same():
    first = ["evaluate", {"sharpness": {"examples": "all", "epsilons": [1e-3]}}]
    second = {"evaluate": None, "sharpness": {"examples": 0, "epsilons": [1e-3]}}
    measures = [planned(measure=given).measures for given in (first, second)]
    assert measures[0] == measures[1]
    assert list(measures[0]) == ["evaluate", "sharpness"]
    assert set(measures[0]["sharpness"]) == set(versions.ENTRIES["sharpness"].parameters)
    assert names.settings_name("sharpness", measures[0]["sharpness"]) == "eps=0.001+ex=0"


def test_reduced_replaces_whole_keys():
    varied = {"vary": {"batch_size": [64]}, "seeds": [3], "cases": None}
    raw = config(
        experiment={"cases": [{"momentum": 0.5}, {"momentum": 0.9}], "title": "Kept"},
        datasets={"tiny": {"source": "digits"}},
        reduced={
            "defaults": {"epochs": 1},
            "datasets": {"tiny": {"split": {"train": 20, "validation": 5, "test": 5}}},
            "experiments": {"a": {**varied, "set": {"dataset": "tiny"}}},
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


def test_faults_of_the_other_scale_do_not_stop_this_one():
    raw = config(reduced={"experiments": {"a": {"vary": {"batch_size": [5000]}}}})
    assert planner.make(raw)
    (line,) = problems(raw, "reduced")
    assert line.startswith("reduced.experiments.a.vary.batch_size[0]: Expected at most 1087, ")


def test_one_fault_of_a_default_is_one_line():
    raw = config(defaults={"batch_size": 2000, "momentum": 0.9, "optimizer": "adam"})
    del raw["experiments"]["a"]["vary"]
    raw["experiments"]["b"] = {"seeds": 3}
    places = [line.partition(":")[0] for line in problems(raw)]
    assert places == ["defaults.batch_size", "defaults.momentum"]


def test_five_thousand_runs_are_planned_at_once():
    experiment = {"vary": {"batch_size": list(range(1, 101))}, "seeds": 50}
    experiment["measure"] = ["evaluate", "sharpness", "time_epoch"]
    raw = config(max_runs=5000, experiment=experiment)
    planner.make(raw)
    times = []
    for _ in range(3):
        start = time.process_time()
        assert len(planner.make(raw).runs) == 5000
        times.append(time.process_time() - start)
    assert min(times) < 1.0


def test_too_few_seeds_for_a_verdict_are_warned_of():
    def warnings(seeds, sizes=(16, 32, 64)):
        experiment = {"vary": {"batch_size": list(sizes)}, "seeds": seeds}
        return planner.make(config(experiment=experiment)).warnings

    (few,) = warnings(1)
    assert few.startswith("experiments.a.seeds: ") and "(received 1)" in few
    assert warnings(6) == warnings(1, [16]) == ()


def test_pairs_share_everything_but_one_factor():
    """The large run follows the small one, seed by seed, in the order of the file."""
    experiment = {
        "vary": {"batch_size": [16, 32, 64], "learning_rate": [0.1, 0.2]},
        "measure": {"line": {"between": {"batch_size": [64, 16]}, "points": 5}},
    }
    study = planner.make(config(experiment=experiment))
    found = study.experiments["a"]
    assert found.measures["line"]["points"] == 5
    assert "between" not in found.measures["line"]
    pairs = found.pairs["line"]
    assert len(pairs) == 2 * 2
    for small, large in pairs:
        one, other = study.runs[small], study.runs[large]
        assert (one["batch_size"], other["batch_size"]) == (64, 16)
        assert {k for k in one if one[k] != other[k]} == {"batch_size"}


def test_other_seeds_than_planned_are_warned_of():
    def warned(seeds, scale="full", **rest):
        vary = {"batch_size": [16, 32, 64]}
        body = {"vary": vary, "seeds": seeds, "seeds_planned": 8, **rest}
        given = config(experiment=body)
        return planner.make({**given, "reduced": {"experiments": {"a": {"seeds": 7}}}}, scale)

    assert warned(8).warnings == () and warned(8, "reduced").warnings == ()
    assert warned(8).experiments["a"].keys.seeds_planned == 8
    for seeds in (6, 9):
        (line,) = warned(seeds).warnings
        assert line.startswith("experiments.a.seeds: ") and f"8 seeds (received {seeds})" in line


def test_trainings_have_seconds_by_a_timing_of_theirs_or_of_one_beside_them():
    from batchscope import figures

    def asked(timing=None, measure=("evaluate",)):
        beside = {"margins": {"test_loss": 0.1}, "beside": ["t"]} if timing else {}
        body = {"measure": [*measure], "budgets": {"seconds": 1}, **beside}
        raw = config(experiment={**body, "figures": ["loss_curves_by_seconds"]})
        times = {"vary": {"batch_size": [16, 32]}, "timing": timing}
        raw["experiments"] |= {"t": times} if timing else {}
        return raw

    for raw in (asked(measure=["time_epoch"]), asked({"throughput": None}), asked("throughput")):
        found = planner.make(raw).experiments["a"]
        assert found.timed
        del raw["experiments"]["a"]["figures"]
        assert "loss_curves_by_seconds" in figures.drawn(planner.make(raw).experiments["a"])
    for raw in (asked(), asked(["max_batch_size"])):  # whose steps nobody timed
        del raw["experiments"]["a"]["figures"], raw["experiments"]["a"]["budgets"]
        assert "loss_curves_by_seconds" not in figures.drawn(planner.make(raw).experiments["a"])


def test_budgets_change_tables_and_no_run():
    from batchscope.rules import inputs
    from batchscope.rules.study import CalledStudy

    plans = [
        planner.make(config(experiment={"budgets": stated} if stated else {}))
        for stated in ({"epochs": 1}, {"epochs": 2}, None)
    ]
    called = [CalledStudy(planned, "config.yaml", "full", False) for planned in plans]
    assert len({inputs.followed(study, "a") for study in called}) == 3
    assert plans[0].runs == plans[1].runs == plans[2].runs


def test_a_loop_is_a_sweep_of_its_own():
    own, other = planner.make(timed()).experiments["a"].sweeps
    assert other.name == f"{own.name}+loop=eager"
    assert planner.make(timed(vary={"batch_size": [32]})).experiments["a"].sweeps == (own,)
    loops = list(run_factors.TIMING_ONLY_FACTORS["loop"].choices)
    every = {"batch_size": [32], "loop": loops, "threads": ["all"], "device": ["cpu"]}
    every |= {"model": ["campbell_cnn", "lheureux_cnn"], "optimizer": ["sgd", "adam"]}
    assert len(planner.make(timed(vary=every)).experiments["a"].sweeps) == 5 * 2 * 2


def test_no_other_machine_has_this_ones_results(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("results").mkdir()
    Path("link").symlink_to("results")
    for folder in ("results/", f"../{tmp_path.name}/results", str(tmp_path / "results"), "link"):
        (line,) = problems(config(machines={"other": {"results": folder}}))
        assert line.startswith("machines.other.results: ") and f"(received '{folder[:50]}" in line


def test_a_machine_whose_folder_nobody_may_look_at(monkeypatch):
    raw = config(machines={"other": {"results": "theirs"}})
    assert any("machines.other.results: " in warning for warning in planner.make(raw).warnings)
    forbid(monkeypatch)
    (line,) = problems(raw)
    assert line.startswith("machines.other.results: ") and "'theirs' (Permission denied)" in line


def test_too_long_names_of_settings_and_of_pairs_are_refused():
    name = "d" * 60
    pairs = {"line": {"between": {"batch_size": [16, 32]}}}
    settings = {"sharpness": {"epsilons": [index / 10000 for index in range(1, 60)]}}
    data = {"datasets": {name: {"source": "digits"}}}
    assert planner.make(config(defaults={"dataset": name}, **data)).runs
    for raw in (
        config(experiment={"measure": pairs}, defaults={"dataset": name}, **data),
        config(experiment={"measure": settings}),
    ):
        (line,) = problems(raw)
        assert line.startswith("experiments.a: ") and "characters" in line
