"""Turn suggestions of the advice into keys of an experiment, as YAML that its study accepts.

A factor changes in the key that states it: `cases`, `vary` or `set`. A factor of the defaults is
added to `set`, or to `vary` if it gets several values.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import yaml

from batchscope.core.errors import ConfigError
from batchscope.study import planner
from batchscope.study.plan import PlannedExperiment, Study

BATCH_SIZE, EVALUATE_EVERY = "batch_size", "evaluate_every"
_FACTORS = (BATCH_SIZE, EVALUATE_EVERY, "learning_rate", "epochs")
Keys = dict[str, Any]  # keys of an experiment, as YAML has them
Values = Mapping[int | None, Any]  # batch size (None for all) -> new value or values


def changes(study: Study, experiment: str, suggestions: Iterable[tuple[str, Values]]) -> Keys:
    """Return the keys of an experiment that suggestions change, each with its whole value.

    Suggestions without a key, and those that the study does not accept, are left out.

    Args:
        suggestions: Factors, or keys such as `measure.time_epoch.blocks`, with their new values.
    """
    written = study.written.get("experiments", {}).get(experiment, {})
    changed: Keys = {}
    for key, values in suggestions:
        new = _changed_keys(study.experiments[experiment], written | changed, key, values)
        if new and _is_accepted(study, experiment, written | changed | new):
            changed |= new
    return changed


def lines(changed: Keys) -> list[str]:
    """Return keys as lines of YAML: `vary: {learning_rate: [0.1, 0.2]}`."""
    style: Any = {"default_flow_style": True, "sort_keys": False, "width": math.inf}
    return [yaml.safe_dump({key: value}, **style).strip()[1:-1] for key, value in changed.items()]


def _is_accepted(study: Study, experiment: str, keys: Keys) -> bool:
    """Return whether a study can be planned with other keys of an experiment."""
    experiments = {**study.written["experiments"], experiment: keys}
    try:
        planner.make({**study.written, "experiments": experiments}, folder=study.folder)
    except ConfigError:
        return False
    return True


def _changed_keys(plan: PlannedExperiment, written: Keys, key: str, values: Values) -> Keys:
    """Return the keys that one suggestion changes; none if no key expresses it."""
    value, (first, *names) = next(iter(values.values())), key.split(".")
    if plan.external_runs or (key in _FACTORS and value in ("", [])):
        return {}
    if key in (plan.command_factors if plan.commands else _FACTORS):
        return _with_factor(written, key, values)
    if key == "seeds" or (key == "alone" and plan.commands):
        return {key: value}
    measured = first == "measure" and names[0] in plan.measures
    # The suggestion is a new measure, or a setting of an existing one.
    if first == "measure" and measured == (len(names) > 1):
        return {"measure": _with_measure(written.get("measure"), *names, value=value)}
    return {}


def _with_factor(written: Keys, factor: str, values: Values) -> Keys:
    """Return the keys that change if a factor gets new values."""
    cases, vary, fixed = (written.get(key) or {} for key in ("cases", "vary", "set"))
    if any(factor in case for case in cases):
        if factor == BATCH_SIZE:
            return {"cases": [*_cases_of_sizes(cases, values[None])]}
        return {"cases": [*_cases_with_values(cases, factor, values)]}
    lists = [value if isinstance(value, list) else [value] for value in values.values()]
    new = {value for items in lists for value in items}
    if factor not in vary and lists != [*values.values()]:
        return {"set": {**fixed, factor: min(new) if factor == EVALUATE_EVERY else max(new)}}
    kept = () if None in values else vary.get(factor, ())
    changed: Keys = {"vary": {**vary, factor: sorted({*kept, *new}, key=float)}}
    if factor in fixed:
        changed["set"] = {name: fixed[name] for name in fixed if name != factor}
    return changed


def _cases_of_sizes(cases: list[Keys], sizes: list[int]) -> Iterator[Keys]:
    """Yield the cases of some batch sizes; a new size is trained as the nearest one."""
    yield from (case for case in cases if case.get(BATCH_SIZE) in sizes)
    for size in sizes:
        nearest = min((case[BATCH_SIZE] for case in cases), key=lambda other: abs(other - size))
        if nearest != size:
            yield from ({**case, BATCH_SIZE: size} for case in cases if case[BATCH_SIZE] == nearest)


def _cases_with_values(cases: list[Keys], factor: str, values: Values) -> Iterator[Keys]:
    """Yield cases with the new value of a factor, or one case for each of several values."""
    seen: list[Keys] = []  # cases without the factor that have been replaced
    for case in cases:
        size = None if None in values else case.get(BATCH_SIZE, next(iter(values)))
        shared = {name: value for name, value in case.items() if name != factor}
        if size not in values:
            yield case
        elif not isinstance(values[size], list):
            yield {**case, factor: values[size]}
        elif shared not in seen:
            seen.append(shared)
            yield from ({**case, factor: value} for value in values[size])


def _with_measure(measure: Any, name: str, setting: str = "", value: Any = None) -> Any:
    """Return the key `measure` with one more measure, or with another setting of one."""
    names = [measure] if isinstance(measure, str) else measure or []
    if isinstance(names, list) and not setting:
        return [*names, name]
    settings = names if isinstance(names, dict) else dict.fromkeys(names)
    changed = {**(settings.get(name) or {}), setting: value} if setting else None
    return {**settings, name: changed}
