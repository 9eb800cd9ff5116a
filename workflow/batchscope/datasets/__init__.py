"""Data sets on disk: read or download them, check, split and load them.

No model is built here and nothing trained.

`prepare` makes one folder per data set, whose name carries the digest of its definition, and
`load` maps its arrays into memory. The keys of a definition, and their defaults, are those of
`batchscope.catalogue.dataset_definitions`: what planning has checked is not checked again.
"""

from batchscope.datasets.preparation import prepare
from batchscope.datasets.prepared import Dataset, Examples, Learned, load, look

__all__ = ["Dataset", "Examples", "Learned", "load", "look", "prepare"]
