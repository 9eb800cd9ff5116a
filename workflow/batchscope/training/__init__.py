"""One run: factors in, weights and history out.

batchscope.measures computes properties of a finished run.
"""
