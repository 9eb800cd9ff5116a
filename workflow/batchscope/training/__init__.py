"""One run: factors in, weights and history out.

What is measured of a finished run lives in batchscope.measures.
"""
