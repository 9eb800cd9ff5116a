"""The machine and its processes: requirements, memory limits, signals, the fork server.

The start of TensorFlow is here too. No module of this package reads the results of a run.
"""
