"""The figures that an experiment draws unasked, and those that it may name."""

import synthetic
from batchscope.study import planner
from batchscope.study.figure_names import Given, available
from batchscope.study.figures import FIGURES
from batchscope.study.specifications import FigureRequirement
from made_figures import NAMES
from small_study import config, problems


def test_figures_follow_from_measures():
    assert available(Given()) == ["loss_curves", "best_losses"]
    unasked = [name for name in NAMES if not FIGURES[name].along]
    assert available(Given(synthetic.MEASURES, FigureRequirement)) == unasked
    untimed = available(Given(needs={*FigureRequirement} - {FigureRequirement.SECONDS}))
    assert "critical_batch_size" in untimed and "fastest_batch_size" not in untimed
    assert "critical_batch_size" not in available(
        Given(needs={*FigureRequirement} - {FigureRequirement.BATCH_SIZES})
    )
    assert "critical_batch_size" not in available(
        Given(needs={*FigureRequirement} - {FigureRequirement.PREFIXES})
    )
    unstated = available(Given(synthetic.MEASURES, needs=[FigureRequirement.PREFIXES]))
    assert "progress" not in unstated
    assert "progress" in available(
        Given(needs=[FigureRequirement.PREFIXES, FigureRequirement.EVALUATIONS])
    )
    assert "primary" not in available(Given(needs=[FigureRequirement.PREFIXES]))
    assert "primary" in available(Given(needs=[FigureRequirement.BATCH_SIZES]))
    assert "training_time" not in available(
        Given(synthetic.MEASURES, needs=[FigureRequirement.LEARNING_RATES])
    )
    assert "training_time" not in available(
        Given(["evaluate"], needs=[FigureRequirement.AT_EPOCHS])
    )
    assert "learning_rate" not in available(Given(synthetic.MEASURES))
    assert "sharpness" not in available(Given(["evaluate", "weight_distance"]))
    # Where nothing is trained there is no loss to draw.
    assert available(Given(["throughput"])) == ["throughput", "step_time"]
    assert "training_time" in available(Given(["throughput"], needs=[FigureRequirement.AT_EPOCHS]))
    # Use of the machine is measured of a command that runs alone.
    of_command = {"needs": [FigureRequirement.COMMAND]}
    assert "usage" in available(Given(own=["seconds"], **of_command))
    assert "usage" not in available(Given(own=["validation_loss"], **of_command))
    assert "usage" not in available(Given(own=["seconds"])) + available(Given(["evaluate"]))


def test_a_figure_by_number_of_epochs_needs_them():
    experiment = {"measure": ["evaluate"], "figures": ["accuracy_by_epochs"]}
    (line,) = problems(config(experiment=experiment))
    assert line.startswith("experiments.a.figures[0]: ") and "'accuracy_by_epochs'" in line
    made = planner.make(config(experiment={**experiment, "at_epochs": [1]}))
    assert made.experiments["a"].keys.figures == ("accuracy_by_epochs",)


def test_figures_and_what_was_published_are_kept_in_order():
    experiment = {
        "figures": ["time", "accuracy"],
        "measure": ["evaluate", "time_epoch"],
        "published": {"time": {"figure": "Figure 7", "found": "It falls."}},
    }
    found = planner.make(config(experiment=experiment)).experiments["a"]
    assert found.keys.figures == ("time", "accuracy")
    assert found.keys.published["time"].figure == "Figure 7"
