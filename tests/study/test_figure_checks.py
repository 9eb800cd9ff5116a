"""The figures that an experiment draws by default, and those that it may name."""

import pytest

import synthetic
from batchscope import figures
from batchscope.study import planner
from batchscope.study.figure_checks import default_figures
from batchscope.study.figures import FIGURES
from batchscope.study.specifications import FigureRequirement as Requirement
from made_figures import NAMES
from small_study import config

ALL = synthetic.MEASURES, set(Requirement)


def test_figures_follow_from_measures():
    assert default_figures() == ["loss_curves", "best_losses"]
    assert default_figures(*ALL) == [name for name in NAMES if not FIGURES[name].variant_axis]
    # A timing experiment trains nothing, so that there is no loss to draw.
    assert default_figures(["throughput"]) == ["throughput", "step_time"]
    assert "training_time" in default_figures(["throughput"], [Requirement.AT_EPOCHS])
    some = default_figures(["evaluate", "weight_distance"], [Requirement.AT_EPOCHS])
    assert "weight_distance" in some and not {"sharpness", "training_time"} & set(some)
    of_command = [Requirement.COMMAND]
    assert "usage" in default_figures(conditions=of_command, columns=["seconds"])
    assert "usage" not in default_figures(conditions=of_command, columns=["validation_loss"])
    assert "usage" not in default_figures(columns=["seconds"])


@pytest.mark.parametrize(
    ("figure", "missing"),
    [
        ("fastest_batch_size", Requirement.SECONDS),
        ("critical_batch_size", Requirement.BATCH_SIZES),
        ("critical_batch_size", Requirement.PREFIXES),
        ("progress", Requirement.EVALUATIONS),
        ("primary", Requirement.BATCH_SIZES),
        ("accuracy_by_epochs", Requirement.AT_EPOCHS),
        ("learning_rate", Requirement.LEARNING_RATES),
    ],
)
def test_a_figure_needs_its_conditions(figure, missing):
    measures, conditions = ALL
    assert figure not in default_figures(measures, conditions - {missing})


def test_figures_of_prefixes_are_not_drawn_by_default_if_the_rate_falls():
    def drawn(**defaults):
        vary = {"batch_size": [16, 32, 64]}
        raw = config(experiment={"vary": vary}, defaults={"evaluate_every": 100, **defaults})
        return figures.figure_names(planner.make(raw).experiments["a"])

    falling = drawn(schedule="cosine")
    assert [name for name in drawn() if name not in falling] == ["progress", "critical_batch_size"]
    assert "primary" in falling
