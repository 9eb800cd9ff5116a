"""The files below `results`: their paths and records, and the states of the jobs that make them.

Safe reads and writes are in batchscope.core.disk. Each step decides the content of its files.
"""
