"""What an experiment says beside its factors: measures, epochs, margins, budgets, a document's.

Each function reads one key, reports what is wrong with it and returns what is sound.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from batchscope import wording
from batchscope.catalogue import (
    budget_kinds,
    coercion,
    columns,
    figure_names,
    kept_epochs,
    measure_settings,
    run_factors,
)
from batchscope.catalogue.coercion import as_map, items
from batchscope.catalogue.entries import REPEATS, Entry, Need, Timing
from batchscope.catalogue.measures import MEASURES
from batchscope.catalogue.parameters import MAX_NAME_LENGTH, Parameter, aliases
from batchscope.catalogue.timings import OF_SECONDS, OF_SWEEPS
from batchscope.problems import Place, Problem, received, unknown
from batchscope.study import experiment_kinds, horizons, published_numbers, run_pairs
from batchscope.study.value_reader import Broken, Reader

# Keys that are of trainings, wherever they were made, and of no times.
OF_TRAININGS = ("margins", "budgets", "advice", "seeds_planned", "beside", "primary")
# Outcomes that may have a margin, all of which `evaluate` measures.
MARGIN_OUTCOMES = tuple(
    f"{split}_{what}" for split in ("test", "validation", "train") for what in ("accuracy", "loss")
)
_OUTCOMES = [name for name, column in columns.COLUMNS.items() if column.label]

_MARGIN = Parameter("margins", "margins", "float", None, "Largest loss.", above=0)
_EPOCH = Parameter(
    "at_epochs", "at", "int", None, "Number of epochs.", minimum=1, maximum=run_factors.MOST_EPOCHS
)

Known = Mapping[str, Entry]


def given_elsewhere(entry: Entry) -> dict[str, str]:
    """Returns the settings that no study states of a measure or timing -> what gives each."""
    found = {}
    if entry.at_epochs and "epoch" in entry.parameters:
        found["epoch"] = "an epoch given by the experiment's own key 'at_epochs'"
    if isinstance(entry, Timing) and entry.trains:
        expected = "as many timing jobs as the experiment has seeds, which is not stated"
        found[REPEATS.name] = expected
    return found


def measures(
    reader: Reader, place: Place, raw: Any, known: Known
) -> tuple[dict[str, dict[str, Any]], dict[str, run_pairs.Between]]:
    """Returns every setting of what is measured, and what pairs the runs of some measures."""
    result: dict[str, dict[str, Any]] = {}
    between: dict[str, run_pairs.Between] = {}
    for at, name, settings in _items(place, raw):
        if name not in known:
            choices = sorted(known)
            reader.findings.report(received(at, name, f"one of {', '.join(choices)}", choices))
            continue
        if name in result:
            noun = "timing" if name in OF_SWEEPS else "measure"
            text = f"received '{name}' again; every {noun} once is expected."
            reader.findings.report(Problem(at, text))
            continue
        if name in MEASURES and MEASURES[name].pairs:
            home = at if at[-1] == name else (*at, name)  # a word in a list does not say which
            found = _between(reader, (*home, "between"), as_map(settings).get("between"))
            if isinstance(found, Problem):
                reader.findings.report(found)
            else:
                between[name] = found
            settings = {key: value for key, value in as_map(settings).items() if key != "between"}
        result[name] = _settings(reader, at, known[name], settings)
    return result, between


def _items(place: Place, raw: Any) -> Iterator[tuple[Place, str, Any]]:
    """Yields place, name and settings of what is measured: a word, a list or a map."""
    if isinstance(raw, dict):
        for name, settings in raw.items():
            yield (*place, name), name, settings
        return
    for at, item in items(place, raw):
        if isinstance(item, str):
            yield at, item, None
        for name, settings in as_map(item).items():
            yield (*at, name), name, settings


def _between(reader: Reader, place: Place, raw: Any) -> run_pairs.Between | Problem:
    def coerce(factor: str, at: Place, value: Any) -> Any:
        try:
            return reader.factor(factor, at, value, experiment_kinds.TRAINING)
        except Broken:
            return None

    return run_pairs.read(place, raw, coerce)


def _settings(reader: Reader, place: Place, entry: Entry, given: Any) -> dict[str, Any]:
    known = entry.parameters
    settings = {name: parameter.birth for name, parameter in known.items()}
    for name, raw in as_map(given).items():
        at, elsewhere = (*place, name), given_elsewhere(entry)
        if name not in known:
            reader.findings.report(unknown(at, "setting", known, aliases(known)))
        elif name in elsewhere:
            reader.findings.report(received(at, raw, elsewhere[name]))
        elif not reader.findings.unreadable(at):
            with contextlib.suppress(Broken):
                settings[name] = reader.setting(at, known[name], raw)
    for name, text in entry.problems(settings):
        reader.findings.report(Problem((*place, name), text))
    try:
        measure_settings.settings_name(entry.name, settings)
    except ValueError:
        text = f"a name of at most {MAX_NAME_LENGTH} characters is expected."
        reader.findings.report(Problem(place, f"received too many settings to spell; {text}"))
    return settings


def at_epochs(
    reader: Reader, place: Place, body: dict[str, Any], measured: dict[str, Any]
) -> tuple[int, ...]:
    """Returns the numbers of epochs that an experiment asks for, as written."""
    at, raw = (*place, "at_epochs"), body.get("at_epochs")
    if raw is None:
        reader.findings.report(*figure_names.without(place, body, Need.AT_EPOCHS))
        return ()
    if not isinstance(raw, list) or not raw:
        reader.findings.report(received(at, raw, "a list of at least one number of epochs"))
        return ()
    served = {name for name, entry in measure_settings.ENTRIES.items() if entry.at_epochs}
    if not served & {*measured}:
        in_measure = wording.listed(sorted(served - {*OF_SWEEPS}), "or")
        in_timing = wording.listed(sorted(served & {*OF_SWEEPS}), "or")
        text = f"received without a measure at epochs; {in_measure} in measure, or {in_timing} in "
        reader.findings.report(Problem(at, f"{text}timing, is expected."))
    return reader.distinct(at, raw, lambda where, item: reader.value(where, _EPOCH, item))


def not_kept(place: Place, epochs: tuple[int, ...], horizons: set[int]) -> Iterator[Problem]:
    """Yields the problems of numbers of epochs after which not every run keeps its weights."""
    kept = set.intersection(*(set(kept_epochs.kept_epochs(horizon)) for horizon in horizons))
    for index, epoch in enumerate(epochs):
        if epoch > min(horizons):
            text = f"received {epoch}; at most {min(horizons)} is expected, the epochs of "
            text += "every run." if len(horizons) == 1 else "the shortest run."
            yield Problem((*place, index), text)
        elif epoch not in kept:
            below = max(other for other in kept if other < epoch)
            above = min((other for other in kept if other > epoch), default=None)
            nearest = f"{below} or {above}" if above else str(below)
            text = f"received {epoch}, after which no weights are kept; {nearest} is expected."
            yield Problem((*place, index), text)


def margins(reader: Reader, place: Place, body: dict[str, Any]) -> dict[str, float]:
    """Returns the margins that an experiment states, by outcome."""
    raw, found, home = body.get("margins"), {}, (*place, "margins")
    if raw is None:
        reader.findings.report(*figure_names.without(place, body, Need.MARGINS))
        return {}
    for outcome, value in as_map(raw).items():
        at = (*home, outcome)
        if outcome not in MARGIN_OUTCOMES:
            reader.findings.report(unknown(at, "outcome", MARGIN_OUTCOMES))
        elif not reader.findings.unreadable(at):
            with contextlib.suppress(Broken):
                found[outcome] = reader.value(at, _MARGIN, value)
                if outcome.endswith("accuracy") and found[outcome] >= 1:
                    expected = "a share below 1 (0.01 is one point of accuracy)"
                    reader.findings.report(received(at, value, expected))
    return found


def without_outcomes(
    place: Place, body: dict[str, Any], measured: dict[str, Any], factors: Iterable[dict[str, Any]]
) -> Iterator[Problem]:
    """Yields that margins are of outcomes that no training of the experiment has."""
    outcomes_of = [name for name, one in MEASURES.items() if {*one.columns} & {*MARGIN_OUTCOMES}]
    evaluated = not measured.keys().isdisjoint(outcomes_of)
    if body.get("margins") is not None and not (
        evaluated or all(one["evaluate_every"] for one in factors)
    ):
        given = wording.listed(outcomes_of, "or")
        expected = f"{given} in measure, or evaluate_every of all trainings, is expected."
        yield Problem((*place, "margins"), f"received without its outcomes; {expected}")


def has_seconds(measured: Iterable[str], body: dict[str, Any], experiments: dict[str, Any]) -> bool:
    """Whether an experiment's trainings have seconds: by a timing of theirs, or of one beside."""
    every, found = [*experiments], {*measured}
    for _, other in items((), body.get("beside")):
        raw = as_map(experiments[other]).get("timing") if other in every else None
        found |= {name for _, name, _ in _items((), raw)}
    return not OF_SECONDS.keys().isdisjoint(found)


def budgets(reader: Reader, place: Place, body: dict[str, Any], timed: bool) -> dict[str, Any]:
    """Returns the budgets that an experiment states: kind -> value, of a target column -> value.

    Args:
        timed: Whether its trainings have seconds.
    """
    found: dict[str, Any] = {}
    for kind, value in as_map(body.get("budgets")).items():
        at = (*place, "budgets", kind)
        if kind == budget_kinds.TARGET:
            if target := _target(reader, at, value):
                found[kind] = target
        elif kind not in budget_kinds.STATED:
            known = (*budget_kinds.STATED, budget_kinds.TARGET)
            reader.findings.report(unknown(at, "budget", known))
        elif not reader.findings.unreadable(at):
            with contextlib.suppress(Broken):
                found[kind] = reader.value(at, budget_kinds.STATED[kind], value)
    if budget_kinds.SECONDS in found and not timed:
        text = f"received without any times; {figure_names.TIMED} is expected."
        reader.findings.report(Problem((*place, "budgets", budget_kinds.SECONDS), text))
    return found


def verdicts(body: dict[str, Any]) -> dict[str, Any]:
    """Returns what an experiment says of its advice and its seeds; the schema checks both."""
    slower = coercion.number(as_map(body.get("advice")).get("slower"))
    planned = coercion.number(body.get("seeds_planned"))
    return {
        "slower": budget_kinds.SLOWER if slower is None else slower,
        "seeds_planned": None if planned is None else int(planned),
    }


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


def _target(reader: Reader, place: Place, raw: Any) -> dict[str, float] | None:
    """Returns the column of a target with its value, if it is sound."""
    if len(as_map(raw)) != 1:
        expected = "a map of one loss or accuracy to its value, such as {validation_loss: 0.2}"
        reader.findings.report(received(place, raw, expected))
        return None
    [(column, value)] = raw.items()
    at = (*place, column)
    if column not in budget_kinds.TARGETS:
        reader.findings.report(unknown(at, "target", budget_kinds.TARGETS))
    elif not reader.findings.unreadable(at):
        with contextlib.suppress(Broken):
            return {column: reader.value(at, budget_kinds.target(column), value)}
    return None


def beyond(
    place: Place,
    stated: dict[str, Any],
    runs: list[dict[str, Any]],
    training_sizes: Mapping[str, int | None],
) -> Iterator[Problem]:
    """Yields the problems of budgets that the runs of an experiment cannot be read at.

    Args:
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
            text = "received without evaluate_every, which alone evaluates it during a training; "
            text += f"evaluate_every, or {wording.listed(budget_kinds.ALWAYS_THERE, 'or')}, is "
            yield Problem((*home, budget_kinds.TARGET, column), f"{text}expected.")


def beside(
    reader: Reader, place: Place, body: dict[str, Any], experiments: dict[str, Any]
) -> tuple[str, ...]:
    """Returns the timing experiments whose limits are drawn beside an experiment's own."""
    at = (*place, "beside")
    found = list(items(at, body.get("beside")))
    if not found:
        return ()
    if "margins" not in body:
        text = "received without margins, beside which it is drawn; margins are expected."
        reader.findings.report(Problem(at, text))
    timed = [name for name, other in experiments.items() if "timing" in as_map(other)]
    for where, name in found:
        if name not in timed:
            expected = f"a timing experiment ({', '.join(timed) or 'there is none'})"
            reader.findings.report(received(where, name, expected, timed))
    return tuple(name for _, name in found)


def primary(reader: Reader, place: Place, body: dict[str, Any]) -> tuple[str, ...]:
    """Returns the columns that an experiment's question is about, as written."""
    found = []
    for at, name in items((*place, "primary"), body.get("primary")):
        if not isinstance(name, str) or not (column := columns.describe(name)) or not column.label:
            reader.findings.report(received(at, name, "an outcome of runs.csv", _OUTCOMES))
        else:
            found.append(name)
    return tuple(found)


def words(body: dict[str, Any]) -> dict[str, dict[str, str]]:
    """Returns what a document says in words, by figure."""
    return {
        name: {key: text for key, text in given.items() if key != "numbers"}
        for name, given in as_map(body.get("published")).items()
    }


def numbers(
    reader: Reader, place: Place, body: dict[str, Any], kind: experiment_kinds.Kind
) -> dict[str, tuple[published_numbers.Series, ...]]:
    """Returns a document's numbers by figure, for the figures that are given some."""
    found = {}
    factors = functools.partial(reader.factors, kind=kind)
    for name, given in as_map(body.get("published")).items():
        if name in figure_names.FIGURES and "numbers" in as_map(given):
            at, report = (*place, "published", name, "numbers"), reader.findings.report
            found[name] = published_numbers.read(at, name, given["numbers"], factors, report)
    return found
