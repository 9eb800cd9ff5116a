"""The machine: what it is and lacks, its memory limits, locks, and how a step gets its process.

How TensorFlow starts stands here too. No package here knows a run's files.
"""
