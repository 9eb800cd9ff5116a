"""One module per measure: a pure function and `write`, which makes the measure's file.

A new measure is one module with the two functions below, one line in `MODULES` and its
settings in `names.MEASURES`::

    columns(settings) -> tuple[str, ...]
        Columns of the tables that the measure fills, for its settings by full name.
    write(results, run, settings, output, model_file=None) -> None
        Reads a run, measures it, writes the record `output`; `settings` is their name in paths.
        A measure of two runs takes the second one's name, `other`, after `run`.
"""

from __future__ import annotations

import importlib
from types import ModuleType

# Modules are imported when they are asked for: some need TensorFlow, some do not.
MODULES = {
    "evaluate": "batchscope.measures.evaluate",
    "sharpness": "batchscope.measures.sharpness",
    "weight_distance": "batchscope.weight_distance",
    "displacement": "batchscope.measures.displacement",
    "gradient_alignment": "batchscope.measures.gradient_alignment",
    "hessian": "batchscope.measures.hessian",
    "sam_sharpness": "batchscope.measures.sam_sharpness",
    "landscape": "batchscope.measures.landscape",
    "line": "batchscope.measures.line",
}


def module(measure: str) -> ModuleType:
    """Imports and returns the module of a measure.

    Raises:
        ValueError: If there is no such measure.
    """
    if measure not in MODULES:
        raise ValueError(f"Expected one of {', '.join(MODULES)}. Received: {measure!r}")
    return importlib.import_module(MODULES[measure])
