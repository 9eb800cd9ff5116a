"""The codec between the settings of a measure or timing and their name in paths.

A name holds the settings that differ from their birth value, and `default` where none does::

    eps=0.001+ex=0
"""

from __future__ import annotations

from typing import Any

from batchscope.catalogue import name_codec
from batchscope.catalogue.entries import REPEATS, Entry
from batchscope.catalogue.measures import MEASURES
from batchscope.catalogue.timings import TIMINGS

ENTRIES: dict[str, Entry] = {**MEASURES, **TIMINGS}


def settings_name(measure: str, settings: dict[str, Any]) -> str:
    """Returns the name of a measure's settings: those that differ from birth, or `default`."""
    parts = name_codec.encode(ENTRIES[measure].parameters, settings, ())
    return name_codec.checked("+".join(parts) or "default")


def job_settings(timing: str, settings: dict[str, Any], repeat: int) -> str:
    """Returns the name of the settings of one of a timing's jobs, which are counted from 1 on."""
    return settings_name(timing, {**settings, REPEATS.name: repeat})


def parse_settings(measure: str, name: str) -> dict[str, Any]:
    """Returns every setting of a measure, by full name.

    Raises:
        ValueError: If the name is not one that `settings_name` would have written.
    """
    known = ENTRIES[measure].parameters
    values = {} if name == "default" else name_codec.decode(known, name.split("+"), name)
    if settings_name(measure, values) != name:
        raise ValueError(f"Expected the canonical form of settings. Received: {name!r}")
    return {key: values.get(key, setting.birth) for key, setting in known.items()}
