"""From a YAML file to a plan: read, checked, every problem reported at once.

Nothing here reads results or imports what runs.
"""
