"""Train one run: factors in, weights and history out.

`trainer` is the job, `fit` the training, `step_loop` its updates.
"""
