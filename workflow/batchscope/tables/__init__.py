"""Records of runs, measures and timings -> the tidy tables of an experiment, as CSV files.

batchscope.analysis computes verdicts and fits from the tables.
"""
