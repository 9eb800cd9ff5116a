"""The files below `results`: their paths, their records, and the jobs that are missing.

Safe reads and writes are in batchscope.core.disk. Each step decides about the content of its files.
"""
