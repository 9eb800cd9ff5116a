"""From a configuration to runs."""

import ast
import copy
import time
from pathlib import Path

import pytest

from batchscope import definitions, measure_settings, names, plan
from batchscope.errors import ConfigError

MODEL_FILE = Path(__file__).parent / "bad_configs" / "tiny_model.py"


def config(**changes):
    """A small study; `experiment` and `defaults` change those, the rest the top level."""
    experiment = {"vary": {"batch_size": [16, 32]}, "seeds": 2, **changes.pop("experiment", {})}
    defaults = {
        "dataset": "digits",
        "model": "small_cnn",
        "optimizer": "sgd",
        "learning_rate": 0.1,
        "epochs": 2,
        **changes.pop("defaults", {}),
    }
    return {"study": "s", "defaults": defaults, "experiments": {"a": experiment}, **changes}


def factors(study, *wanted):
    return [tuple(run.factors[name] for name in wanted) for run in study.runs.values()]


def problems(raw, scale="full"):
    with pytest.raises(ConfigError) as raised:
        plan.make(raw, scale)
    return raised.value.problems


def test_golden_tokens():
    """Frozen: these stand in the names of everybody's runs."""
    study = plan.make(
        config(experiment={"vary": {"batch_size": [8], "dataset": ["digits", "mnist"]}})
    )
    assert list(study.datasets) == ["digits-065f9c58", "mnist-2f01a1fe"]
    assert plan.model_token("mine", str(MODEL_FILE)) == "mine-58f02d97"


def test_runs_are_named_by_what_they_are():
    study = plan.make(config())
    assert list(study.runs) == [
        f"digits-065f9c58+small_cnn+bs={bs}+lr=0.1+opt=sgd+ep=2+seed={seed}"
        for bs in (16, 32)
        for seed in (0, 1)
    ]
    for name, run in study.runs.items():
        assert run.name == name
        assert names.parse_run(name) == run.factors
        assert list(names.parse_run(name)) == list(run.factors)
    experiment = study.experiments["a"]
    assert experiment.runs == tuple(study.runs)
    assert experiment.datasets == ("digits-065f9c58",) and experiment.models == ("small_cnn",)
    assert (experiment.title, experiment.question, experiment.measures) == ("a", "", {})
    assert study.models == {"small_cnn": None}
    assert (study.title, study.folder_name, study.warnings) == ("s", "s", ())


def test_precedence_is_defaults_set_cases_vary_seed():
    study = plan.make(
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
    study = plan.make(raw)
    assert [study.runs[run].factors["momentum"] for run in study.experiments["b"].runs] == [0, 0]


def test_experiments_share_runs():
    raw = config()
    raw["experiments"]["b"] = {"set": {"batch_size": 16}, "seeds": 3}
    study = plan.make(raw)
    assert len(study.runs) == 5
    assert set(study.experiments["a"].runs) & set(study.experiments["b"].runs)


def test_birth_values_are_not_spelled():
    spelled = config(defaults={"momentum": 0, "patience": 0, "threads": 1, "device": "cpu"})
    assert list(plan.make(spelled).runs) == list(plan.make(config()).runs)


def test_measures_as_list_and_as_map_are_the_same():
    first = ["evaluate", {"sharpness": {"examples": "all", "epsilons": [1e-3]}}]
    second = {"evaluate": None, "sharpness": {"examples": 0, "epsilons": ["1e-3"]}}
    made = [plan.make(config(experiment={"measure": given})) for given in (first, second)]
    measures = [study.experiments["a"].measures for study in made]
    assert measures[0] == measures[1]
    assert list(measures[0]) == ["evaluate", "sharpness"]
    assert set(measures[0]["sharpness"]) == set(measure_settings.MEASURES["sharpness"])
    assert measure_settings.settings_name("sharpness", measures[0]["sharpness"]) == "eps=0.001+ex=0"


def test_user_model_carries_the_digest_of_its_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("net.py").write_text(MODEL_FILE.read_text())
    raw = config(models={"net": "net.py", "alias": "small_cnn"}, defaults={"model": "net"})
    study = plan.make(raw)
    ((token, path),) = study.models.items()
    assert path == "net.py" and token.startswith("net-")
    Path("net.py").write_text(MODEL_FILE.read_text() + "\n# changed\n")
    assert list(plan.make(raw).models) != [token]
    raw["defaults"]["model"] = "alias"
    assert plan.make(raw).models == {"small_cnn": None}


@pytest.mark.parametrize(
    "text",
    [
        "from nets import build",
        "from nets import *",
        "build = make()",
        "class build: ...",
        "if True:\n    build = 3",
        "import nets.build as build",
    ],
)
def test_ways_to_define_build(text, tmp_path):
    path = tmp_path / "net.py"
    path.write_text(text)
    plan.make(config(models={"net": str(path)}))


def test_one_model_under_two_names_is_one_run_twice():
    raw = config(
        models={"alias": "small_cnn"},
        experiment={"vary": {"batch_size": [8], "model": ["small_cnn", "alias"]}},
    )
    assert problems(raw) == [
        "experiments.a.vary.model[1]: received 'alias' again (as in [0]); every value once is "
        "expected."
    ]


def test_reduced_replaces_whole_keys():
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
    full, reduced = plan.make(raw), plan.make(raw, "reduced")
    assert raw == before
    assert (len(full.runs), full.folder_name, full.reduced) == (8, "s", False)
    assert (reduced.folder_name, reduced.reduced) == ("s-reduced", True)
    assert factors(reduced, "batch_size", "epochs", "seed", "momentum") == [(64, 1, 3, 0.0)]
    assert reduced.experiments["a"].title == "Kept"
    ((token, definition),) = reduced.datasets.items()
    assert token.startswith("tiny-") and definition["split"]["train"] == 20


def test_faults_of_the_other_scale_do_not_stop_this_one():
    raw = config(reduced={"experiments": {"a": {"vary": {"batch_size": [5000]}}}})
    assert plan.make(raw)
    (line,) = problems(raw, "reduced")
    assert line.startswith("reduced.experiments.a.vary.batch_size[0]: received 5000")


def test_one_fault_of_a_default_is_one_line():
    raw = config(defaults={"batch_size": 2000, "momentum": 0.9, "optimizer": "adam"})
    del raw["experiments"]["a"]["vary"]
    raw["experiments"]["b"] = {"seeds": 3}
    assert [line.partition(":")[0] for line in problems(raw)] == [
        "defaults.batch_size",
        "defaults.momentum",
    ]


def test_momentum_only_where_an_optimizer_has_it():
    good = config(
        experiment={
            "cases": [
                {"optimizer": "sgd", "momentum": 0.9, "nesterov": True},
                {"optimizer": "rmsprop", "momentum": 0.9},
                {"optimizer": "adam"},
            ]
        }
    )
    assert len(plan.make(good).runs) == 12


def test_missing_gpu_is_a_warning(monkeypatch):
    raw = config(experiment={"vary": {"batch_size": [16, 32], "device": ["cpu", "gpu"]}})
    monkeypatch.setattr(plan, "gpu_present", lambda: True)
    assert plan.make(raw).warnings == ()
    monkeypatch.setattr(plan, "gpu_present", lambda: False)
    assert plan.make(raw).warnings == (
        "experiments.a.vary.device[1]: received 'gpu'; no NVIDIA GPU is seen on this machine. "
        "Install its driver, run on a machine that has one, or set device: cpu.",
    )


def test_built_in_models_are_those_of_the_networks_module():
    tree = ast.parse((Path(plan.__file__).parent / "networks.py").read_text())
    (builders,) = (
        node.value
        for node in tree.body
        if isinstance(node, ast.AnnAssign) and node.target.id == "BUILDERS"
    )
    assert sorted(key.value for key in builders.keys) == list(plan.BUILT_IN_MODELS)


def test_growing_a_grid_keeps_every_name():
    small = plan.make(config())
    grown = plan.make(
        config(experiment={"vary": {"batch_size": [8, 16, 32, 64]}, "seeds": 3}, title="Other")
    )
    assert set(small.runs) < set(grown.runs)


def test_unused_data_sets_are_left_out():
    raw = config(
        datasets={"unused": {"source": "digits", "split": {"train": 9, "validation": 1, "test": 1}}}
    )
    assert list(plan.make(raw).datasets) == ["digits-065f9c58"]


def test_five_thousand_runs_are_planned_at_once():
    raw = config(
        max_runs=5000,
        experiment={
            "vary": {"batch_size": list(range(1, 101))},
            "seeds": 50,
            "measure": ["evaluate", "sharpness", "time_epoch"],
        },
    )
    plan.make(raw)
    times = []
    for _ in range(3):
        start = time.process_time()
        assert len(plan.make(raw).runs) == 5000
        times.append(time.process_time() - start)
    assert min(times) < 1.0


# --- Definitions of data sets


@pytest.mark.parametrize(
    ("split", "members", "counts"),
    [
        ((0.6, 0.2, 0.2), 178, (108, 35, 35)),
        ((0.8, 0.1, 0.1), 12500, (10000, 1250, 1250)),
        ((0.5, 0.1, 0.1), 99, (49, 9, 9)),
        ((0.7, 0.2, 0.1), 10, (7, 2, 1)),
        ((0.3, 0.3, 0.3), 10, (3, 3, 3)),
        ((600, 200, 200), 5000, (600, 200, 200)),
        ((0.9, 0.05, 0.05), 10, (10, 0, 0)),
    ],
)
def test_split_counts(split, members, counts):
    named = dict(zip(("train", "validation", "test"), split, strict=True))
    assert definitions.split_counts(named, members) == counts


CATS = {"source": "cats_vs_dogs", "image_size": 64}


@pytest.mark.parametrize(
    ("raw", "size"),
    [
        ({"source": "digits"}, 1087),
        ({"source": "mnist"}, 50000),
        ({"source": "mnist", "split": {"validation": 6000}}, 54000),
        ({"source": "mnist", "path": "local.npz"}, None),
        ({**CATS, "split": {"train": 600, "validation": 200, "test": 200}}, 1200),
        ({**CATS, "split": {"train": 0.8, "validation": 0.1, "test": 0.1}}, None),
        ({**CATS, "per_class": 50, "split": {"train": 0.8, "validation": 0.1, "test": 0.1}}, 80),
        ({"source": "npz", "path": "x.npz"}, None),
    ],
)
def test_training_size(raw, size):
    assert definitions.training_size(definitions.resolve(raw)) == size


def test_digest_is_of_what_is_meant():
    def token(**keys):
        return definitions.token("d", definitions.resolve({"source": "mnist", **keys}))

    sha256 = "0a" * 32
    assert token() == token(split={"seed": 0}) == token(split={"validation": 10000.0})
    assert token() == token(path=None, sha256=None)
    assert token(path="a.npz") != token(path="b.npz") != token()
    assert token(path="a.npz", sha256=sha256) == token(path="b.npz", sha256=sha256)
    assert token(split={"seed": 1}) != token() != token(split={"validation": 6000})


def test_a_path_of_digits_stays_text(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("2020").touch()
    raw = config(datasets={"mine": {"source": "npz", "path": "2020"}}, defaults={"dataset": "mine"})
    (definition,) = plan.make(raw).datasets.values()
    assert definition == {
        "source": "npz",
        "path": "2020",
        "sha256": None,
        "scale": None,
        "split": None,
    }


def test_digits_are_as_scikit_learn_has_them():
    datasets = pytest.importorskip("sklearn.datasets")
    import numpy

    labels = datasets.load_digits().target
    assert tuple(numpy.bincount(labels)) == definitions.class_members({"source": "digits"})


def test_pairs_share_everything_but_one_factor():
    """The large run follows the small one, seed by seed, in the order of the file."""
    experiment = {
        "vary": {"batch_size": [16, 32, 64], "learning_rate": [0.1, 0.2]},
        "measure": {"line": {"between": {"batch_size": [64, 16]}, "points": 5}},
    }
    study = plan.make(config(experiment=experiment))
    found = study.experiments["a"]
    assert found.measures["line"]["points"] == 5
    assert "between" not in found.measures["line"]
    pairs = found.pairs["line"]
    assert len(pairs) == 2 * 2
    for small, large in pairs:
        one, other = study.runs[small].factors, study.runs[large].factors
        assert (one["batch_size"], other["batch_size"]) == (64, 16)
        assert {k for k in one if one[k] != other[k]} == {"batch_size"}


def test_pairs_may_differ_in_any_factor_that_leaves_the_initial_weights():
    experiment = {
        "vary": {"learning_rate": [0.1, 0.2]},
        "measure": [{"line": {"between": {"learning_rate": [0.1, 0.2]}}}],
        "set": {"batch_size": 16},
    }
    study = plan.make(config(experiment=experiment))
    assert [
        tuple(study.runs[name].factors["learning_rate"] for name in pair)
        for pair in study.experiments["a"].pairs["line"]
    ] == [(0.1, 0.2)] * 2


def test_the_figures_that_a_study_may_name_are_the_registry():
    from batchscope import figures

    assert sorted(figures.FIGURES) == list(plan.FIGURES)
    assert {name: item.measures for name, item in figures.FIGURES.items()} == plan.FIGURES


def test_the_figures_by_number_of_epochs_are_those_of_the_registry():
    from batchscope import figures

    needing = {name for name, item in figures.FIGURES.items() if item.at_epochs}
    assert needing == set(plan.EPOCH_FIGURES)


def test_one_training_serves_several_numbers_of_epochs():
    plain = plan.make(config(defaults={"epochs": 10}))
    experiment = {"measure": ["evaluate", "time_epoch"], "at_epochs": ["5", 1, 10, 8.0]}
    study = plan.make(config(defaults={"epochs": 10}, experiment=experiment))
    assert list(study.runs) == list(plain.runs)
    assert study.experiments["a"].at_epochs == (1, 5, 8, 10)
    assert plain.experiments["a"].at_epochs == ()
    assert study.experiments["a"].measures["evaluate"]["epoch"] == 0


def test_at_epochs_are_those_that_every_run_keeps():
    vary = {"batch_size": [16], "epochs": [10, 20]}
    experiment = {"vary": vary, "measure": ["evaluate"], "at_epochs": [4, 8]}
    plan.make(config(experiment=experiment))
    experiment["at_epochs"] = [4, 6, 9]  # 10 is kept of one run alone
    assert problems(config(experiment=experiment)) == [
        "experiments.a.at_epochs[1]: received 6, after which no weights are kept; 5 or 8 is "
        "expected.",
        "experiments.a.at_epochs[2]: received 9, after which no weights are kept; 8 is expected.",
    ]


def test_a_figure_by_number_of_epochs_needs_them():
    experiment = {"measure": ["evaluate"], "figures": ["accuracy_by_epochs"]}
    assert problems(config(experiment=experiment)) == [
        "experiments.a.figures[0]: received 'accuracy_by_epochs' without what it needs; at_epochs "
        "in the experiment is expected."
    ]
    made = plan.make(config(experiment={**experiment, "at_epochs": [1]}))
    assert made.experiments["a"].figures == ("accuracy_by_epochs",)


def test_an_epoch_is_no_setting_for_users():
    (line,) = problems(config(experiment={"measure": {"evaluate": {"epoch": 1}}}))
    assert line == (
        "experiments.a.measure.evaluate.epoch: received 1; an epoch given by the experiment's own "
        "key 'at_epochs' is expected."
    )


def test_figures_and_what_was_published_are_kept_in_order():
    experiment = {
        "figures": ["time", "accuracy"],
        "measure": ["evaluate", "time_epoch"],
        "published": {"time": {"figure": "Figure 7", "found": "It falls."}},
    }
    found = plan.make(config(experiment=experiment)).experiments["a"]
    assert found.figures == ("time", "accuracy")
    assert found.published["time"]["figure"] == "Figure 7"


def method_problems(**varied):
    cases = [{"method": "conservative", "gamma": 10}, {"method": "robust"}, varied]
    return problems(config(experiment={"vary": {"batch_size": [16]}, "seeds": 1, "cases": cases}))


@pytest.mark.parametrize(
    ("case", "message"),
    [
        (
            {"method": "robust", "gamma": 2},
            "gamma: received 2.0 with method robust; it is expected of conservative alone.",
        ),
        (
            {"method": "plain", "inner_steps": 3},
            "inner_steps: received 3 with method plain; it is expected of conservative alone.",
        ),
        (
            {"method": "conservative", "rho": 0.1},
            "rho: received 0.1 with method conservative; it is expected of robust alone.",
        ),
        (
            {"method": "robust", "replicas": 2, "rho": 0.1},
            "method: received robust with 2 replicas; plain is expected, or 1 replica.",
        ),
        (
            {"augmentation": "random", "replicas": 2},
            "augmentation: received random with 2 replicas; none is expected, or 1 replica.",
        ),
        (
            {"method": "conservative", "warmup_epochs": 1, "learning_rate_scaling": "linear"},
            "warmup_epochs: received 1 with method conservative, whose inner steps would count as "
            "updates; 0 is expected.",
        ),
        ({"augmentation": "flip"}, "augmentation: received 'flip'; one of none, crop, random is"),
    ],
)
def test_a_method_has_its_own_parameters_and_a_whole_batch(case, message):
    (found,) = method_problems(**case)
    assert found.startswith(f"experiments.a.cases[2].{message}")


def test_methods_and_augmentations_are_named_where_they_are_not_the_plain_ones():
    cases = [
        {"method": "plain"},
        {"method": "conservative", "gamma": 10, "inner_steps": 3},
        {"method": "robust", "augmentation": "crop"},
    ]
    study = plan.make(config(experiment={"vary": {"batch_size": [16]}, "seeds": 1, "cases": cases}))
    plain = "digits-065f9c58+small_cnn+bs=16+lr=0.1+opt=sgd+ep=2+seed=0"
    assert list(study.runs) == [
        plain,
        f"{plain}+method=conservative+gamma=10+inner=3",
        f"{plain}+aug=crop+method=robust",
    ]
    timed = [names.timing_name(run.factors) for run in study.runs.values()]
    first = "digits-065f9c58+small_cnn+bs=16+opt=sgd+dev=cpu+th=1"
    assert timed == [
        first,
        f"{first}+method=conservative+inner=3",
        f"{first}+aug=crop+method=robust",
    ]


def test_margins_and_the_experiments_beside_them():
    timing = {"vary": {"batch_size": [16, 32]}, "timing": {"throughput": None}}
    raw = config(
        experiment={"measure": ["evaluate"], "margins": {"test_accuracy": "3e-2"}, "beside": ["t"]}
    )
    raw["experiments"]["t"] = timing
    found = plan.make(raw).experiments["a"]
    assert (found.margins, found.beside) == ({"test_accuracy": 0.03}, ("t",))
    bad = copy.deepcopy(raw)
    bad["experiments"]["a"] |= {
        "margins": {"test_acuracy": 0.03, "test_loss": -1},
        "beside": ["a"],
        "measure": ["sharpness"],
    }
    bad["experiments"]["t"] = {**timing, "margins": {"test_loss": 0.1}}
    assert sorted(problems(bad)) == [
        "experiments.a.beside[0]: received 'a'; an experiment of times (t) is expected.",
        "experiments.a.margins.test_acuracy: unknown outcome. Did you mean 'test_accuracy'? "
        f"Known outcomes: {', '.join(sorted(plan.MARGIN_OUTCOMES))}.",
        "experiments.a.margins.test_loss: received -1; a positive number is expected.",
        "experiments.a.margins: received without what it is of; evaluate in measure is expected.",
        "experiments.t.margins: received beside `timing`; an experiment that trains or one of "
        "times is expected.",
    ]


def test_limits_of_the_batch_size_need_margins_and_beside_needs_them_too():
    experiment = {"measure": ["evaluate"], "figures": ["batch_size_limits"], "beside": ["a"]}
    found = problems(config(experiment=experiment))
    start = "experiments.a.figures[0]: received 'batch_size_limits' without what it needs; margins"
    assert any(line.startswith(start) for line in found)
    assert any("beside: received without margins" in line for line in found)


def timed(**experiment):
    """A study of times of MNIST, with frameworks varied."""
    experiment = {
        "vary": {"batch_size": [32], "framework": ["tensorflow", "pytorch"]},
        "timing": ["throughput", "utilisation"],
        **experiment,
    }
    defaults = {"dataset": "mnist", "model": "campbell_cnn", "optimizer": "sgd"}
    return {"study": "s", "defaults": defaults, "experiments": {"a": experiment}}


def test_a_framework_is_a_sweep_of_its_own():
    own, other = plan.make(timed()).experiments["a"].sweeps
    assert other.name == f"{own.name}+fw=pytorch"
    assert plan.make(timed(vary={"batch_size": [32]})).experiments["a"].sweeps == (own,)
    frameworks = list(names.TIMING_ONLY_FACTORS["framework"].choices)
    every = {"batch_size": [32], "framework": frameworks, "threads": ["all"], "device": ["cpu"]}
    every |= {"model": ["campbell_cnn", "lheureux_cnn"], "optimizer": ["sgd", "adam"]}
    assert len(plan.make(timed(vary=every)).experiments["a"].sweeps) == 4 * 2 * 2


@pytest.mark.parametrize(
    ("factor", "value", "expected"),
    [
        ("model", "small_cnn", "model campbell_cnn or lheureux_cnn is"),
        ("optimizer", "rmsprop", "optimizer sgd or adam is"),
        ("loop", "eager", "loop graph is"),
        ("replicas", 2, "replicas 1 is"),
        ("momentum", 0.9, "momentum 0 is"),
    ],
)
def test_what_another_framework_does_not_have(factor, value, expected):
    assert problems(timed(set={factor: value})) == [
        f"experiments.a.vary.framework[1]: received 'pytorch' with {factor} {value}; "
        f"{expected} expected."
    ]


def test_another_framework_waits_for_nothing_and_has_its_arrays_in_memory():
    given = {"loop": "eager", "input_pipeline": "prefetch", "delay_seconds": 0.1}
    assert problems(timed(set=given)) == [
        "experiments.a.vary.framework[1]: received 'pytorch' with loop eager, input_pipeline "
        "prefetch and delay_seconds 0.1; loop graph, input_pipeline plain and delay_seconds 0 are "
        "expected."
    ]


@pytest.mark.parametrize("timing", ["max_batch_size", "profile"])
def test_another_framework_is_timed_in_two_ways(timing):
    assert problems(timed(timing=["throughput", timing])) == [
        f"experiments.a.vary.framework[1]: received 'pytorch' with {timing}; throughput or "
        "utilisation in timing alone is expected."
    ]


def test_a_users_model_is_for_tensorflow_alone(tmp_path):
    raw = timed(set={"model": "mine"})
    raw["models"] = {"mine": str(MODEL_FILE)}
    (line,) = problems(raw)
    assert "with model mine-58f02d97; model campbell_cnn or lheureux_cnn is expected." in line


def test_a_training_has_no_framework():
    (line,) = problems(config(experiment={"set": {"framework": "jax"}}))
    assert line.startswith("experiments.a.set.framework: received in an experiment that trains")


def test_what_the_plan_says_of_frameworks_is_what_there_is():
    from batchscope import environments
    from batchscope.frameworks import MODULES, layers

    assert list(layers.NETWORKS) == list(plan.FRAMEWORK_MODELS)
    assert [environments.OWN, *environments.FRAMEWORKS] == list(
        names.TIMING_ONLY_FACTORS["framework"].choices
    )
    assert list(MODULES) == list(environments.FRAMEWORKS)
