"""The measures: one module per measure, which holds its entry and nothing that runs.

The module of the same name in batchscope.measures does the work.
"""

from batchscope.catalogue.entries import Measure, discover

MEASURES: dict[str, Measure] = discover(__name__, __path__, Measure)
