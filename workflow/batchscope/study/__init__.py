"""From a YAML file to a plan: models of the file, factors, names of runs, and specifications.

The specifications of measures, timings and data sources stand with their functions, in packages
above, and are found by name. Nothing here reads results, trains or imports what does.
"""
