"""Checks of the keys of one experiment, beyond their types.

A check yields problems. It belongs to `key_problems` if it needs no run, else to
`training_problems`, or to `log_problems` for runs with logs. `seed_warnings` stop nothing. More
checks: `study.incompatible_factors`, `study.figure_checks`, `Grid.problems`, `study.commands`.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from batchscope.core import display
from batchscope.core.problems import Place, Problem, received, show, unknown
from batchscope.study import (
    figure_checks,
    log_format,
    run_factors,
    snapshot_epochs,
    stages,
    table_entries,
    tasks,
)
from batchscope.study.batch_phases import Course, batch_sizes
from batchscope.study.dataset_definitions import DatasetInfo
from batchscope.study.experiments import (
    CommandExperiment,
    Comparison,
    Experiment,
    ExternalExperiment,
    StagedSeeds,
    TrainingExperiment,
)
from batchscope.study.outcomes import (
    ALWAYS_EVALUATED,
    AXES,
    EPOCHS,
    MIN_SEEDS,
    SECONDS,
    TARGET,
    TARGETS,
    UPDATES,
)
from batchscope.study.plan import PlannedExperiment
from batchscope.study.registry import ENTRIES, MEASURES
from batchscope.study.specifications import FigureRequirement

_OUTCOMES = tuple(name for name, column in table_entries.RUNS.items() if column.label)


def key_problems(
    planned: PlannedExperiment, experiments: Mapping[str, Experiment]
) -> Iterator[Problem]:
    """Yield the keys that are invalid for any runs. `experiments` are all in the study file."""
    keys, place = planned.keys, planned.place
    yield from figure_checks.problems(planned)
    yield from _invalid_metrics(place, keys, experiments)
    yield from _invalid_log_columns(place, keys)
    yield from _invalid_lines(place, keys)
    yield from _invalid_outcomes(place, keys)
    yield from invalid_target(place, keys)
    measures_of_epochs = {name for name, entry in ENTRIES.items() if entry.at_epochs}
    if keys.at_epochs and measures_of_epochs.isdisjoint({**planned.measures, **planned.timings}):
        text = f"Needs {display.listed(sorted(measures_of_epochs), 'or')} in measure or timing."
        yield Problem((*place, "at_epochs"), text)
    is_trained = isinstance(keys, TrainingExperiment)
    if is_trained and SECONDS in keys.budgets and not planned.timed:
        text = f"Needs {figure_checks.SECONDS_SOURCES}."
        yield Problem((*place, "budgets", SECONDS), text)
    if keys.beside and not keys.margins:
        yield Problem((*place, "beside"), "Needs margins.")
    timed = [name for name, other in experiments.items() if other.timing]
    for index, name in enumerate(keys.beside):
        if name not in timed:
            text = f"a timing experiment ({', '.join(timed) or 'none'})"
            yield received((*place, "beside", index), name, text, timed)
    if keys.seeds_planned is not None and isinstance(getattr(keys, "seeds", None), StagedSeeds):
        text = f"Staged seeds are planned by at_most (received {keys.seeds_planned}). Remove one."
        yield Problem((*place, "seeds_planned"), text)


def _invalid_metrics(
    place: Place, keys: Experiment, experiments: Mapping[str, Experiment]
) -> Iterator[Problem]:
    """Yield metrics with the name of a column, or with another meaning in an experiment before."""
    for name, better in keys.metrics.items():
        key_place = (*place, "metrics", name)
        first = next(other.metrics[name] for other in experiments.values() if name in other.metrics)
        new_names = {f"{split}_{name}" for split in tasks.SPLITS} | {name}
        existing = new_names & {*table_entries.RUNS, *table_entries.TRAJECTORIES}
        if existing or log_format.is_split(name.partition("_")[0]) or log_format.our_name(name):
            text = "Expected a name that no column of ours has, without its data."
            yield Problem(key_place, text)
        elif better != first:
            yield received(key_place, better, f"{first}, as in another experiment")


def _invalid_log_columns(place: Place, keys: Experiment) -> Iterator[Problem]:
    """Yield names of `columns` that are not ours, and columns of logs with several names."""
    section = "runs" if isinstance(keys, ExternalExperiment) else "log"
    log, metrics = getattr(keys, section, log_format.LogFormat()), keys.user_metrics
    names = (*log_format.PROGRESS, *run_factors.FACTORS, *log_format.outcomes_with(metrics))
    named = [*getattr(log, "factors", ())]
    for name, column in log.columns.items():
        key_place = (*place, section, "columns", name)
        ours = log_format.our_name(name, keys.metrics)
        if name not in (*names, ours):
            hint = ours and Problem(key_place, f"Unknown column. Did you mean '{ours}'?")
            yield hint or unknown(key_place, "column", names)
        elif column in named:
            yield received(key_place, column, "a column that is not named twice")
        named.append(column)


def _invalid_lines(place: Place, keys: Experiment) -> Iterator[Problem]:
    """Yield what the reader of a command's printed lines would refuse after the run."""
    if not isinstance(keys, CommandExperiment) or not keys.log.lines:
        return
    place, columns, printed = (*place, "log"), keys.log.columns, []
    for index, pattern in enumerate(keys.log.lines):
        names = re.findall(r"\{(\w+)\}", pattern)
        printed += names
        if not names or len({*filter(str.isidentifier, names)}) < len(names):
            yield received((*place, "lines", index), pattern, "different names in braces")
    for name, column in columns.items():
        if column not in printed:
            text = "a name in braces in `lines`"
            yield received((*place, "columns", name), column, text, printed)
    if not any(log_format.is_outcome(name, keys.metrics) for name in (*columns, *printed)):
        yield received((*place, "lines"), " ".join(keys.log.lines), "a loss or a metric in braces")


def _invalid_outcomes(place: Place, keys: Comparison) -> Iterator[Problem]:
    """Yield unknown outcomes of `primary` and `margins`, and impossible margins."""
    for index, name in enumerate(keys.primary):
        column = table_entries.describe(name, keys.user_metrics)
        if column is None or not column.label:
            yield received((*place, "primary", index), name, "an outcome of runs.csv", _OUTCOMES)
    for name, margin in keys.margins.items():
        key_place = (*place, "margins", name)
        if name not in tasks.OUTCOMES and not tasks.user_metric(name, keys.user_metrics):
            yield unknown(key_place, "outcome", tasks.OUTCOMES)
        elif tasks.is_share(name) and margin >= 1:
            yield received(key_place, margin, "a share below 1 (0.01 is one point)")


def invalid_target(place: Place, keys: Comparison) -> Iterator[Problem]:
    """Yield a target with an unknown outcome or an impossible value."""
    for name, value in keys.budgets.get(TARGET, {}).items():
        key_place = (*place, "budgets", TARGET, name)
        metric = tasks.metric(name, keys.user_metrics)
        if name not in TARGETS and not tasks.user_metric(name, keys.user_metrics):
            yield unknown(key_place, "target", TARGETS)
        elif metric and metric.maximum == 1 and value > 1:
            yield received(key_place, value, "at most 1")
        elif value <= 0 and not (metric and metric.minimum < 0):
            yield received(key_place, value, "a number above 0")


def training_problems(
    planned: PlannedExperiment, datasets: Mapping[str, DatasetInfo]
) -> Iterator[Problem]:
    """Yield the keys that do not fit the runs of trainings. `datasets` are the facts by id."""
    keys, place, runs = planned.keys, planned.place, [*planned.runs.values()]
    yield from setting_problems((*place, "measure"), planned.measures, runs, datasets)
    for name, pairs in planned.pairs.items():
        if not pairs:
            [(factor, (small, large))] = keys.measure[name].between.items()
            text = "Expected two runs of this experiment that differ in nothing else "
            text += f"(received {factor} {small} and {large})."
            yield Problem((*place, "measure", name, "between"), text)
    lengths = {run["epochs"] for run in runs}
    kept_epochs = set.intersection(*map(set, map(snapshot_epochs.possible_epochs_of_run, lengths)))
    for index, epoch in enumerate(keys.at_epochs):
        if epoch not in kept_epochs:
            expected = display.listed(map(str, sorted(kept_epochs)), "or")
            text = f"{expected}, after which every run has a snapshot"
            yield received((*place, "at_epochs", index), epoch, text)
    sources = [name for name, entry in MEASURES.items() if {*entry.columns} & {*tasks.OUTCOMES}]
    is_evaluated = all(run["evaluate_every"] for run in runs)
    if keys.margins and not is_evaluated and planned.measures.keys().isdisjoint(sources):
        needed = display.listed(sources, "or")
        text = f"Needs {needed} in measure, or evaluate_every of all trainings."
        yield Problem((*place, "margins"), text)
    yield from _outcomes_of_other_tasks(planned)
    yield from _unreachable_budgets(planned, datasets)
    yield from _uses_before_the_end(planned)


def setting_problems(
    place: Place,
    settings_by_name: Mapping[str, dict[str, Any]],
    runs: list[dict[str, Any]],
    datasets: Mapping[str, DatasetInfo],
) -> Iterator[Problem]:
    """Yield measures or timings that need another factor, or with settings that do not fit a run.

    Args:
        runs: Factors of the runs, or of the timed batch sizes.
    """
    for name, settings in settings_by_name.items():
        entry, key_place = ENTRIES[name], (*place, name)
        for factor, value in getattr(entry, "factors", {}).items():
            if any(run[factor] != value for run in runs):
                text = f"Needs {factor}: {show(value)} in set or defaults (received runs without)."
                yield Problem(key_place, text)
        for run in runs:
            examples = datasets[run["dataset"]].training_examples
            for setting, text in entry.problems(run, settings, examples):
                yield Problem((*key_place, setting), text)


def _outcomes_of_other_tasks(planned: PlannedExperiment) -> Iterator[Problem]:
    """Yield the outcomes that belong to no task of the data sets."""
    keys = planned.keys
    stated: list[tuple[Place, str]] = [(("margins", name), name) for name in keys.margins]
    target = keys.budgets.get(TARGET, {})
    stated += [(("budgets", TARGET, name), name) for name in target]
    stated += [(("primary", index), name) for index, name in enumerate(keys.primary)]
    for figure, body in keys.published.items():
        for index, series in enumerate(body.numbers):
            key_place = ("published", figure, "numbers", index)
            stated += [((*key_place, name), name) for name in series.columns]
    task_words = display.listed((task.replace("_", "-") for task in planned.tasks), "or")
    for key_place, name in stated:
        if not tasks.columns_of_tasks([name], planned.tasks):
            split = name.partition("_")[0]
            valid = [f"{split}_{metric}" for task in planned.tasks for metric in tasks.TASKS[task]]
            expected = f"{display.listed(valid, 'or')} for a {task_words}"
            yield received((*planned.place, *key_place), name, expected)


def _unreachable_budgets(
    planned: PlannedExperiment, datasets: Mapping[str, DatasetInfo]
) -> Iterator[Problem]:
    """Yield the budgets that a run does not reach, without early stopping, or does not evaluate."""
    place, budgets = (*planned.place, "budgets"), planned.keys.budgets
    for kind in {EPOCHS, UPDATES} & budgets.keys():
        lengths = []
        for run in planned.runs.values():
            examples = datasets[run["dataset"]].training_examples
            if kind == EPOCHS:
                lengths.append(run["epochs"])
            elif examples is not None and 0 not in batch_sizes(run):  # 0 is reported elsewhere.
                course = Course(run, examples * run_factors.training_copies(run))
                lengths.append(course.updates(run["epochs"]))
        if lengths and budgets[kind] > min(lengths):
            text = f"at most {min(lengths)}, the {kind} of the shortest run"
            yield received((*place, kind), budgets[kind], text)
    is_evaluated = all(run["evaluate_every"] for run in planned.runs.values())
    for column in budgets.get(TARGET, {}):
        if column not in ALWAYS_EVALUATED and not is_evaluated:
            names = tasks.columns_of_tasks(ALWAYS_EVALUATED, planned.tasks)
            always = display.listed(names, "or")
            text = f"Needs evaluate_every, which evaluates it during training; or {always}."
            yield Problem((*place, TARGET, column), text)


def _uses_before_the_end(planned: PlannedExperiment) -> Iterator[Problem]:
    """Yield keys that use runs before their end, or that mix lengths, despite a schedule."""
    schedule, keys, place = planned.horizon_schedule, planned.keys, planned.place
    if not schedule:
        return
    why, expected = f" {schedule.why}", schedule.expected
    if keys.at_epochs:
        text = f"{expected}, or a run for each number of epochs"
        yield received((*place, "at_epochs"), list(keys.at_epochs), text, why=why)
    for kind in keys.budgets:
        text = f"{expected}, or no budgets, since equal lengths are compared anyway"
        yield received((*place, "budgets", kind), kind, text, why=why)
    for key_place, figure in figure_checks.named_figures(planned):
        if FigureRequirement.PREFIXES in figure.conditions:
            yield received(key_place, figure.name, f"{expected}, or another figure", why=why)
    epochs: dict[int, set[int]] = {}
    for run in planned.runs.values():
        epochs.setdefault(run["batch_size"], set()).add(run["epochs"])
    if len({*map(frozenset, epochs.values())}) > 1:
        text = f"Expected {expected}, or the same epochs at every batch size ({schedule.why})."
        yield Problem((*place, "cases"), text)


def log_problems(planned: PlannedExperiment) -> Iterator[Problem]:
    """Yield the keys that need columns that the logs lack."""
    keys, place, columns_of_logs = planned.keys, planned.place, planned.columns
    runs = planned.external_runs
    source = runs.path if runs else "the log"
    yield from _uses_before_the_end(planned)
    for outcome in keys.margins:
        if outcome not in columns_of_logs:
            outcomes = log_format.outcomes_with(keys.user_metrics)
            present = [name for name in columns_of_logs if name in outcomes]
            expected = f"an outcome in {source} ({', '.join(present) or 'none'})"
            yield received((*place, "margins", outcome), outcome, expected, present)
    for kind, value in keys.budgets.items():
        key_place = (*place, "budgets", kind)
        if not planned.has_evaluations:
            text = f"Needs a row per evaluation. Each training of {source} has a single row."
            yield Problem(key_place, text)
            continue
        for column in value if kind == TARGET else [AXES[kind]]:
            if column not in columns_of_logs:
                needed = f"a column {column} of {source}" if runs else "alone: true"
                yield Problem(key_place, f"Needs {needed}.")
        if kind == TARGET and "updates" not in columns_of_logs:
            text = f"Needs updates or examples of {source}, or examples_per_epoch."
            yield Problem(key_place, text)
    for key_place, figure in figure_checks.named_figures(planned):
        available = {*columns_of_logs, *planned.vary}
        if reason := figure_checks.external_run_problem(figure, available):
            yield received(key_place, figure.name, f"a figure that {source} allows ({reason})")


def seed_warnings(
    planned: PlannedExperiment, stage: stages.Stage | None, reduced: bool
) -> Iterator[Problem]:
    """Yield warnings of seeds that weaken verdicts: too few, or other seeds than planned.

    Args:
        stage: Result of the interim analyses so far.
        reduced: Whether it is the reduced form, which may have fewer seeds.
    """
    keys, size_count, count = planned.keys, len(planned.batch_sizes), planned.verdict_seeds
    place = (*planned.place, "runs" if planned.external_runs else "seeds")
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
            text = f"at_most {stage.planned}, as planned at the first interim analysis"
            yield received(place, staged.at_most, text)
    elif staged.first < analysed.stop and analysed.start < staged.seeds.stop:
        numbers = f"{analysed.start} to {analysed.stop - 1}"
        text = f"first {analysed.stop}: the seeds {numbers} were analysed before"
        yield received(place, staged.first, text)
