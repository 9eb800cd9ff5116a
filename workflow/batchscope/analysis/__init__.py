"""Tables in, numbers and verdicts out: intervals, tests, fits, answers.

No file is read or written here, and nothing is drawn.
"""
