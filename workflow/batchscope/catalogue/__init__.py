"""What a study may choose, one entry each: factors, measures, timings, figures, outcomes.

Nothing that runs lives here; the standard library is all that it needs.
"""
