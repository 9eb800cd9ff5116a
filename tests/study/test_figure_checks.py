"""The figures that an experiment draws by default, and those that it may name."""

import pytest

import synthetic
from batchscope.study import planner
from batchscope.study.figure_checks import available
from batchscope.study.figures import FIGURES
from batchscope.study.specifications import FigureRequirement as Requirement
from made_figures import NAMES
from small_study import config, problems

ALL = synthetic.MEASURES, set(Requirement)


def test_figures_follow_from_measures():
    assert available() == ["loss_curves", "best_losses"]
    assert available(*ALL) == [name for name in NAMES if not FIGURES[name].along]
    # A timing experiment trains nothing, so that there is no loss to draw.
    assert available(["throughput"]) == ["throughput", "step_time"]
    assert "training_time" in available(["throughput"], [Requirement.AT_EPOCHS])


@pytest.mark.parametrize(
    ("figure", "missing"),
    [
        ("fastest_batch_size", Requirement.SECONDS),
        ("critical_batch_size", Requirement.BATCH_SIZES),
        ("critical_batch_size", Requirement.PREFIXES),
        ("progress", Requirement.EVALUATIONS),
        ("primary", Requirement.BATCH_SIZES),
        ("training_time", Requirement.AT_EPOCHS),
        ("learning_rate", Requirement.LEARNING_RATES),
    ],
)
def test_a_figure_needs_its_conditions(figure, missing):
    measures, conditions = ALL
    assert figure in available(measures, conditions)
    assert figure not in available(measures, conditions - {missing})


def test_a_figure_needs_its_measures():
    figures = available(["evaluate", "weight_distance"], [Requirement.AT_EPOCHS])
    assert "weight_distance" in figures
    assert not {"sharpness", "training_time"} & set(figures)


def test_usage_is_measured_of_commands_with_seconds():
    of_command = [Requirement.COMMAND]
    assert "usage" in available(conditions=of_command, columns=["seconds"])
    assert "usage" not in available(conditions=of_command, columns=["validation_loss"])
    assert "usage" not in available(columns=["seconds"]) + available(["evaluate"])


def test_a_figure_by_number_of_epochs_needs_them():
    experiment = {"measure": ["evaluate"], "figures": ["accuracy_by_epochs"]}
    (line,) = problems(config(experiment=experiment))
    assert line.startswith("experiments.a.figures[0]: ") and "'accuracy_by_epochs'" in line
    study = planner.make(config(experiment={**experiment, "at_epochs": [1]}))
    assert study.experiments["a"].keys.figures == ("accuracy_by_epochs",)


def test_figures_and_published_values_keep_their_order():
    experiment = {
        "figures": ["time", "accuracy"],
        "measure": ["evaluate", "time_epoch"],
        "published": {"time": {"figure": "Figure 7", "found": "It falls."}},
    }
    keys = planner.make(config(experiment=experiment)).experiments["a"].keys
    assert keys.figures == ("time", "accuracy")
    assert keys.published["time"].figure == "Figure 7"
