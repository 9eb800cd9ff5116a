"""What an experiment says beside its factors: the checks of measures, epochs, margins, budgets.

Each function yields what is wrong with one key.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

from batchscope import wording
from batchscope.catalogue import budget_kinds, columns, kept_epochs, run_names, stages, tasks
from batchscope.catalogue.outcomes import LEAST_SEEDS
from batchscope.catalogue.registry import MEASURES, OF_SECONDS, OF_SWEEPS
from batchscope.catalogue.run_names import MAX_NAME_LENGTH
from batchscope.problems import Place, Problem, received, show
from batchscope.study import horizons, plan
from batchscope.study.asked import Asked
from batchscope.study.document import MARGIN_OUTCOMES, OUTCOMES, ExperimentKeys
from batchscope.study.figure_checks import TIMED

Runs = Iterable[dict[str, Any]]

# Keys of runs, wherever they were made, and of no times.
OF_RUNS = ("margins", "budgets", "advice", "seeds_planned", "beside", "primary")
_LONGEST_PAIR = 210  # characters of both names: with settings, below a file name's 255


def settings_by_name(asked: Iterable[Asked]) -> dict[str, dict[str, Any]]:
    return {one.name: one.settings for one in asked}


def asked_problems(place: Place, asked: Iterable[Asked]) -> Iterator[Problem]:
    """Yield the measures and timings whose settings no path can spell."""
    for one in asked:
        try:
            run_names.settings_name(one.name, one.settings)
        except ValueError:
            text = f"a name of at most {MAX_NAME_LENGTH} characters is expected."
            got = "received too many settings to spell"
            yield Problem((*place, one.name), f"{got}; {text}")


def needs_of_measures(place: Place, asked: Iterable[Asked], runs: list[Any]) -> Iterator[Problem]:
    """Yields the measures that read what a training keeps only where it is asked to."""
    for one in asked:
        entry = MEASURES.get(one.name)
        for factor, value in (entry.factors if entry else {}).items():
            lacking = [run for run in runs if run[factor] != value]
            if lacking:
                text = f"received runs without {factor} ({len(lacking)}); {factor}: "
                text += f"{show(value)} is expected, in set or defaults."
                yield Problem((*place, one.name), text)


def unfit_settings(
    place: Place, asked: Iterable[Asked], runs: Runs, training_sizes: Mapping[str, int | None]
) -> Iterator[Problem]:
    """Yield the settings that do not fit the factors of a run or its training set.

    Args:
        training_sizes: Data set -> training examples, None if unknown.
    """
    for one in asked:
        problems = run_names.ENTRIES[one.name].problems
        for factors in runs:
            size = training_sizes[factors["dataset"]]
            for setting, text in problems(factors, one.settings, size):
                yield Problem((*place, one.name, setting), text)


def pairs(one: Asked, runs: Mapping[str, dict[str, Any]]) -> tuple[plan.Pair, ...]:
    """Returns the pairs of runs of a measure, by name: alike in every factor but one."""
    [(factor, (small_value, large_value))] = one.between.items()
    small: dict[tuple[Any, ...], str] = {}
    large: dict[tuple[Any, ...], str] = {}
    for name, factors in runs.items():
        rest = tuple(value for key, value in factors.items() if key != factor)
        if factors[factor] == small_value:
            small[rest] = name
        elif factors[factor] == large_value:
            large[rest] = name
    return tuple((name, large[rest]) for rest, name in small.items() if rest in large)


def pair_problems(place: Place, one: Asked, found: tuple[plan.Pair, ...]) -> Iterator[Problem]:
    """Yields that no runs are pairs, or that the names of two are too long."""
    at = (*place, one.name, "between")
    if not found:
        [(factor, (small, large))] = one.between.items()
        text = f"received {factor} {small} and {large}; two runs of this experiment that differ "
        yield Problem(at, f"{text}in nothing else are expected.")
    # A cluster's executor makes one file name of both runs and the settings.
    if any(len(small) + len(large) > _LONGEST_PAIR for small, large in found):
        text = f"received two runs whose names have more than {_LONGEST_PAIR} characters; "
        yield Problem(at, f"{text}shorter names of data set and model are expected.")


def epochs_without_a_measure(
    place: Place, keys: ExperimentKeys, asked: Collection[str]
) -> Iterator[Problem]:
    """Yields that nothing is measured at the numbers of epochs that an experiment asks for."""
    served = {name for name, entry in run_names.ENTRIES.items() if entry.at_epochs}
    if keys.at_epochs and not served & {*asked}:
        in_measure = wording.listed(sorted(served - {*OF_SWEEPS}), "or")
        in_timing = wording.listed(sorted(served & {*OF_SWEEPS}), "or")
        text = f"received without a measure at epochs; {in_measure} in measure, or {in_timing} in "
        yield Problem((*place, "at_epochs"), f"{text}timing, is expected.")


def own_metrics(place: Place, keys: ExperimentKeys, logged: bool) -> Iterator[Problem]:
    """Yields metrics of runs without logs, and those that another experiment names otherwise."""
    if keys.metrics and not logged:
        text = "received without logs of its own; an experiment with runs or command is expected."
        yield Problem((*place, "metrics"), text)
    for name, better in keys.metrics.items():
        if better != (known := tasks.named_own()[name]):
            text = f"received {better}; {known} is expected, as in another experiment."
            yield Problem((*place, "metrics", name), text)


def epochs_not_kept(place: Place, epochs: tuple[int, ...], horizons: set[int]) -> Iterator[Problem]:
    """Yields the numbers of epochs after which not every run keeps its weights."""
    kept = set.intersection(*(set(kept_epochs.kept_epochs(horizon)) for horizon in horizons))
    for index, epoch in enumerate(epochs):
        at = (*place, "at_epochs", index)
        if epoch > min(horizons):
            text = f"received {epoch}; at most {min(horizons)} is expected, the epochs of "
            text += "every run." if len(horizons) == 1 else "the shortest run."
            yield Problem(at, text)
        elif epoch not in kept:
            below = max(other for other in kept if other < epoch)
            above = min((other for other in kept if other > epoch), default=None)
            nearest = f"{below} or {above}" if above else str(below)
            text = f"received {epoch}, after which no weights are kept; {nearest} is expected."
            yield Problem(at, text)


def margins_without_outcomes(
    place: Place, keys: ExperimentKeys, asked: Collection[str], runs: Runs
) -> Iterator[Problem]:
    """Yields that margins are of outcomes that no run of the experiment has."""
    outcomes_of = [name for name, one in MEASURES.items() if {*one.columns} & {*MARGIN_OUTCOMES}]
    evaluated = {*asked} & {*outcomes_of} or all(one["evaluate_every"] for one in runs)
    if keys.margins and not evaluated:
        given = wording.listed(outcomes_of, "or")
        wanted = f"{given} in measure, or evaluate_every of all trainings, is expected."
        yield Problem((*place, "margins"), f"received without its outcomes; {wanted}")


def outcomes_of_others(
    place: Place, keys: ExperimentKeys, learned: Collection[str]
) -> Iterator[Problem]:
    """Yields the outcomes that an experiment names and no task of its data sets has."""
    target = keys.budgets.get(budget_kinds.TARGET, {})
    named = [(("margins", name), name) for name in keys.margins]
    named += [(("budgets", budget_kinds.TARGET, name), name) for name in target]
    named += [(("primary", index), name) for index, name in enumerate(keys.primary)]
    for figure, body in keys.published.items():
        for index, series in enumerate(body.numbers):
            at = ("published", figure, "numbers", index)
            named += [((*at, name), name) for name in series]
    what = wording.listed((task.replace("_", "-") for task in learned), "or")
    for at, name in named:
        if tasks.own(name) or not tasks.kept([name], learned):
            split = name.partition("_")[0]
            had = [f"{split}_{metric}" for task in learned for metric in tasks.TASKS[task]]
            text = f"received '{name}' of a {what}; {wording.listed(had, 'or')} is expected."
            yield Problem((*place, *at), text)


def has_seconds(asked: Iterable[str], beside: Iterable[ExperimentKeys]) -> bool:
    """Whether an experiment's runs have seconds: by a timing of theirs, or of one beside."""
    found = {*asked, *(one.name for other in beside for one in other.timing)}
    return not OF_SECONDS.keys().isdisjoint(found)


def seconds_problems(place: Place, keys: ExperimentKeys, timed: bool) -> Iterator[Problem]:
    """Yields a budget of seconds of runs that have no times."""
    if budget_kinds.SECONDS in keys.budgets and not timed:
        text = f"received without any times; {TIMED} is expected."
        yield Problem((*place, "budgets", budget_kinds.SECONDS), text)


def budgets_beyond(
    place: Place,
    stated: dict[str, Any],
    runs: list[dict[str, Any]],
    training_sizes: Mapping[str, int | None],
    learned: Collection[str],
) -> Iterator[Problem]:
    """Yields the budgets that the runs of an experiment cannot be read at.

    Args:
        learned: Tasks of its data sets.
        training_sizes: Data set -> training examples, None where only the files know.
    """
    home = (*place, "budgets")
    for kind, column in budget_kinds.AXES.items():
        end = horizons.shortest(column, runs, training_sizes)
        if end is not None and stated.get(kind, 0) > end:
            text = f"received {wording.shortest(stated[kind])}; at most {end} is expected, the "
            yield Problem((*home, kind), f"{text}{kind} of the shortest run.")
    for column in stated.get(budget_kinds.TARGET, {}):
        evaluated = all(run["evaluate_every"] for run in runs)
        if column not in budget_kinds.ALWAYS_THERE and not evaluated:
            always = tasks.kept(budget_kinds.ALWAYS_THERE, learned)
            text = "received without evaluate_every, which alone evaluates it during a training; "
            text += f"evaluate_every, or {wording.listed(always, 'or')}, is "
            yield Problem((*home, budget_kinds.TARGET, column), f"{text}expected.")


def beside_problems(
    place: Place,
    keys: ExperimentKeys,
    written: Collection[str],
    experiments: Mapping[str, ExperimentKeys],
) -> Iterator[Problem]:
    """Yields what is beside an experiment without margins, or times nothing.

    Args:
        written: Keys of the experiment, sound or not.
    """
    if keys.beside and "margins" not in written:
        text = "received without margins, beside which it is drawn; margins are expected."
        yield Problem((*place, "beside"), text)
    timed = [name for name, other in experiments.items() if other.timing]
    for index, name in enumerate(keys.beside):
        if name not in timed:
            wanted = f"a timing experiment ({', '.join(timed) or 'there is none'})"
            yield received((*place, "beside", index), name, wanted, timed)


def primary_problems(place: Place, keys: ExperimentKeys) -> Iterator[Problem]:
    """Yields the columns of the question that are no outcomes."""
    for index, name in enumerate(keys.primary):
        column = columns.describe(name)
        if column is None or not column.label:
            yield received((*place, "primary", index), name, "an outcome of runs.csv", OUTCOMES)


def too_few_seeds(place: Place, batch_sizes: int, count: int) -> Iterator[Problem]:
    if batch_sizes > 1 and count < LEAST_SEEDS:
        text = f"received {wording.count(count, 'seed')}; at least {LEAST_SEEDS} are "
        yield Problem(place, f"{text}expected for a verdict on its {batch_sizes} batch sizes.")


def beside_the_plan(
    place: Place, planned: int | None, seeds: int, reduced: bool
) -> Iterator[Problem]:
    """Yields that an experiment has other seeds than it planned; a reduced form may have fewer."""
    if planned is None or seeds == planned or (reduced and seeds < planned):
        return
    if seeds > planned:
        text = "those added after a look at the data make tests err more often, which is said "
        text += "beside the verdicts."
    else:
        text = "a verdict before that is a look at the data, which is said beside it."
    counts = f"received {wording.count(seeds, 'seed')}; {planned} (seeds_planned) are expected"
    yield Problem(place, f"{counts}: {text}")


def planned_twice(place: Place, keys: ExperimentKeys) -> Iterator[Problem]:
    if isinstance(keys.seeds, stages.Staged) and keys.seeds_planned is not None:
        text = f"received {keys.seeds_planned} beside seeds in stages, of which at_most are "
        yield Problem((*place, "seeds_planned"), f"{text}planned; one of the two is expected.")


def another_plan(place: Place, stage: stages.Stage, now: stages.Staged) -> Iterator[Problem]:
    """Yields that seeds that were looked at by one plan are looked at by another."""
    seen = stage.looked_at
    if not seen:
        return
    if stage.first == now.first:
        if stage.planned != now.at_most:
            text = f"received at_most {now.at_most}; {stage.planned} is expected, as planned then: "
            yield Problem(place, f"{text}levels that were spent then are those of another plan.")
    elif now.first < seen.stop and seen.start < now.seeds.stop:
        text = f"received first {now.first}; {seen.stop} is expected: the seeds {seen.start} to "
        yield Problem(place, f"{text}{seen.stop - 1} were looked at by another plan.")


def statements(keys: ExperimentKeys) -> dict[str, Any]:
    """Returns what an experiment says of its comparisons, its advice and its seeds."""
    return {
        "margins": keys.margins,
        "budgets": keys.budgets,
        "slower": keys.advice.slower,
        "seeds_planned": keys.seeds_planned,
    }


def made(
    name: str,
    keys: ExperimentKeys,
    vary: dict[str, tuple[Any, ...]],
    numbers: dict[str, Any],
    **parts: Any,
) -> plan.Experiment:
    """Returns an experiment of any kind."""
    return plan.Experiment(
        name=name,
        title=keys.title or name,
        question=keys.question,
        vary=vary,
        at_epochs=tuple(sorted(keys.at_epochs)),
        primary=keys.primary,
        figures=keys.figures,
        published={
            figure: {"figure": body.figure, "found": body.found}
            for figure, body in keys.published.items()
        },
        numbers=numbers,
        **parts,
    )
