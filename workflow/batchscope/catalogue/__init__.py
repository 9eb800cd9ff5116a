"""What a study may choose, one entry each: factors, measures, timings, figures, outcomes.

No step of a job lives here, and no file is read but the head of one that a definition names. The
standard library is all that it needs.
"""
