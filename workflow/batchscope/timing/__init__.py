"""Timing measures: jobs that have the machine to themselves."""
