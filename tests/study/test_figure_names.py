"""The figures that an experiment may name."""

from batchscope.study import planner
from small_study import config, problems


def test_a_figure_by_number_of_epochs_needs_them():
    experiment = {"measure": ["evaluate"], "figures": ["accuracy_by_epochs"]}
    assert problems(config(experiment=experiment)) == [
        "experiments.a.figures[0]: received 'accuracy_by_epochs' without its requirements; "
        "at_epochs in the experiment is expected."
    ]
    made = planner.make(config(experiment={**experiment, "at_epochs": [1]}))
    assert made.experiments["a"].figures == ("accuracy_by_epochs",)


def test_figures_and_what_was_published_are_kept_in_order():
    experiment = {
        "figures": ["time", "accuracy"],
        "measure": ["evaluate", "time_epoch"],
        "published": {"time": {"figure": "Figure 7", "found": "It falls."}},
    }
    found = planner.make(config(experiment=experiment)).experiments["a"]
    assert found.figures == ("time", "accuracy")
    assert found.published["time"]["figure"] == "Figure 7"


def test_a_figure_that_is_no_word_is_refused():
    experiment = {"measure": ["evaluate"], "figures": [{}, ["accuracy"], "accuracy"]}
    found = problems(config(experiment=experiment))
    assert [line.partition(":")[0] for line in found] == [
        f"experiments.a.figures[{index}]" for index in range(2)
    ]
    assert all("the name of a figure is expected" in line for line in found)
