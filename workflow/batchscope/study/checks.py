"""Checks of meaning of one experiment. Each function yields the problems of one key."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from batchscope.core import display
from batchscope.core.problems import Place, Problem, received, show, unknown
from batchscope.study import (
    budget_kinds,
    columns,
    figure_checks,
    log_names,
    run_factors,
    snapshot_epochs,
    stages,
    tasks,
    versions,
)
from batchscope.study.batch_phases import Course
from batchscope.study.experiments import (
    CommandExperiment,
    Comparison,
    Experiment,
    MeasureRequest,
    StagedSeeds,
    TimingExperiment,
    TrainingExperiment,
)
from batchscope.study.names import LongNameError
from batchscope.study.outcomes import MIN_SEEDS
from batchscope.study.registry import MEASURES, SECONDS_TIMINGS, SWEEP_TIMINGS
from batchscope.study.run_factors import CONSTANT, HORIZON_REASON, by_horizon
from batchscope.study.specifications import FigureRequirement

if TYPE_CHECKING:
    from batchscope.study.plan import Pair, PlannedExperiment

Runs = Iterable[dict[str, Any]]

_OUTCOMES = tuple(name for name, column in columns.COLUMNS.items() if column.label)
RATE = "learning_rate"
_LONGEST_PAIR = 210  # characters of both names; with settings, below 255 for a file name


def settings(
    place: Place,
    measures: Iterable[MeasureRequest],
    runs: list[dict[str, Any]],
    training_sizes: Mapping[str, int | None],
) -> Iterator[Problem]:
    """Yield measures that need another factor, and settings that do not fit a run."""
    for measure in measures:
        entry, at = versions.ENTRIES[measure.name], (*place, measure.name)
        for factor, value in getattr(entry, "factors", {}).items():
            if any(run[factor] != value for run in runs):
                text = f"Needs {factor}: {show(value)} in set or defaults (received runs without)."
                yield Problem(at, text)
        for run in runs:
            size = training_sizes[run["dataset"]]
            for setting, text in entry.problems(run, measure.settings, size):
                yield Problem((*at, setting), text)


def pairs(measure: MeasureRequest, runs: Mapping[str, dict[str, Any]]) -> tuple[Pair, ...]:
    """Return the pairs of runs of a measure, by name: equal in every factor but one."""
    [(factor, (small_value, large_value))] = measure.between.items()
    small: dict[tuple[Any, ...], str] = {}
    large: dict[tuple[Any, ...], str] = {}
    for name, factors in runs.items():
        shared = tuple(value for key, value in factors.items() if key != factor)
        if factors[factor] == small_value:
            small[shared] = name
        elif factors[factor] == large_value:
            large[shared] = name
    pairs = tuple((name, large[shared]) for shared, name in small.items() if shared in large)
    # A cluster's executor makes one file name of both runs and the settings.
    if any(len(small_run) + len(large_run) > _LONGEST_PAIR for small_run, large_run in pairs):
        raise LongNameError(f"Expected pairs of at most {_LONGEST_PAIR} characters.")
    return pairs


def no_pairs(
    place: Place, measures: Iterable[MeasureRequest], pairs: Mapping[str, tuple[Pair, ...]]
) -> Iterator[Problem]:
    """Yield the measures of two runs without a pair. `pairs` has the pairs of each such measure."""
    for measure in measures:
        if not pairs.get(measure.name, True):
            [(factor, (small, large))] = measure.between.items()
            text = "Expected two runs of this experiment that differ in nothing else "
            text += f"(received {factor} {small} and {large})."
            yield Problem((*place, measure.name, "between"), text)


def epochs_without_a_measure(
    place: Place, keys: TrainingExperiment | TimingExperiment, measures: Collection[str]
) -> Iterator[Problem]:
    """Yield a problem if no measure or timing uses `at_epochs`."""
    served = {name for name, entry in versions.ENTRIES.items() if entry.at_epochs}
    if keys.at_epochs and not served & {*measures}:
        in_measure = display.listed(sorted(served - {*SWEEP_TIMINGS}), "or")
        in_timing = display.listed(sorted(served & {*SWEEP_TIMINGS}), "or")
        text = f"Needs {in_measure} in measure, or {in_timing} in timing."
        yield Problem((*place, "at_epochs"), text)


def metrics(place: Place, keys: Experiment, earlier: dict[str, str]) -> Iterator[Problem]:
    """Yield metrics with the name of a column, or with another meaning than in `earlier`."""
    for name, better in keys.metrics.items():
        at = (*place, "metrics", name)
        ours = {f"{split}_{name}" for split in tasks.SPLITS} | {name}
        existing = ours & {*columns.COLUMNS, *columns.TRAJECTORIES}
        if existing or log_names.is_split(name.partition("_")[0]) or log_names.ours(name):
            yield Problem(at, "Expected a name that no column of ours has, without its data.")
        elif better != (other := earlier.setdefault(name, better)):
            yield received(at, better, f"{other}, as in another experiment")


def epochs_not_kept(place: Place, epochs: tuple[int, ...], horizons: set[int]) -> Iterator[Problem]:
    """Yield the numbers of epochs without a snapshot of every run."""
    kept = set.intersection(*(set(snapshot_epochs.kept_epochs(horizon)) for horizon in horizons))
    for index, epoch in enumerate(epochs):
        at = (*place, "at_epochs", index)
        if epoch > min(horizons):
            which = "every run" if len(horizons) == 1 else "the shortest run"
            yield received(at, epoch, f"at most {min(horizons)}, the epochs of {which}")
        elif epoch not in kept:
            below = max(other for other in kept if other < epoch)
            above = min((other for other in kept if other > epoch), default=None)
            nearest = f"{below} or {above}" if above else str(below)
            yield received(at, epoch, f"{nearest}, after which there are snapshots")


def comparison(place: Place, keys: Comparison) -> Iterator[Problem]:
    """Yield the problems of keys that trainings, commands and external runs share."""
    for index, name in enumerate(keys.primary):
        column = columns.describe(name, keys.user_metrics)
        if column is None or not column.label:
            yield received((*place, "primary", index), name, "an outcome of runs.csv", _OUTCOMES)
    for name, margin in keys.margins.items():
        at = (*place, "margins", name)
        if name not in tasks.OUTCOMES and not tasks.user_metric(name, keys.user_metrics):
            yield unknown(at, "outcome", tasks.OUTCOMES)
        elif tasks.is_share(name) and margin >= 1:
            yield received(at, margin, "a share below 1 (0.01 is one point)")
    yield from target(place, keys)
    if keys.seeds_planned is not None and isinstance(getattr(keys, "seeds", None), StagedSeeds):
        text = f"Staged seeds are planned by at_most (received {keys.seeds_planned}). Remove one."
        yield Problem((*place, "seeds_planned"), text)


def outcomes_of_margins(
    place: Place, keys: TrainingExperiment, measures: Collection[str], runs: Runs
) -> Iterator[Problem]:
    """Yield margins of outcomes that some run does not evaluate."""
    sources = [name for name, entry in MEASURES.items() if {*entry.columns} & {*tasks.OUTCOMES}]
    evaluated = {*measures} & {*sources} or all(run["evaluate_every"] for run in runs)
    if keys.margins and not evaluated:
        needed = display.listed(sources, "or")
        text = f"Needs {needed} in measure, or evaluate_every of all trainings."
        yield Problem((*place, "margins"), text)


def target(place: Place, keys: Comparison) -> Iterator[Problem]:
    """Yield an unknown target, or an impossible value of one."""
    for name, value in keys.budgets.get(budget_kinds.TARGET, {}).items():
        at = (*place, "budgets", budget_kinds.TARGET, name)
        metric = tasks.metric(name, keys.user_metrics)
        if name not in budget_kinds.TARGETS and not tasks.user_metric(name, keys.user_metrics):
            yield unknown(at, "target", budget_kinds.TARGETS)
        elif metric and metric.most == 1 and value > 1:
            yield received(at, value, "at most 1")
        elif value <= 0 and not (metric and metric.least < 0):
            yield received(at, value, "a number above 0")


def outcomes_of_others(
    place: Place, keys: Comparison, learned: Collection[str]
) -> Iterator[Problem]:
    """Yield the outcomes that belong to no task of the data sets."""
    goal = keys.budgets.get(budget_kinds.TARGET, {})
    named = [(("margins", name), name) for name in keys.margins]
    named += [(("budgets", budget_kinds.TARGET, name), name) for name in goal]
    named += [(("primary", index), name) for index, name in enumerate(keys.primary)]
    for figure, body in keys.published.items():
        for index, series in enumerate(body.numbers):
            at = ("published", figure, "numbers", index)
            named += [((*at, name), name) for name in series.columns]
    task = display.listed((task.replace("_", "-") for task in learned), "or")
    for at, name in named:
        if not tasks.columns_of_tasks([name], learned):
            split = name.partition("_")[0]
            valid = [f"{split}_{metric}" for task in learned for metric in tasks.TASKS[task]]
            yield received((*place, *at), name, f"{display.listed(valid, 'or')} for a {task}")


def has_seconds(measures: Iterable[str], experiments: Iterable[Experiment]) -> bool:
    """Return whether runs have seconds: by their own timing, or by an experiment of `beside`."""
    timings = {timing.name for other in experiments for timing in other.timing}
    return not SECONDS_TIMINGS.keys().isdisjoint({*measures, *timings})


def budgets_beyond(
    place: Place,
    budgets: dict[str, Any],
    runs: list[dict[str, Any]],
    training_sizes: Mapping[str, int | None],
    learned: Collection[str],
) -> Iterator[Problem]:
    """Yield the budgets that a run of the experiment does not reach or evaluate."""
    home = (*place, "budgets")
    for kind, column in budget_kinds.AXES.items():
        end = shortest(column, runs, training_sizes)
        if end is not None and budgets.get(kind, 0) > end:
            text = f"at most {end}, the {kind} of the shortest run"
            yield received((*home, kind), budgets[kind], text)
    for column in budgets.get(budget_kinds.TARGET, {}):
        evaluated = all(run["evaluate_every"] for run in runs)
        if column not in budget_kinds.ALWAYS_THERE and not evaluated:
            always = display.listed(
                tasks.columns_of_tasks(budget_kinds.ALWAYS_THERE, learned), "or"
            )
            text = f"Needs evaluate_every, which evaluates it during training; or {always}."
            yield Problem((*home, budget_kinds.TARGET, column), text)


def timings(
    place: Place,
    keys: TrainingExperiment,
    experiments: Mapping[str, Experiment],
    has_seconds: bool,
) -> Iterator[Problem]:
    """Yield missing seconds, `beside` without margins, and names of experiments without timings."""
    if budget_kinds.SECONDS in keys.budgets and not has_seconds:
        yield Problem((*place, "budgets", budget_kinds.SECONDS), f"Needs {figure_checks.TIMED}.")
    if keys.beside and not keys.margins:
        yield Problem((*place, "beside"), "Needs margins.")
    timed = [name for name, other in experiments.items() if other.timing]
    for index, name in enumerate(keys.beside):
        if name not in timed:
            text = f"a timing experiment ({', '.join(timed) or 'none'})"
            yield received((*place, "beside", index), name, text, timed)


def has_race(keys: TrainingExperiment | CommandExperiment) -> bool:
    """Return whether several learning rates of a batch size race over seeds in stages."""
    rates: dict[str, list[Any]] = {"": list(keys.vary.get(RATE, ()))}
    for case in keys.cases:
        other_factors = {name: value for name, value in case.items() if name != RATE}
        rates.setdefault(str(other_factors), []).append(case.get(RATE))
    numbers = [values for values in rates.values() if not any(isinstance(v, str) for v in values)]
    return any(len(values) > 1 for values in numbers)


def seeds(
    planned: PlannedExperiment, count: int, stage: stages.Stage | None, reduced: bool
) -> Iterator[Problem]:
    """Yield what weakens verdicts: too few seeds, or others than were planned.

    Args:
        count: Seeds that every batch size has.
        stage: Result of the interim analyses so far.
        reduced: Whether it is the reduced form, which may have fewer seeds.
    """
    keys, sizes = planned.keys, len(planned.batch_sizes)
    place = ("experiments", planned.name, "runs" if planned.external_runs else "seeds")
    if sizes > 1 and count < MIN_SEEDS:
        text = f"A verdict on {sizes} batch sizes needs at least {MIN_SEEDS} seeds "
        yield Problem(place, f"{text}(received {count}).")
    expected = keys.seeds_planned
    if expected is not None and (count > expected or (count < expected and not reduced)):
        why = "A verdict before that is an interim analysis."
        if count > expected:
            why = "Seeds that are added after an analysis increase the error rate of tests."
        yield Problem(place, f"Planned were {expected} seeds (received {count}). {why}")
    staged, analysed = getattr(keys, "seeds", None), stage and stage.analysed_seeds
    if not analysed or not isinstance(staged, StagedSeeds):
        return
    if stage.first == staged.first:
        if stage.planned != staged.at_most:
            text = f"at_most {stage.planned}, as planned at the last interim analysis"
            yield received(place, staged.at_most, text)
    elif staged.first < analysed.stop and analysed.start < staged.seeds.stop:
        numbers = f"{analysed.start} to {analysed.stop - 1}"
        text = f"first {analysed.stop}: the seeds {numbers} were analysed before"
        yield received(place, staged.first, text)


class Schedule(NamedTuple):
    """A factor that makes a training depend on its length, and its value."""

    factor: str
    value: str

    @property
    def why(self) -> str:
        return f"with {self.factor} {self.value}, {HORIZON_REASON}"

    @property
    def expected(self) -> str:
        return f"{self.factor} {CONSTANT}"


def falling_schedule(planned: PlannedExperiment) -> Schedule | None:
    """Return the schedule of an experiment that depends on the horizon; None if none does."""
    if planned.schedule:
        return Schedule("schedule", planned.schedule)
    return schedule_of(planned.runs.values())


def schedule_of(runs: Runs) -> Schedule | None:
    factors = ((by_horizon(run), run) for run in runs)
    return next((Schedule(name, run[name]) for name, run in factors if name), None)


def early_budgets(
    place: Place, kinds: Iterable[str], schedule: Schedule | None
) -> Iterator[Problem]:
    for kind in kinds if schedule else ():
        text = f"{schedule.expected}, or no budgets, since equal lengths are compared anyway"
        yield received((*place, "budgets", kind), kind, text, why=f" {schedule.why}")


def lengths(place: Place, keys: TrainingExperiment, runs: Runs) -> Iterator[Problem]:
    """Yield keys that use trainings before their end, or that mix lengths of trainings."""
    schedule = schedule_of(runs)
    if not schedule:
        return
    why, expected = f" {schedule.why}", schedule.expected
    if keys.at_epochs:
        text = f"{expected}, or a run for each number of epochs"
        yield received((*place, "at_epochs"), list(keys.at_epochs), text, why=why)
    yield from early_budgets(place, keys.budgets, schedule)
    for at, figure in figure_checks.named(place, keys):
        if FigureRequirement.PREFIXES in figure.requires.conditions:
            yield received(at, figure.name, f"{expected}, or another figure", why=why)
    epochs: dict[int, set[int]] = {}
    for run in runs:
        epochs.setdefault(run["batch_size"], set()).add(run["epochs"])
    if len({*map(frozenset, epochs.values())}) > 1:
        text = f"Expected {expected}, or the same epochs at every batch size ({schedule.why})."
        yield Problem((*place, "cases"), text)


def shortest(column: str, runs: Runs, training_sizes: Mapping[str, int | None]) -> int | None:
    """Return the length of the shortest training without early stopping; None if unknown.

    Args:
        column: Column of trajectories.csv.
        training_sizes: Data set -> training examples; None if only the files know.
    """
    ends = [_end(column, run, training_sizes.get(run["dataset"])) for run in runs]
    return min((end for end in ends if end is not None), default=None)


def _end(column: str, factors: dict[str, Any], size: int | None) -> int | None:
    epochs = factors["epochs"]
    if column == "epoch":
        return epochs
    if size is None or column not in ("updates", "examples"):
        return None
    examples = size * run_factors.training_copies(factors)
    return epochs * examples if column == "examples" else Course(factors, examples).updates(epochs)
