"""From records to the tidy tables of an experiment.

What follows from the tables is computed in batchscope.analysis.
"""
