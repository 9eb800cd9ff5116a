"""What trainings lack for a solid recommendation, and the keys of the study file that add it.

`missing_needs` yields what is missing as `Need`s: a key and its new value. A new requirement is a
`yield` there, or in `analysis.advice` if only results show it. `changes` turns keys and values into
whole keys of an experiment, and `lines` writes them as YAML. A new kind of key is a branch of
`_changed_keys`.

A factor changes in the key that states it: `cases`, `vary` or `set`. A factor of the defaults is
added to `set`, or to `vary` if it gets several values.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import yaml

from batchscope.core.errors import ConfigError
from batchscope.study import planner
from batchscope.study.outcomes import MIN_SEEDS
from batchscope.study.plan import PlannedExperiment, Study
from batchscope.study.registry import (
    OUTCOME_MEASURES,
    SECONDS_TIMINGS,
    SWEEP_TIMINGS,
    TRAINING_TIMINGS,
)

BATCH_SIZE, EVALUATE_EVERY = "batch_size", "evaluate_every"
MIN_SIZES = 3
RERUN = "--forcerun"  # This is no key of a study; its value is a rule to run again.
RATE_STEP = 3.0  # ratio of successive learning rates, suggested for a study with a single rate
SEEDS, RATE = "seeds", "learning_rate"
# Suggested timings for the seconds of runs, and the measure for outcomes on test data.
SECONDS_TIMING = next(name for name in SECONDS_TIMINGS if name in TRAINING_TIMINGS)
SWEEP_TIMING = next(name for name in SECONDS_TIMINGS if name in SWEEP_TIMINGS)
TEST_MEASURE = next(iter(OUTCOME_MEASURES))
# Missing timing or measure -> the key of the experiment that adds its numbers, and the value. The
# words `log` and `column` are no such keys, since only the user can add to a log.
TRAINING_KEYS = {
    SECONDS_TIMING: (f"measure.{SECONDS_TIMING}", ""),
    TEST_MEASURE: (f"measure.{TEST_MEASURE}", ""),
}
COMMAND_KEYS = {SECONDS_TIMING: ("alone", "true"), TEST_MEASURE: ("log", "{}")}
EXTERNAL_KEYS = {SECONDS_TIMING: ("column", "seconds"), TEST_MEASURE: ("column", "{}")}
_FACTORS = (BATCH_SIZE, EVALUATE_EVERY, RATE, "epochs")
Keys = dict[str, Any]  # keys of an experiment, as YAML has them
Values = Mapping[int | None, Any]  # batch size (None for all) -> new value or values


class Need(NamedTuple):
    """A missing requirement, and the key of the study to change, with its new value.

    Attributes:
        key: Key of an experiment, with dots between levels.
        minutes: Minutes of one core that the change takes; NaN if unknown.
        seeds: Total number of seeds, if seeds are missing.
    """

    name: str
    key: str
    value: Any = ""
    minutes: float = math.nan
    seeds: float = math.nan

    def row(self) -> dict[str, Any]:
        row = {"name": self.name, "passed": None, "key": self.key, "value": str(self.value)}
        return {**row, "seeds_to_resolve": self.seeds, "minutes_to_resolve": self.minutes}


class TrainingSummary(NamedTuple):
    """Facts of the trainings of a series, or of the planned trainings of an experiment.

    Attributes:
        sizes: Batch sizes in rising order.
        rates: Number of learning rates at the size with the fewest; 0 if unknown.
        rate: The learning rate, if all trainings have the same one.
        timed: Whether they have seconds.
        tested: Whether they have outcomes on test data.
        keys_to_add: Keys that add seconds and outcomes on test data, as in `TRAINING_KEYS`.
        quantity: Metric or loss that would be an outcome on test data.
    """

    sizes: Sequence[int]
    seeds: int
    rates: int
    rate: float | None = None
    timed: bool = True
    tested: bool = True
    keys_to_add: Mapping[str, tuple[str, str]] = TRAINING_KEYS
    quantity: str = "accuracy"


def missing_needs(
    trained: TrainingSummary, seed_minutes: float = math.nan, rate_minutes: float = math.nan
) -> Iterator[Need]:
    """Yield the missing requirements of existing or planned trainings.

    Args:
        seed_minutes: Minutes of one more seed; `rate_minutes`, of one more learning rate.
    """
    if len(trained.sizes) < MIN_SIZES:
        larger = [2 * trained.sizes[-1], 4 * trained.sizes[-1]]
        yield Need("sizes", "batch_size", [*trained.sizes, *larger][:MIN_SIZES])
    if not trained.timed:
        yield Need(SECONDS_TIMING, *trained.keys_to_add[SECONDS_TIMING])
    if not trained.tested:
        key, value = trained.keys_to_add[TEST_MEASURE]
        yield Need(TEST_MEASURE, key, value.format(f"test_{trained.quantity}"))
    if trained.seeds < MIN_SEEDS:
        minutes = (MIN_SEEDS - trained.seeds) * seed_minutes
        yield Need(SEEDS, SEEDS, MIN_SEEDS, minutes, MIN_SEEDS)
    if trained.rates < 2:
        steps = () if trained.rate is None else (1 / RATE_STEP, 1, RATE_STEP)
        rates = [rounded(trained.rate * step) for step in steps]
        yield Need("rates", RATE, rates or "", 2 * rate_minutes)


def keys_to_add(experiment: PlannedExperiment) -> Mapping[str, tuple[str, str]]:
    if experiment.commands:
        return COMMAND_KEYS
    return TRAINING_KEYS if experiment.runs else EXTERNAL_KEYS


def planned_needs(experiment: PlannedExperiment) -> list[Need]:
    """Return the requirements that an experiment with two or more batch sizes will lack."""
    runs = experiment.factors_of.values()
    rates: dict[int, set[float]] = {}
    for run in runs:
        rates.setdefault(run["batch_size"], set()).add(run.get(RATE))
    if len(rates) < 2:
        return []
    distinct_rates = set().union(*rates.values())
    # The content of a future log is unknown.
    evaluated = all(run.get(EVALUATE_EVERY, True) for run in runs)
    trained = TrainingSummary(
        sorted(rates),
        experiment.verdict_seeds,
        min(map(len, rates.values())),
        distinct_rates.pop() if len(distinct_rates) == 1 else None,
        experiment.timed,
        evaluated or TEST_MEASURE in experiment.measures,
        keys_to_add(experiment),
    )
    return list(missing_needs(trained))


def rounded(value: float) -> float:
    return float(f"{value:.3g}")


def changes(study: Study, experiment: str, suggestions: Iterable[tuple[str, Values]]) -> Keys:
    """Return the keys of an experiment that suggestions change, each with its whole value.

    Suggestions without a key, and those that the study does not accept, are left out.

    Args:
        suggestions: Factors, or keys such as `measure.time_epoch.blocks`, with their new values.
    """
    written = {**study.written.get("experiments", {}).get(experiment, {})}
    if any(BATCH_SIZE in case for case in written.get("cases", ())):
        default = study.written.get("defaults", {}).get(BATCH_SIZE)
        written["cases"] = [{BATCH_SIZE: default, **case} for case in written["cases"]]
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
    cases, vary, fixed = (written.get(key) or {} for key in ("cases", "vary", "set"))
    if any(factor in case for case in cases):
        if factor == BATCH_SIZE:
            return {"cases": [*_cases_of_sizes(cases, values[None])]}
        return {"cases": [*_cases_with_values(cases, factor, values)]}
    lists = [value if isinstance(value, list) else [value] for value in values.values()]
    new = {value for items in lists for value in items}
    # A list goes into `vary`, a single value into `set`. If batch sizes need different values, the
    # one that suits all is taken: the smallest distance of evaluations, else the largest value.
    if factor not in vary and lists != [*values.values()]:
        return {"set": {**fixed, factor: min(new) if factor == EVALUATE_EVERY else max(new)}}
    # The values of batch sizes without a suggestion stay.
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
