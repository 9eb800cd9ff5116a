"""Requirements that trainings lack, and suggestions as YAML that every shipped study accepts."""

import pytest
import yaml

from batchscope.study import planner, stages, suggestions, yaml_file
from project import ROOT
from small_study import config as small

STUDIES = [
    ROOT / "config.yaml",
    *sorted(ROOT.glob("examples/*/study.yaml")),
    *sorted(ROOT.glob("studies/*.yaml")),
]
FRESH = yaml.safe_load(stages.new_seeds(5, 12))
WORDS = ("log", "column", "test_examples")  # no key of a study expresses them


def asked(runs):
    """Yields every suggestion that an advice on some runs may have."""
    sizes = sorted({run["batch_size"] for run in runs})
    tried = sorted({run["learning_rate"] for run in runs if "learning_rate" in run})
    beyond = [*tried, *(3 * rate for rate in tried[-1:])]
    yield "learning_rate", {None: beyond}
    yield "learning_rate", {sizes[-1]: beyond}
    yield "epochs", {size: 2 * max(run.get("epochs", 1) for run in runs) for size in sizes[:2]}
    yield "evaluate_every", {None: 10}
    yield "batch_size", {None: [*sizes, 2 * sizes[-1]]}
    yield "batch_size", {None: sizes[1:] or sizes}
    yield "seeds", {None: 7}
    yield "seeds", {None: FRESH}
    yield "alone", {None: True}
    for key in ("measure.time_epoch", "measure.evaluate", *WORDS):
        yield key, {None: ""}
    yield "measure.time_epoch.blocks", {None: 21}


@pytest.mark.parametrize("path", STUDIES, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_every_study_accepts_every_suggestion(path):
    raw = yaml_file.read(path)
    study = planner.make(raw, "reduced" if "reduced" in raw else "full", folder=path.parent)
    kinds = {type(each.keys): name for name, each in reversed(study.experiments.items())}
    accepted = set()
    for name in kinds.values():  # planned without the others, which takes less time
        written = {**study.written, "experiments": {name: study.written["experiments"][name]}}
        for key in {"claims", "reduced"} & written.keys():
            del written[key]
        alone = planner.make(written, folder=path.parent)
        commands = [run.factors for run in alone.commands.values()]
        runs = [*alone.runs.values(), *commands]
        for key, values in asked(runs) if runs else ():
            changed = suggestions.changes(alone, name, [(key, values)])
            assert yaml.safe_load("\n".join(suggestions.lines(changed))) == (changed or None)
            accepted |= {key} if changed else set()
    assert accepted.isdisjoint(WORDS)
    if study.runs:
        keys = {"learning_rate", "epochs", "evaluate_every", "batch_size", "seeds"}
        assert keys <= accepted


SMALL, LARGE = {"batch_size": 16, "epochs": 2}, {"batch_size": 32, "epochs": 4}
CASES = {"vary": {}, "cases": [SMALL, LARGE]}
RATED = [{"batch_size": 16, "learning_rate": rate} for rate in (0.1, 0.2)]
RATED += [{"batch_size": 32, "learning_rate": 0.1}]
IN_SET = {"set": {"learning_rate": 0.1, "momentum": 0.9}, "vary": {"batch_size": [16]}}
IN_VARY = {"vary": {"batch_size": [16], "learning_rate": [0.1, 0.2]}}
TIMED = {"measure": {"evaluate": None, "time_epoch": {"block_seconds": 1}}}
MORE_BLOCKS = {"evaluate": None, "time_epoch": {"block_seconds": 1, "blocks": 21}}


def rates(*values):
    return {"batch_size": [16], "learning_rate": [*values]}


@pytest.mark.parametrize(
    ("experiment", "key", "values", "expected"),
    [
        ({}, "epochs", {16: 4, 32: 8}, {"set": {"epochs": 8}}),
        (CASES, "epochs", {32: 8}, {"cases": [SMALL, {**LARGE, "epochs": 8}]}),
        ({}, "evaluate_every", {16: 20, 32: 10}, {"set": {"evaluate_every": 10}}),
        (
            IN_SET,
            *("learning_rate", {None: [0.1, 0.3]}),
            {"vary": rates(0.1, 0.3), "set": {"momentum": 0.9}},
        ),
        (IN_VARY, "learning_rate", {16: [0.2, 0.4]}, {"vary": rates(0.1, 0.2, 0.4)}),
        (
            {"vary": {}, "cases": RATED},
            *("learning_rate", {32: [0.1, 0.05]}),
            {"cases": [*RATED, {"batch_size": 32, "learning_rate": 0.05}]},
        ),
        (CASES, "batch_size", {None: [32, 64]}, {"cases": [LARGE, {**LARGE, "batch_size": 64}]}),
        ({}, "batch_size", {None: [16]}, {"vary": {"batch_size": [16]}}),
        (TIMED, "measure.time_epoch.blocks", {None: 21}, {"measure": MORE_BLOCKS}),
        ({}, "learning_rate", {None: ""}, {}),
        ({}, "test_examples", {None: 100}, {}),
        ({}, "seeds", {None: 501}, {}),  # 1002 runs, of 1000 that there may be
    ],
)
def test_a_suggestion_changes_a_factor_where_the_study_has_it(experiment, key, values, expected):
    study = planner.make(small(experiment=experiment))
    assert suggestions.changes(study, "a", [(key, values)]) == expected


def test_a_case_without_a_batch_size_has_that_of_the_defaults():
    cases = {"vary": {}, "cases": [{"epochs": 3}, {"batch_size": 16}]}
    study = planner.make(small(experiment=cases, defaults={"batch_size": 8}))
    changed = suggestions.changes(study, "a", [("batch_size", {None: [8, 16, 32]})])
    sizes = [(case["batch_size"], case.get("epochs")) for case in changed["cases"]]
    assert sizes == [(8, 3), (16, None), (32, None)]


def test_suggestions_add_up():
    study = planner.make(small())
    both = [("measure.evaluate", {None: ""}), ("measure.time_epoch", {None: ""})]
    assert suggestions.changes(study, "a", both) == {"measure": ["evaluate", "time_epoch"]}


def test_missing_requirements_have_new_values_and_minutes():
    trained = suggestions.TrainingSummary([16], seeds=2, rates=1, rate=0.1)
    needs = list(suggestions.missing_needs(trained, seed_minutes=3.0, rate_minutes=5.0))
    assert [(need.key, need.value) for need in needs] == [
        ("batch_size", [16, 32, 64]),
        ("seeds", 6),
        ("learning_rate", [0.0333, 0.1, 0.3]),
    ]
    assert [need.minutes for need in needs[1:]] == [4 * 3.0, 2 * 5.0]
