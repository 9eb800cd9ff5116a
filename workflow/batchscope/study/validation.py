"""One validation pass over a study file: its sound parts as models, and what is wrong with others.

Broken parts are cut out and the rest is validated again, so that checks of meaning report at the
same time what they find in the sound parts.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from batchscope.catalogue import tasks
from batchscope.problems import Findings, Place, Problem, missing, order, unknown
from batchscope.study import messages
from batchscope.study.document import StudyFile

_LEAST = {"study": "unnamed", "experiments": {"none": {}}}  # stand for what is missing


@dataclass(frozen=True)
class Validated:
    """The sound parts of a study file.

    Attributes:
        document: The models of these parts.
        findings: What is wrong with the others; takes what planning finds.
    """

    document: StudyFile
    findings: Findings


def validate(raw: dict[str, Any], scale: str) -> Validated:
    """Returns the sound parts of a study file.

    Args:
        raw: What YAML holds.
        scale: `full`, or `reduced` for the smaller form.
    """
    tasks.name_own(_own_metrics(raw))
    sound = copy.deepcopy(raw)
    found, survivors = _cut(sound)
    small, replaced = reduce(sound)
    small_found, small_survivors = _cut(small)
    # What the section `reduced` gives is at fault there, whichever form is asked for.
    of_reduced = [
        Problem(("reduced", *one.place), one.text)
        for one in small_found
        if any(one.place[: len(place)] == place for place in replaced)
    ]
    problems = [*found, *of_reduced, *_unknown_parts(raw, scale)]
    if scale == "full":
        return Validated(_document(sound, raw), Findings(raw, problems, survivors))
    findings = Findings(raw, problems, {**survivors, **small_survivors}, replaced)
    return Validated(_document(small, raw), findings)


def _own_metrics(raw: dict[str, Any]) -> dict[str, str]:
    """Returns the metrics that experiments name, of which margins and targets may be.

    As they are first named: planning reports another direction.
    """
    found: dict[str, str] = {}
    for form in (raw, _map(raw.get("reduced"))):
        for keys in _map(form.get("experiments")).values():
            for name, better in _map(_map(keys).get("metrics")).items():
                if isinstance(name, str) and better in (tasks.LOWER, tasks.HIGHER):
                    found.setdefault(name, better)
    return found


def _document(sound: dict[str, Any], raw: dict[str, Any]) -> StudyFile:
    """Returns the models of the sound parts, without what stands for a missing part."""
    document = StudyFile.model_validate(sound)
    written = _map(raw.get("experiments"))
    kept = {name: keys for name, keys in document.experiments.items() if name in written}
    return document.model_copy(update={"experiments": kept})


def _cut(raw: dict[str, Any]) -> tuple[list[Problem], dict[Place, list[int]]]:
    """Takes broken parts out of a study file.

    Returns:
        The problems, and of every list that lost items the positions of those that are left.
    """
    problems: list[Problem] = []
    survivors: dict[Place, list[int]] = {}
    while True:
        try:
            StudyFile.model_validate(raw)
            return problems, survivors
        except ValidationError as error:
            found = messages.problems(error, StudyFile, raw)
        problems = problems or found
        for place in sorted({_existing(raw, one.place) for one in found}, key=order, reverse=True):
            _take_out(raw, place, survivors)
        for key, value in _LEAST.items():
            raw.setdefault(key, value)


def _existing(raw: Any, place: Place) -> Place:
    """Returns a place, or the nearest one above it that the file has."""
    for count, part in enumerate(place):
        inside = isinstance(raw, dict) and part in raw
        if not inside and not (isinstance(raw, list) and isinstance(part, int)):
            return place[:count]
        raw = raw[part]
    return place


def _take_out(raw: Any, place: Place, survivors: dict[Place, list[int]]) -> None:
    *path, last = place or ("experiments",)
    for part in path:
        raw = raw[part]
    if isinstance(raw, list):
        survivors.setdefault(tuple(path), list(range(len(raw)))).pop(last)
        raw.pop(last)
    else:
        raw.pop(last, None)


def reduce(raw: dict[str, Any]) -> tuple[dict[str, Any], list[Place]]:
    """Returns the reduced form of a study, and the places whose values `reduced` gave."""
    reduced, replaced = raw.get("reduced") or {}, []
    raw = {**copy.deepcopy(raw), "defaults": {**raw.get("defaults", {})}}
    for name, value in reduced.get("defaults", {}).items():
        raw["defaults"][name] = value
        replaced.append(("defaults", name))
    for section in ("datasets", "experiments"):
        raw.setdefault(section, {})
        for name, keys in reduced.get(section, {}).items():
            if name in raw[section]:
                body = {**raw[section][name], **keys}
                if section == "experiments":  # a key without a value takes that key away
                    body = {key: value for key, value in body.items() if value is not None}
                raw[section][name] = body
                replaced.extend((section, name, key) for key in keys)
    return raw, replaced


def _unknown_parts(raw: dict[str, Any], scale: str) -> Iterator[Problem]:
    """Yields what is wrong with the section `reduced` itself, which the scale `reduced` needs."""
    if scale == "reduced" and "reduced" not in raw:
        yield missing(("reduced",), "a section with what scale=reduced replaces")
    for section, noun in (("datasets", "data set"), ("experiments", "experiment")):
        known = _map(raw.get(section))
        for name in _map(_map(raw.get("reduced")).get(section)):
            if name not in known:
                yield unknown(("reduced", section, name), noun, known)


def _map(raw: Any) -> dict[str, Any]:
    return raw if isinstance(raw, dict) else {}
