"""The search for the largest batch that fits: tries, their processes, their limits.

The timing that starts it is batchscope.timing.max_batch_size.
"""
