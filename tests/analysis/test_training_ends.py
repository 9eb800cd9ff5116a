"""Where trainings ended."""

import numpy as np
import pandas

from batchscope.analysis import training_ends


def test_runs_that_nothing_stopped_are_told_from_those_whose_epochs_were_chosen():
    runs = pandas.DataFrame({"epochs_run": [30, 100, 100, 100], "patience": [10, 10, 10, 0]})
    runs = runs.assign(epochs=100, target_train_loss=0.0, status="finished")
    runs.loc[2, "status"] = "diverged"
    assert training_ends.unstopped(runs).tolist() == [False, True, False, False]
    at_loss = runs.assign(target_train_loss=0.3)
    assert training_ends.unstopped(at_loss).tolist() == [False, True, False, True]
    whole = runs.assign(epochs=np.asarray(runs["epochs_run"]))
    assert training_ends.all_ran_out(whole) and not training_ends.epochs_chosen(whole)
    assert training_ends.epochs_chosen(whole.assign(patience=0))
