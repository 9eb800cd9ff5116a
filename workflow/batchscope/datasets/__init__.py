"""Data sets on disk: read or download them, check, split and load them.

Models and training are in `batchscope.training`.

`prepare` writes one folder per data set; its name has the digest of the definition. `load` maps the
arrays into memory. A definition and its reader are one module of `sources`.
"""

from typing import Any

_HOMES = {
    "prepare": "preparation",
    **dict.fromkeys(("Dataset", "Examples", "Learned", "load", "model_input"), "prepared"),
}
__all__ = [*_HOMES]


def __getattr__(name: str) -> Any:
    """Import a function when it is first used: planning imports the sources alone."""
    import importlib

    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
