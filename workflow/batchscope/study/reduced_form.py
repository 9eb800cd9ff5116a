"""The section `reduced` of a study: what its smaller form replaces."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from batchscope.catalogue.coercion import as_map
from batchscope.problems import Place, Problem, missing, unknown


def apply(config: dict[str, Any]) -> tuple[dict[str, Any], list[Place]]:
    """Returns the reduced configuration, and the places whose values `reduced` gave."""
    reduced, replaced = as_map(config.get("reduced")), []
    config = {**config, "defaults": {**as_map(config.get("defaults"))}}
    for name, value in as_map(reduced.get("defaults")).items():
        config["defaults"][name] = value
        replaced.append(("defaults", name))
    for section in ("datasets", "experiments"):
        config[section] = dict(as_map(config.get(section)))
        for name, keys in as_map(reduced.get(section)).items():
            if not isinstance(config[section].get(name), dict):
                continue
            body = {**config[section][name], **as_map(keys)}
            if section == "experiments":  # a key without a value takes that key away
                body = {key: value for key, value in body.items() if value is not None}
            config[section][name] = body
            replaced.extend((section, name, key) for key in as_map(keys))
    return config, replaced


def definitions(config: dict[str, Any]) -> Iterator[tuple[Place, dict[str, Any]]]:
    """Yields place and whole definition of each data set that `reduced` changes."""
    bases = as_map(config.get("datasets"))
    for name, keys in as_map(as_map(config.get("reduced")).get("datasets")).items():
        if isinstance(bases.get(name), dict) and isinstance(keys, dict):
            yield ("reduced", "datasets", name), {**bases[name], **keys}


def problems(config: dict[str, Any], scale: str) -> Iterator[Problem]:
    """Yields what is wrong with the section itself, which the scale `reduced` needs."""
    if scale == "reduced" and "reduced" not in config:
        yield missing(("reduced",), "a section with what scale=reduced replaces")
    reduced = as_map(config.get("reduced"))
    for section, noun in (("datasets", "data set"), ("experiments", "experiment")):
        known = as_map(config.get(section))
        for name in as_map(reduced.get(section)):
            if name not in known:
                yield unknown(("reduced", section, name), noun, known)
