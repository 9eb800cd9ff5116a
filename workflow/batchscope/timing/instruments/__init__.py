"""What a timing reads from: clocks, samplers, counters, traces, peaks.

What is timed lives in batchscope.timing.steps.
"""
