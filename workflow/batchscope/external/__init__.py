"""External runs: their logs and tables, and the runner of a user's command.

One module reads one format and returns a `Log` of texts under the names of the log. `log_table`
joins the logs under our names, `log_numbers` reads the numbers, and `external_runs` returns the
runs as the tables of the pipeline have them.
"""
