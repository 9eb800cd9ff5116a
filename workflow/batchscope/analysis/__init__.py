"""Tables in, numbers and verdicts out: intervals, tests, fits, answers.

No file is read or written here, and nothing is drawn. `trainings` reads a series as cubes, each
batch size at a rate of `chosen_rates`. `targets` and `budget_comparisons` read it at targets and
budgets. `comparisons`, `trends`, `batch_schedules` and `claims` make statements about `contrasts`,
which `verdicts` judges. `advice` recommends a batch size from these tables.
"""
