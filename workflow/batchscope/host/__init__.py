"""The machine and its processes: description, requirements, memory limits, locks, the fork server.

The start of TensorFlow is here too. No module of this package reads the results of a run.
"""
