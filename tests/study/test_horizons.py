"""What is planned of runs whose rate falls towards the horizon."""

from batchscope import figures
from batchscope.study import planner
from small_study import config

COSINE = {"schedule": "cosine"}
SIZES = {"vary": {"batch_size": [16, 32, 64]}}


def test_figures_of_prefixes_are_not_drawn_unasked():
    def drawn(**defaults):
        raw = config(experiment=SIZES, defaults={"evaluate_every": 100, **defaults})
        return figures.drawn(planner.make(raw).experiments["a"])

    left_out = ["progress", "critical_batch_size"]
    assert [name for name in drawn() if name not in drawn(**COSINE)] == left_out
    assert "primary" in drawn(**COSINE)


def test_each_horizon_has_its_own_trainings():
    vary = {"batch_size": [16, 32, 64], "epochs": [2, 4], "schedule": ["constant", "linear"]}
    study = planner.make(config(experiment={"vary": vary}))
    assert len(study.runs) == 24
