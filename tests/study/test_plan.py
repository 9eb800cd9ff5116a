"""From a configuration to runs."""

import copy
import time
from pathlib import Path

from batchscope.catalogue import measure_settings, run_factors, run_names
from batchscope.study import experiment_keys, planner
from small_study import config, forbid, problems, timed


def trainings(**experiment):
    """Returns what the one experiment of a small study trains."""
    return planner.make(config(experiment=experiment)).experiments["a"].trainings


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
        assert [*run_names.parse_run(name).items()] == [*run.items()]
    experiment = study.experiments["a"]
    assert [*experiment.trainings.runs] == [*study.runs]
    assert (experiment.title, experiment.question, experiment.trainings.measures) == ("a", "", {})
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
    runs = study.experiments["b"].trainings.runs
    assert [run["momentum"] for run in runs.values()] == [0, 0]


def test_experiments_share_runs():
    raw = config()
    raw["experiments"]["b"] = {"set": {"batch_size": 16}, "seeds": 3}
    study = planner.make(raw)
    assert len(study.runs) == 5
    assert set(study.experiments["a"].trainings.runs) & set(study.experiments["b"].trainings.runs)


def test_birth_values_are_not_spelled():
    spelled = config(defaults={"momentum": 0, "patience": 0, "threads": 1, "device": "cpu"})
    assert list(planner.make(spelled).runs) == list(planner.make(config()).runs)


def test_measures_as_list_and_as_map_are_the_same():
    first = ["evaluate", {"sharpness": {"examples": "all", "epsilons": [1e-3]}}]
    second = {"evaluate": None, "sharpness": {"examples": 0, "epsilons": ["1e-3"]}}
    measures = [trainings(measure=given).measures for given in (first, second)]
    assert measures[0] == measures[1]
    assert list(measures[0]) == ["evaluate", "sharpness"]
    assert set(measures[0]["sharpness"]) == set(measure_settings.ENTRIES["sharpness"].parameters)
    assert measure_settings.settings_name("sharpness", measures[0]["sharpness"]) == "eps=0.001+ex=0"


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
    assert line.startswith("reduced.experiments.a.vary.batch_size[0]: received 5000")


def test_one_fault_of_a_default_is_one_line():
    raw = config(defaults={"batch_size": 2000, "momentum": 0.9, "optimizer": "adam"})
    del raw["experiments"]["a"]["vary"]
    raw["experiments"]["b"] = {"seeds": 3}
    places = [line.partition(":")[0] for line in problems(raw)]
    assert places == ["defaults.batch_size", "defaults.momentum"]


def test_growing_a_grid_keeps_every_name():
    grown = config(experiment={"vary": {"batch_size": [8, 16, 32, 64]}, "seeds": 3}, title="Other")
    assert set(planner.make(config()).runs) < set(planner.make(grown).runs)


def test_unused_data_sets_are_left_out():
    raw = config(
        datasets={"unused": {"source": "digits", "split": {"train": 9, "validation": 1, "test": 1}}}
    )
    assert list(planner.make(raw).datasets) == ["digits-065f9c58"]


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

    assert warnings(1) == (
        "experiments.a.seeds: received 1 seed; at least 6 are expected for a verdict on its 3 "
        "batch sizes.",
    )
    assert warnings(6) == warnings(1, [16]) == ()


def test_pairs_share_everything_but_one_factor():
    """The large run follows the small one, seed by seed, in the order of the file."""
    experiment = {
        "vary": {"batch_size": [16, 32, 64], "learning_rate": [0.1, 0.2]},
        "measure": {"line": {"between": {"batch_size": [64, 16]}, "points": 5}},
    }
    study = planner.make(config(experiment=experiment))
    found = study.experiments["a"]
    assert found.trainings.measures["line"]["points"] == 5
    assert "between" not in found.trainings.measures["line"]
    pairs = found.trainings.pairs["line"]
    assert len(pairs) == 2 * 2
    for small, large in pairs:
        one, other = study.runs[small], study.runs[large]
        assert (one["batch_size"], other["batch_size"]) == (64, 16)
        assert {k for k in one if one[k] != other[k]} == {"batch_size"}


def test_pairs_may_differ_in_any_factor_that_leaves_the_initial_weights():
    experiment = {
        "vary": {"learning_rate": [0.1, 0.2]},
        "measure": [{"line": {"between": {"learning_rate": [0.1, 0.2]}}}],
        "set": {"batch_size": 16},
    }
    pairs = trainings(**experiment).pairs["line"]
    rates = [tuple(run_names.parse_run(name)["learning_rate"] for name in pair) for pair in pairs]
    assert rates == [(0.1, 0.2)] * 2


def test_one_training_serves_several_numbers_of_epochs():
    plain = planner.make(config(defaults={"epochs": 10}))
    experiment = {"measure": ["evaluate", "time_epoch"], "at_epochs": ["5", 1, 10, 8.0]}
    study = planner.make(config(defaults={"epochs": 10}, experiment=experiment))
    assert list(study.runs) == list(plain.runs)
    assert study.experiments["a"].at_epochs == (1, 5, 8, 10)
    assert plain.experiments["a"].at_epochs == ()
    assert study.experiments["a"].trainings.measures["evaluate"]["epoch"] == 0


def test_at_epochs_are_those_that_every_run_keeps():
    vary = {"batch_size": [16], "epochs": [10, 20]}
    experiment = {"vary": vary, "measure": ["evaluate"], "at_epochs": [4, 8]}
    planner.make(config(experiment=experiment))
    experiment["at_epochs"] = [4, 6, 9]  # 10 is kept of one run alone
    assert problems(config(experiment=experiment)) == [
        "experiments.a.at_epochs[1]: received 6, after which no weights are kept; 5 or 8 is "
        "expected.",
        "experiments.a.at_epochs[2]: received 9, after which no weights are kept; 8 is expected.",
    ]


def test_an_epoch_is_no_setting_for_users():
    (line,) = problems(config(experiment={"measure": {"evaluate": {"epoch": 1}}}))
    assert line == (
        "experiments.a.measure.evaluate.epoch: received 1; an epoch given by the experiment's own "
        "key 'at_epochs' is expected."
    )


def test_methods_and_augmentations_are_named_where_they_are_not_the_plain_ones():
    cases = [
        {"method": "plain"},
        {"method": "conservative", "gamma": 10, "inner_steps": 3},
        {"method": "robust", "augmentation": "crop"},
    ]
    experiment = {"vary": {"batch_size": [16]}, "seeds": 1, "cases": cases}
    study = planner.make(config(experiment=experiment))
    plain = "digits-065f9c58+small_cnn+bs=16+lr=0.1+opt=sgd+ep=2+seed=0"
    assert list(study.runs) == [
        plain,
        f"{plain}+method=conservative+gamma=10+inner=3",
        f"{plain}+aug=crop+method=robust",
    ]
    timed = [run_names.timing_name(run) for run in study.runs.values()]
    first = "digits-065f9c58+small_cnn+bs=16+opt=sgd+dev=cpu+th=1"
    assert timed == [
        first,
        f"{first}+method=conservative+inner=3",
        f"{first}+aug=crop+method=robust",
    ]


def test_other_seeds_than_planned_are_warned_of():
    def planned(seeds, scale="full", **rest):
        vary = {"batch_size": [16, 32, 64]}
        body = {"vary": vary, "seeds": seeds, "seeds_planned": 8, **rest}
        given = config(experiment=body)
        return planner.make({**given, "reduced": {"experiments": {"a": {"seeds": 7}}}}, scale)

    assert planned(8).warnings == () and planned(8, "reduced").warnings == ()
    assert planned(8).experiments["a"].trainings.seeds_planned == 8
    assert planned(6).warnings == (
        "experiments.a.seeds: received 6 seeds; 8 (seeds_planned) are expected: a verdict before "
        "that is a look at the data, which is said beside it.",
    )
    (more,) = planned(9).warnings
    assert "received 9 seeds; 8 (seeds_planned) are expected: those added after a look" in more


def test_what_an_advice_counts_as_fast_is_of_trainings_alone():
    assert trainings(advice={"slower": 0.25}).slower == 0.25
    assert trainings().slower == 0.1
    timed = {"vary": {"batch_size": [8]}, "timing": "throughput", "advice": {"slower": 0.2}}
    bad = {**config(), "experiments": {"t": timed}}
    (line,) = problems(bad)
    assert line.startswith("experiments.t.advice: received beside `timing`")


def test_margins_are_of_outcomes_that_the_trainings_have():
    def found(**factors):
        stated = {"measure": ["sharpness"], "margins": {"test_loss": 0.1}}
        return config(experiment={"vary": {"batch_size": [16, 32], **factors}, **stated})

    evaluated = planner.make(found(evaluate_every=[100])).experiments["a"]
    assert evaluated.trainings.margins == {"test_loss": 0.1}
    (line,) = problems(found(evaluate_every=[0, 100]))
    assert line == (
        "experiments.a.margins: received without its outcomes; evaluate in measure, or "
        "evaluate_every of all trainings, is expected."
    )


def test_margins_and_the_experiments_beside_them():
    timing = {"vary": {"batch_size": [16, 32]}, "timing": {"throughput": None}}
    margins = {"margins": {"test_accuracy": "3e-2"}, "beside": ["t"]}
    raw = config(experiment={"measure": ["evaluate"], **margins})
    raw["experiments"]["t"] = timing
    found = planner.make(raw).experiments["a"]
    assert (found.trainings.margins, found.trainings.beside) == ({"test_accuracy": 0.03}, ("t",))
    bad = copy.deepcopy(raw)
    wrong = {"test_acuracy": 0.03, "test_loss": -1}
    bad["experiments"]["a"] |= {"margins": wrong, "beside": ["a"]}
    bad["experiments"]["t"] = {**timing, "margins": {"test_loss": 0.1}}
    assert sorted(problems(bad)) == [
        "experiments.a.beside[0]: received 'a'; a timing experiment (t) is expected.",
        "experiments.a.margins.test_acuracy: unknown outcome. Did you mean 'test_accuracy'? "
        f"Known outcomes: {', '.join(sorted(experiment_keys.MARGIN_OUTCOMES))}.",
        "experiments.a.margins.test_loss: received -1; a positive number is expected.",
        "experiments.t.margins: received beside `timing`; a training or a timing "
        "experiment is expected.",
    ]


def test_budgets_are_stated_by_kind():
    stated = {"epochs": 1.5, "updates": "6e1", "seconds": 2, "target": {"validation_loss": 0.2}}
    raw = config(experiment={"measure": ["time_epoch"], "budgets": stated})
    found = planner.make(raw).experiments["a"].trainings.budgets
    assert found == {**stated, "updates": 60, "seconds": 2.0}
    assert planner.make(raw).runs == planner.make(config()).runs


def test_what_is_wrong_with_budgets():
    def of(stated, **rest):
        found = problems(config(experiment={"budgets": stated, **rest}))
        return sorted(line.removeprefix("experiments.a.budgets") for line in found)

    assert of({"epoch": 1, "updates": 0.5, "epochs": -1}) == [
        ".epoch: unknown budget. Did you mean 'epochs'? Known budgets: epochs, seconds, target, "
        "updates.",
        ".epochs: received -1; a number above 0 and at most 10^6 is expected.",
        ".updates: received 0.5; a whole number from 1 to 10^9 is expected.",
    ]
    assert of({"epochs": 3}) == [
        ".epochs: received 3; at most 2 is expected, the epochs of the shortest run."
    ]
    # 1,087 examples, or twice as many with their crops, in two epochs of batches of 32.
    assert of({"updates": 69}) == [
        ".updates: received 69; at most 68 is expected, the updates of the shortest run."
    ]
    crop = {"dataset": "digits", "augmentation": "crop"}
    assert of({"updates": 137}, set=crop) == [
        ".updates: received 137; at most 136 is expected, the updates of the shortest run."
    ]
    assert of({"seconds": 3}) == [
        ".seconds: received without any times; time_epoch in measure or throughput of an "
        "experiment under beside is expected."
    ]
    one = "a map of one loss or accuracy to its value, such as {validation_loss: 0.2} is expected."
    assert of({"target": 0.2}) == [f".target: received 0.2; {one}"]
    assert of({"target": {"loss": 0.2}})[0].startswith(".target.loss: unknown target.")
    (line,) = of({"target": {"validation_accuracy": 2}})
    assert line.startswith(".target.validation_accuracy: received 2; ")
    assert of({"target": {"test_loss": 0.2}}) == [
        ".target.test_loss: received without evaluate_every, which alone evaluates it during a "
        "training; evaluate_every, or validation_loss or validation_accuracy, is expected."
    ]
    evaluated = {"set": {"evaluate_every": 64}, "budgets": {"target": {"test_loss": 0.2}}}
    assert "a" in planner.make(config(experiment=evaluated)).experiments
    timing = {"vary": {"batch_size": [16, 32]}, "timing": {"throughput": None}}
    raw = config()
    raw["experiments"]["t"] = {**timing, "budgets": {"epochs": 1}}
    assert problems(raw) == [
        "experiments.t.budgets: received beside `timing`; a training or a timing experiment is "
        "expected."
    ]


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
        assert found.trainings.timed
        del raw["experiments"]["a"]["figures"]
        assert "loss_curves_by_seconds" in figures.drawn(planner.make(raw).experiments["a"])
    for raw in (asked(), asked(["max_batch_size"])):  # whose steps nobody timed
        first, second = problems(raw)
        assert first.startswith("experiments.a.budgets.seconds: received without any times; time_")
        assert second.startswith("experiments.a.figures[0]: received 'loss_curves_by_seconds'")
        for line in (first, second):
            assert "time_epoch in measure or throughput of an experiment under beside is" in line
        del raw["experiments"]["a"]["figures"], raw["experiments"]["a"]["budgets"]
        assert "loss_curves_by_seconds" not in figures.drawn(planner.make(raw).experiments["a"])


def test_budgets_change_tables_and_no_run():
    from batchscope import snakefile

    plans = [
        planner.make(config(experiment={"budgets": stated} if stated else {}))
        for stated in ({"epochs": 1}, {"epochs": 2}, None)
    ]
    jobs = [snakefile.Jobs(planned, "config.yaml", "full", False) for planned in plans]
    assert len({one.also("a") for one in jobs}) == 3
    assert "budgets" not in jobs[2].also("a")
    assert plans[0].runs == plans[1].runs == plans[2].runs


def test_limits_of_the_batch_size_need_margins_and_beside_needs_them_too():
    experiment = {"measure": ["evaluate"], "figures": ["batch_size_limits"], "beside": ["a"]}
    found = problems(config(experiment=experiment))
    start = "experiments.a.figures[0]: received 'batch_size_limits' without its requirements; "
    assert any(line.startswith(f"{start}margins") for line in found)
    assert any("beside: received without margins" in line for line in found)


def test_a_framework_is_a_sweep_of_its_own():
    own, other = planner.make(timed()).experiments["a"].times.sweeps
    assert other.name == f"{own.name}+fw=pytorch"
    assert planner.make(timed(vary={"batch_size": [32]})).experiments["a"].times.sweeps == (own,)
    frameworks = list(run_factors.TIMING_ONLY_FACTORS["framework"].choices)
    every = {"batch_size": [32], "framework": frameworks, "threads": ["all"], "device": ["cpu"]}
    every |= {"model": ["campbell_cnn", "lheureux_cnn"], "optimizer": ["sgd", "adam"]}
    assert len(planner.make(timed(vary=every)).experiments["a"].times.sweeps) == 4 * 2 * 2


def test_a_training_has_no_framework():
    (line,) = problems(config(experiment={"set": {"framework": "jax"}}))
    assert line.startswith("experiments.a.set.framework: received in a training experiment")


def test_no_other_machine_has_this_ones_results(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("results").mkdir()
    Path("link").symlink_to("results")
    for folder in ("results/", f"../{tmp_path.name}/results", str(tmp_path / "results"), "link"):
        (line,) = problems(config(machines={"other": {"results": folder}}))
        assert line.startswith(f"machines.other.results: received '{folder[:50]}")
        assert line.endswith("', this machine's own; a copy of the other's is expected.")


def test_a_machine_whose_folder_nobody_may_look_at(monkeypatch):
    raw = config(machines={"other": {"results": "theirs"}})
    assert any("which is not there" in warning for warning in planner.make(raw).warnings)
    forbid(monkeypatch)
    assert problems(raw) == [
        "machines.other.results: received 'theirs' (Permission denied); a folder that can be read "
        "is expected."
    ]
