"""The training steps that are timed: loops, input pipelines, frameworks.

How they are timed is in the modules of the timings above.
"""
