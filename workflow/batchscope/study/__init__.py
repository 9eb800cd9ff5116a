"""Turn a YAML file into a plan: models of the file, factors, names of runs, and specifications.

Packages above define the specifications of measures, timings and data sources next to their
functions; they are found by name. Nothing here reads results, trains, or imports code that does.
"""
