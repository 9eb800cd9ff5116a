"""Read logs of trainings that Batchscope did not run, and run a user's command.

`text_logs` and `tensorboard` return a `Log` of texts under the names in the log. `log_table` joins
logs under our names, `log_numbers` reads the numbers, and `external_runs` returns runs in the
columns of our tables.
"""
