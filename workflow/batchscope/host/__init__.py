"""This machine: what it is, what it lacks, and what is started on it.

What a study asks of it is planned elsewhere.
"""
