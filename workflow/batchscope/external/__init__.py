"""External runs: logs of any format, their tables, and the runner of a user's command.

A reader gives the cells of a log as text, under the log's own names. `cells` joins all logs to one
table under our names, `numbers` reads its numbers, `log_runs` finds runs and series.
"""
