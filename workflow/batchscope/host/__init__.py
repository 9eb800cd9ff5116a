"""The machine and processes: description, requirements, memory limits, locks, the fork server.

The start of TensorFlow is here too. No module here reads the results of a run.
"""
