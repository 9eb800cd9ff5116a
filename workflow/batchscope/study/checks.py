"""Checks of the keys of one experiment, beyond their types, and the facts that they share.

A check yields problems; `study.planner` calls it, so a new one needs a call there. The facts are
the pairs of runs, whether runs have seconds or race, and a schedule that is tied to the horizon.
More checks: `study.incompatible_factors`, `study.figure_checks`, `study.logged_experiments`.
"""

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
from batchscope.study.registry import ENTRIES, MEASURES, SECONDS_TIMINGS
from batchscope.study.run_factors import CONSTANT, HORIZON_REASON, horizon_factor
from batchscope.study.specifications import FigureRequirement

if TYPE_CHECKING:
    from batchscope.study.plan import Pair, PlannedExperiment

Runs = Iterable[dict[str, Any]]

_OUTCOMES = tuple(name for name, column in columns.COLUMNS.items() if column.label)
RATE = "learning_rate"
_MAX_PAIR_LENGTH = 210  # for both names; a file name has 255 characters


def unfit_settings(
    place: Place,
    measures: Iterable[MeasureRequest],
    runs: list[dict[str, Any]],
    training_sizes: Mapping[str, int | None],
) -> Iterator[Problem]:
    """Yield measures that need another factor, and settings that do not fit a run."""
    for measure in measures:
        entry, key_place = ENTRIES[measure.name], (*place, measure.name)
        for factor, value in getattr(entry, "factors", {}).items():
            if any(run[factor] != value for run in runs):
                text = f"Needs {factor}: {show(value)} in set or defaults (received runs without)."
                yield Problem(key_place, text)
        for run in runs:
            size = training_sizes[run["dataset"]]
            for setting, text in entry.problems(run, measure.settings, size):
                yield Problem((*key_place, setting), text)


def run_pairs(measure: MeasureRequest, runs: Mapping[str, dict[str, Any]]) -> tuple[Pair, ...]:
    """Return the names of the runs in each pair of a measure: equal in every factor but one."""
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
    if any(len(small_run) + len(large_run) > _MAX_PAIR_LENGTH for small_run, large_run in pairs):
        raise LongNameError(f"Expected pairs of at most {_MAX_PAIR_LENGTH} characters.")
    return pairs


def measures_without_pairs(
    place: Place, measures: Iterable[MeasureRequest], pairs: Mapping[str, tuple[Pair, ...]]
) -> Iterator[Problem]:
    """Yield the measures of two runs without a pair. `pairs` has the pairs of each such measure."""
    for measure in measures:
        if not pairs.get(measure.name, True):
            [(factor, (small, large))] = measure.between.items()
            text = "Expected two runs of this experiment that differ in nothing else "
            text += f"(received {factor} {small} and {large})."
            yield Problem((*place, measure.name, "between"), text)


def unused_epochs(
    place: Place, keys: TrainingExperiment | TimingExperiment, measures: Collection[str]
) -> Iterator[Problem]:
    """Yield a problem if no measure or timing uses `at_epochs`."""
    users = {name for name, entry in ENTRIES.items() if entry.at_epochs}
    if keys.at_epochs and not users & {*measures}:
        text = f"Needs {display.listed(sorted(users), 'or')} in measure or timing."
        yield Problem((*place, "at_epochs"), text)


def metric_conflicts(place: Place, keys: Experiment, earlier: dict[str, str]) -> Iterator[Problem]:
    """Yield metrics with the name of a column, or with another meaning than in `earlier`."""
    for name, better in keys.metrics.items():
        key_place = (*place, "metrics", name)
        new_names = {f"{split}_{name}" for split in tasks.SPLITS} | {name}
        existing = new_names & {*columns.COLUMNS, *columns.TRAJECTORIES}
        if existing or log_names.is_split(name.partition("_")[0]) or log_names.our_name(name):
            text = "Expected a name that no column of ours has, without its data."
            yield Problem(key_place, text)
        elif better != (other := earlier.setdefault(name, better)):
            yield received(key_place, better, f"{other}, as in another experiment")


def unsaved_epochs(place: Place, epochs: tuple[int, ...], horizons: set[int]) -> Iterator[Problem]:
    """Yield the numbers of `at_epochs` after which some run keeps no snapshot."""
    possible_epochs = map(snapshot_epochs.possible_epochs_of_run, horizons)
    kept = set.intersection(*map(set, possible_epochs))
    for index, epoch in enumerate(epochs):
        if epoch not in kept:
            expected = display.listed(map(str, sorted(kept)), "or")
            text = f"{expected}, after which every run has a snapshot"
            yield received((*place, "at_epochs", index), epoch, text)


def comparison_keys(place: Place, keys: Comparison) -> Iterator[Problem]:
    """Yield problems of the keys of `Comparison`: `primary`, `margins`, `budgets` and seeds."""
    for index, name in enumerate(keys.primary):
        column = columns.describe(name, keys.user_metrics)
        if column is None or not column.label:
            yield received((*place, "primary", index), name, "an outcome of runs.csv", _OUTCOMES)
    for name, margin in keys.margins.items():
        key_place = (*place, "margins", name)
        if name not in tasks.OUTCOMES and not tasks.user_metric(name, keys.user_metrics):
            yield unknown(key_place, "outcome", tasks.OUTCOMES)
        elif tasks.is_share(name) and margin >= 1:
            yield received(key_place, margin, "a share below 1 (0.01 is one point)")
    yield from invalid_target(place, keys)
    if keys.seeds_planned is not None and isinstance(getattr(keys, "seeds", None), StagedSeeds):
        text = f"Staged seeds are planned by at_most (received {keys.seeds_planned}). Remove one."
        yield Problem((*place, "seeds_planned"), text)


def margins_without_outcomes(
    place: Place, keys: TrainingExperiment, measures: Collection[str], runs: Runs
) -> Iterator[Problem]:
    """Yield margins of outcomes that some run does not evaluate."""
    sources = [name for name, entry in MEASURES.items() if {*entry.columns} & {*tasks.OUTCOMES}]
    evaluated = {*measures} & {*sources} or all(run["evaluate_every"] for run in runs)
    if keys.margins and not evaluated:
        needed = display.listed(sources, "or")
        text = f"Needs {needed} in measure, or evaluate_every of all trainings."
        yield Problem((*place, "margins"), text)


def invalid_target(place: Place, keys: Comparison) -> Iterator[Problem]:
    """Yield a target with an unknown outcome or an impossible value."""
    for name, value in keys.budgets.get(budget_kinds.TARGET, {}).items():
        key_place = (*place, "budgets", budget_kinds.TARGET, name)
        metric = tasks.metric(name, keys.user_metrics)
        if name not in budget_kinds.TARGETS and not tasks.user_metric(name, keys.user_metrics):
            yield unknown(key_place, "target", budget_kinds.TARGETS)
        elif metric and metric.maximum == 1 and value > 1:
            yield received(key_place, value, "at most 1")
        elif value <= 0 and not (metric and metric.minimum < 0):
            yield received(key_place, value, "a number above 0")


def outcomes_of_other_tasks(
    place: Place, keys: Comparison, task_names: Collection[str]
) -> Iterator[Problem]:
    """Yield the outcomes that belong to no task of the data sets."""
    goal = keys.budgets.get(budget_kinds.TARGET, {})
    stated = [(("margins", name), name) for name in keys.margins]
    stated += [(("budgets", budget_kinds.TARGET, name), name) for name in goal]
    stated += [(("primary", index), name) for index, name in enumerate(keys.primary)]
    for figure, body in keys.published.items():
        for index, series in enumerate(body.numbers):
            key_place = ("published", figure, "numbers", index)
            stated += [((*key_place, name), name) for name in series.columns]
    task_words = display.listed((task.replace("_", "-") for task in task_names), "or")
    for key_place, name in stated:
        if not tasks.columns_of_tasks([name], task_names):
            split = name.partition("_")[0]
            valid = [f"{split}_{metric}" for task in task_names for metric in tasks.TASKS[task]]
            expected = f"{display.listed(valid, 'or')} for a {task_words}"
            yield received((*place, *key_place), name, expected)


def has_seconds(measures: Iterable[str], experiments: Iterable[Experiment]) -> bool:
    """Return whether runs have seconds: by their own timing, or by an experiment of `beside`."""
    timings = {timing.name for other in experiments for timing in other.timing}
    return not SECONDS_TIMINGS.keys().isdisjoint({*measures, *timings})


def unreachable_budgets(
    place: Place,
    budgets: dict[str, Any],
    runs: list[dict[str, Any]],
    training_sizes: Mapping[str, int | None],
    task_names: Collection[str],
) -> Iterator[Problem]:
    """Yield the budgets that a run of the experiment does not reach or evaluate."""
    budgets_place = (*place, "budgets")
    for kind, column in budget_kinds.AXES.items():
        end = _min_length(column, runs, training_sizes)
        if end is not None and budgets.get(kind, 0) > end:
            text = f"at most {end}, the {kind} of the shortest run"
            yield received((*budgets_place, kind), budgets[kind], text)
    for column in budgets.get(budget_kinds.TARGET, {}):
        evaluated = all(run["evaluate_every"] for run in runs)
        if column not in budget_kinds.ALWAYS_EVALUATED and not evaluated:
            names = tasks.columns_of_tasks(budget_kinds.ALWAYS_EVALUATED, task_names)
            always = display.listed(names, "or")
            text = f"Needs evaluate_every, which evaluates it during training; or {always}."
            yield Problem((*budgets_place, budget_kinds.TARGET, column), text)


def problems_of_seconds(
    place: Place, keys: TrainingExperiment, experiments: Mapping[str, Experiment], has_seconds: bool
) -> Iterator[Problem]:
    """Yield a budget of seconds without a timing, and problems of the key `beside`."""
    if budget_kinds.SECONDS in keys.budgets and not has_seconds:
        text = f"Needs {figure_checks.SECONDS_SOURCES}."
        yield Problem((*place, "budgets", budget_kinds.SECONDS), text)
    if keys.beside and not keys.margins:
        yield Problem((*place, "beside"), "Needs margins.")
    timed = [name for name, other in experiments.items() if other.timing]
    for index, name in enumerate(keys.beside):
        if name not in timed:
            text = f"a timing experiment ({', '.join(timed) or 'none'})"
            yield received((*place, "beside", index), name, text, timed)


def has_race(keys: TrainingExperiment | CommandExperiment) -> bool:
    """Return whether several learning rates of a batch size race over seeds in stages."""
    # Other factors of a case -> learning rates of the cases that share them.
    rates: dict[str, list[Any]] = {"": list(keys.vary.get(RATE, ()))}
    for case in keys.cases:
        other_factors = {name: value for name, value in case.items() if name != RATE}
        rates.setdefault(str(other_factors), []).append(case.get(RATE))
    numbers = [values for values in rates.values() if not any(isinstance(v, str) for v in values)]
    return any(len(values) > 1 for values in numbers)


def unsuitable_seeds(
    planned: PlannedExperiment, count: int, stage: stages.Stage | None, reduced: bool
) -> Iterator[Problem]:
    """Yield warnings of seeds that weaken verdicts: too few, or other seeds than planned.

    Args:
        count: Number of seeds that every batch size has.
        stage: Result of the interim analyses so far.
        reduced: Whether it is the reduced form, which may have fewer seeds.
    """
    keys, size_count = planned.keys, len(planned.batch_sizes)
    place = ("experiments", planned.name, "runs" if planned.external_runs else "seeds")
    if size_count > 1 and count < MIN_SEEDS:
        text = f"A verdict on {size_count} batch sizes needs at least {MIN_SEEDS} seeds "
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


class HorizonSchedule(NamedTuple):
    """A factor that makes rate or batch size depend on the horizon, and its value."""

    factor: str
    value: str

    @property
    def why(self) -> str:
        return f"with {self.factor} {self.value}, {HORIZON_REASON}"

    @property
    def expected(self) -> str:
        return f"{self.factor} {CONSTANT}"


def horizon_schedule(planned: PlannedExperiment) -> HorizonSchedule | None:
    """Return the schedule of an experiment that depends on the horizon; None if none does."""
    if planned.schedule:
        return HorizonSchedule("schedule", planned.schedule)
    return _horizon_schedule_of_runs(planned.runs.values())


def _horizon_schedule_of_runs(runs: Runs) -> HorizonSchedule | None:
    factors = ((horizon_factor(run), run) for run in runs)
    return next((HorizonSchedule(name, run[name]) for name, run in factors if name), None)


def early_budgets(
    place: Place, kinds: Iterable[str], schedule: HorizonSchedule | None
) -> Iterator[Problem]:
    """Yield budgets before the end of trainings that a schedule ties to their end."""
    for kind in kinds if schedule else ():
        text = f"{schedule.expected}, or no budgets, since equal lengths are compared anyway"
        yield received((*place, "budgets", kind), kind, text, why=f" {schedule.why}")


def uses_before_the_end(place: Place, keys: TrainingExperiment, runs: Runs) -> Iterator[Problem]:
    """Yield keys that use trainings before their end, or that mix lengths of trainings."""
    schedule = _horizon_schedule_of_runs(runs)
    if not schedule:
        return
    why, expected = f" {schedule.why}", schedule.expected
    if keys.at_epochs:
        text = f"{expected}, or a run for each number of epochs"
        yield received((*place, "at_epochs"), list(keys.at_epochs), text, why=why)
    yield from early_budgets(place, keys.budgets, schedule)
    for key_place, figure in figure_checks.named_figures(place, keys):
        if FigureRequirement.PREFIXES in figure.conditions:
            yield received(key_place, figure.name, f"{expected}, or another figure", why=why)
    epochs: dict[int, set[int]] = {}
    for run in runs:
        epochs.setdefault(run["batch_size"], set()).add(run["epochs"])
    if len({*map(frozenset, epochs.values())}) > 1:
        text = f"Expected {expected}, or the same epochs at every batch size ({schedule.why})."
        yield Problem((*place, "cases"), text)


def _min_length(column: str, runs: Runs, training_sizes: Mapping[str, int | None]) -> int | None:
    """Return the length of the shortest training without early stopping; None if unknown.

    Args:
        column: Column of trajectories.csv that counts the length.
        training_sizes: Data set -> training examples; None if only the files know.
    """
    lengths = []
    for run in runs:
        epochs, size = run["epochs"], training_sizes.get(run["dataset"])
        if column == "epoch":
            lengths.append(epochs)
        elif size is not None and column in ("updates", "examples"):
            examples = size * run_factors.training_copies(run)
            updates = Course(run, examples).updates(epochs)
            lengths.append(updates if column == "updates" else epochs * examples)
    return min(lengths, default=None)
