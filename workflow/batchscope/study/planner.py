"""From a configuration to the runs of a study: every check of meaning, no heavy import.

Precedence of a run's factors: defaults, set, cases, vary, seed. All problems are found at
once; what depends on a part that is broken is not reported beside it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from batchscope import wording
from batchscope.catalogue import (
    coercion,
    dataset_definitions,
    figure_names,
    incompatible_factors,
    measure_settings,
    run_names,
    sweep_names,
)
from batchscope.catalogue.coercion import as_map
from batchscope.catalogue.measures import MEASURES
from batchscope.catalogue.networks import NETWORKS
from batchscope.catalogue.outcomes import LEAST_SEEDS
from batchscope.catalogue.parameters import MAX_NAME_LENGTH, Parameter
from batchscope.catalogue.timings import OF_SWEEPS, OF_TRAININGS
from batchscope.errors import ConfigError
from batchscope.problems import Findings, Place, Problem, merged, show, unknown
from batchscope.study import (
    claims,
    experiment_keys,
    experiment_kinds,
    external_experiment,
    grids,
    horizons,
    model_files,
    other_machines,
    reduced_form,
    run_pairs,
)
from batchscope.study.plan import Experiment, Study, Times, Trainings
from batchscope.study.published_numbers import Series
from batchscope.study.value_reader import Reader

MAX_RUNS = 1000
_LONGEST_PAIR = 210  # characters of both names: with settings, below a file name's 255
_RUN_COUNT = Parameter(
    "max_runs", "max_runs", "int", None, "Most runs.", minimum=1, maximum=1_000_000
)


# From a data set's token to its training examples, where it is prepared.
Recorded = Callable[[str], int | None]


def unrecorded(token: str) -> None:
    """Returns nothing: what is known of prepared data where nobody looks."""


def make(
    config: dict[str, Any],
    scale: str = "full",
    recorded: Recorded = unrecorded,
    folder: Path | None = None,
) -> Study:
    """Returns the study of a configuration that fits the schema.

    Args:
        scale: `full`, or `reduced` for the smaller form.
        folder: Where the file lies: tables of one's own runs lie beside it.

    Raises:
        ConfigError: With every problem of meaning.
    """
    study, problems = draft(config, scale, recorded=recorded, folder=folder)
    if study is None:
        raise ConfigError([problem.line for problem in problems])
    return study


def draft(
    config: dict[str, Any],
    scale: str = "full",
    found: Iterable[Problem] = (),
    recorded: Recorded = unrecorded,
    folder: Path | None = None,
) -> tuple[Study | None, list[Problem]]:
    """Returns the study, or None and every problem of meaning.

    Args:
        config: A configuration, which may be broken where `found` says so.
        found: Problems of structure; nothing at or below their places is looked at.
    """
    structure = [problem.place for problem in found]
    planner = _Planner(config, scale, structure, recorded, folder or Path())
    study = planner.study()
    problems = merged(planner.findings.problems)
    return (None if problems or planner.findings.structure else study), problems


def _used(tokens: Iterable[str], known: dict[str, Any]) -> dict[str, Any]:
    """Returns what stands behind tokens, each once."""
    by_token = dict(entry for entry in known.values() if entry is not None)
    return {token: by_token[token] for token in dict.fromkeys(tokens)}


def _experiment(
    name: str,
    body: dict[str, Any],
    vary: dict[str, tuple[Any, ...]],
    at_epochs: Iterable[int],
    numbers: dict[str, tuple[Series, ...]],
    **made: Any,
) -> Experiment:
    """Returns an experiment of any kind."""
    return Experiment(
        name=name,
        title=body.get("title", name),
        question=body.get("question", ""),
        vary=vary,
        at_epochs=tuple(sorted(at_epochs)),
        figures=figure_names.drawn(body),
        published=experiment_keys.words(body),
        numbers=numbers,
        **made,
    )


class _Planner:
    """One pass over a configuration; collects problems, warnings and runs."""

    def __init__(
        self,
        config: dict[str, Any],
        scale: str,
        structure: list[Place],
        recorded: Recorded,
        folder: Path,
    ) -> None:
        self.scale, self.recorded, self.folder = scale, recorded, folder
        self.config, replaced = reduced_form.apply(config) if scale == "reduced" else (config, [])
        self.findings = Findings(structure, replaced)
        self.findings.report(*reduced_form.problems(config, scale))
        self.datasets: dict[str, tuple[str, dict[str, Any]] | None] = {}
        self.models: dict[str, tuple[str, str | None] | None] = {}
        self.sizes: dict[str, int | None] = {}  # training examples by data set
        self.sources: dict[str, str] = {}
        self.sides: dict[str, int | None] = {}  # height and width of images by data set
        self.kinds: dict[str, str | None] = {}  # what its examples are, by data set
        self.reader = Reader(self.findings, self.datasets, self.models)

    def study(self) -> Study | None:
        self._read_datasets()
        self._read_models()
        given = as_map(self.config.get("defaults"))
        defaults = self.reader.factors(("defaults",), given, experiment_kinds.EITHER)
        experiments = {}
        for name, body in as_map(self.config.get("experiments")).items():
            if isinstance(body, dict):
                place = ("experiments", name)
                if "runs" in body:
                    experiments[name] = self._own_experiment(name, body, place)
                    continue
                timed = "timing" in body
                kind = experiment_kinds.TIMING if timed else experiment_kinds.TRAINING
                grid = grids.read(self.reader, place, body, kind, defaults, tuple(given))
                plan_one = self._timing_experiment if timed else self._experiment
                experiments[name] = plan_one(name, body, grid)
        found = {name: each for name, each in experiments.items() if each}
        self._check_total(found.values())
        stated = self._claims(found)
        self._check_seeds([each for each in found.values() if not each.times.sweeps])
        other_machines.check(self.findings, self.config)
        published = self._published()
        if self.findings.problems or self.findings.structure:
            return None
        name = self.config["study"]
        every = [factors for one in experiments.values() for factors in one.factors()]
        return Study(
            name=name,
            title=self.config.get("title", name),
            machine=self.config.get("machine", "local"),
            reduced=self.scale == "reduced",
            datasets=_used((factors["dataset"] for factors in every), self.datasets),
            models=_used((factors["model"] for factors in every), self.models),
            experiments=experiments,
            warnings=tuple(self.findings.warnings),
            claims=stated,
            published=published,
            machines=other_machines.read(self.config),
        )

    def _published(self) -> dict[str, tuple[int, str]]:
        """Returns data set's token -> how many examples a document used, and its place there."""
        found = {}
        for name, body in as_map(self.config.get("published")).items():
            place = ("published", name)
            if name not in self.datasets:
                self.findings.report(unknown(place, "data set", self.datasets))
            elif self.datasets[name] and not self.findings.broken(place):
                count = int(coercion.number(body["examples"]))  # text may spell it: 1e6
                found[self.datasets[name][0]] = (count, body["place"])
        return found

    def _read_datasets(self) -> None:
        given = {**dataset_definitions.BUILT_IN, **as_map(self.config.get("datasets"))}
        for name, raw in given.items():
            place = ("datasets", name)
            self.datasets[name] = None
            if self.findings.broken(place):
                continue
            definition = dataset_definitions.resolve(raw)
            self.findings.report(*dataset_definitions.problems(place, definition))
            if not self.findings.broken(place):
                token = dataset_definitions.token(name, definition)
                self.datasets[name] = (token, definition)
                counted = dataset_definitions.training_size(definition)
                self.sizes[token] = self.recorded(token) or counted
                self.sources[token] = definition["source"]
                self.sides[token] = dataset_definitions.image_side(definition)
                self.kinds[token] = dataset_definitions.kind(definition)

    def _read_models(self) -> None:
        built_in = sorted(NETWORKS)
        self.models.update({name: (name, None) for name in built_in})
        for name, path in as_map(self.config.get("models")).items():
            place = ("models", name)
            path = model_files.expanded(path)
            if name in built_in and path != name:
                text = "a name of its own is expected: this one is a built-in model's."
                self.findings.report(Problem(place, f"received {show(path)}; {text}"))
                continue
            self.models[name] = (path, None) if path in built_in else None
            if path not in built_in and not self.findings.broken(place):
                if problem := model_files.problem(place, path):
                    self.findings.report(problem)
                else:
                    token = model_files.token(name, path)
                    self.models[name] = (token, os.path.normpath(path))

    def _claims(self, experiments: dict[str, Experiment]) -> tuple[claims.Claim, ...]:
        if self.findings.problems or any(at[0] != "claims" for at in self.findings.structure):
            return ()
        machines = (self.config.get("machine", "local"), *as_map(self.config.get("machines")))
        stated = self.config.get("claims")
        sizes = {name: self.sizes[found[0]] for name, found in self.datasets.items() if found}
        return claims.read(self.findings, stated, experiments, machines, sizes)

    def _experiment(self, name: str, body: dict[str, Any], grid: grids.Grid) -> Experiment | None:
        place, reader = grid.place, self.reader
        at, known = (*place, "measure"), {**MEASURES, **OF_TRAININGS}
        measures, between = experiment_keys.measures(reader, at, body.get("measure"), known)
        experiments = as_map(self.config.get("experiments"))
        timed = experiment_keys.has_seconds(measures, body, experiments)
        self.findings.report(*figure_names.problems(place, body, measures, timed))
        numbers = experiment_keys.numbers(reader, place, body, grid.kind)
        at_epochs = experiment_keys.at_epochs(reader, place, body, measures)
        margins = experiment_keys.margins(reader, place, body)
        budgets = experiment_keys.budgets(reader, place, body, timed)
        beside = experiment_keys.beside(reader, place, body, experiments)
        primary = experiment_keys.primary(reader, place, body)
        if not self._sound(grid):
            return None
        runs = self._expand(grid, measures)
        if not runs:
            return None
        factors = [*runs.values()]
        self._check_needs(place, factors, measures)
        epochs = {each["epochs"] for each in factors}
        unkept = experiment_keys.not_kept((*place, "at_epochs"), at_epochs, epochs)
        self.findings.report(*unkept)
        self.findings.report(*experiment_keys.beyond(place, budgets, factors, self.sizes))
        self.findings.report(*horizons.problems(place, body, factors))
        self.findings.report(*experiment_keys.without_outcomes(place, body, measures, factors))
        trainings = Trainings(
            runs=runs,
            seeds=tuple(grid.seeds),
            measures=measures,
            pairs={measure: self._pairs(found, runs) for measure, found in between.items()},
            margins=margins,
            budgets=budgets,
            beside=beside,
            timed=timed,
            **experiment_keys.verdicts(body),
        )
        made = {"primary": primary, "trainings": trainings}
        return _experiment(name, body, grid.vary, at_epochs, numbers, **made)

    def _timing_experiment(
        self, name: str, body: dict[str, Any], grid: grids.Grid
    ) -> Experiment | None:
        place, reader = grid.place, self.reader
        text = "received beside `timing`; a training or a timing experiment is expected."
        for key in ("measure", "seeds", *experiment_keys.OF_TRAININGS):
            if key in body:
                self.findings.report(Problem((*place, key), text))
        at = (*place, "timing")
        timings, _ = experiment_keys.measures(reader, at, body.get("timing"), OF_SWEEPS)
        at_epochs = experiment_keys.at_epochs(reader, place, body, timings)
        self.findings.report(*figure_names.problems(place, body, timings, timed=True))
        numbers = experiment_keys.numbers(reader, place, body, grid.kind)
        if not self._sound(grid) or self._too_many(grid):
            return None
        times = Times(timings, self._sweeps(grid, timings))
        return _experiment(name, body, grid.vary, at_epochs, numbers, times=times)

    def _own_experiment(self, name: str, body: dict[str, Any], place: Place) -> Experiment | None:
        reader, every = self.reader, measure_settings.ENTRIES  # its table says what it has
        table = external_experiment.read(self.findings, place, body, self.folder)
        self.findings.report(*figure_names.problems(place, body, every, timed=True))
        numbers = experiment_keys.numbers(reader, place, body, experiment_kinds.OWN)
        margins = experiment_keys.margins(reader, place, body)
        budgets = experiment_keys.budgets(reader, place, body, timed=True)
        primary = experiment_keys.primary(reader, place, body)
        if table is None:
            return None
        self.findings.report(*external_experiment.problems(place, body, margins, budgets, table))
        vary, own = external_experiment.vary(table), external_experiment.planned(table)
        asked = experiment_keys.verdicts(body)
        asked |= {"margins": margins, "budgets": budgets, "timed": "seconds" in own.columns}
        made = {"primary": primary, "trainings": Trainings(**asked), "own": own}
        return _experiment(name, body, vary, (), numbers, **made)

    def _sound(self, grid: grids.Grid) -> bool:
        """Whether an experiment, and what it has of the defaults, can be expanded."""
        return grid.complete and not self.findings.broken(grid.place, *grid.inherited)

    def _max_runs(self) -> int:
        try:
            return coercion.coerce(_RUN_COUNT, self.config.get("max_runs", MAX_RUNS))
        except ValueError:
            return MAX_RUNS  # the schema reports it

    def _too_many(self, grid: grids.Grid) -> bool:
        if grid.size <= self._max_runs():
            return False
        text = f"received {grid.size} runs; at most {self._max_runs()} (max_runs) are expected."
        self.findings.report(Problem(grid.place, text))
        return True

    def _check_total(self, experiments: Iterable[Experiment]) -> None:
        limit = self._max_runs()
        count = len({run for one in experiments for run in one.trainings.runs})
        if count > limit and not self.findings.problems:
            text = f"received {count} runs in all experiments; at most {limit} are"
            self.findings.report(Problem(("max_runs",), f"{text} expected."))

    def _check_seeds(self, experiments: Iterable[Experiment]) -> None:
        """Warns of experiments with too few seeds for any verdict, or other ones than planned."""
        for each in experiments:
            runs = each.trainings.runs.values()
            several = len({run["batch_size"] for run in runs}) or len(each.vary["batch_size"])
            count = each.own.seeds or len(each.trainings.seeds)
            place = ("experiments", each.name, "runs" if each.own.path else "seeds")
            if several > 1 and count < LEAST_SEEDS:
                text = f"received {wording.count(count, 'seed')}; at least {LEAST_SEEDS} are "
                text += f"expected for a verdict on its {several} batch sizes."
                self.findings.warn(Problem(place, text))
            planned, reduced = each.trainings.seeds_planned, self.scale == "reduced"
            for problem in experiment_keys.beside_the_plan(place, planned, count, reduced):
                self.findings.warn(problem)

    def _expand(self, grid: grids.Grid, measures: dict[str, Any]) -> dict[str, dict[str, Any]]:
        """Returns the factors of every run by its name; none where something is reported."""
        if self._too_many(grid):
            return {}
        runs: dict[str, dict[str, Any]] = {}
        cases: dict[str, int] = {}  # run -> the case that gave it
        timed = not OF_TRAININGS.keys().isdisjoint(measures)
        for index, factors, find in grid.combinations():
            size, source = (of.get(factors["dataset"]) for of in (self.sizes, self.sources))
            self._check_examples(factors, find)
            self._check(incompatible_factors.of_training(factors, size, source), find)
            for seed in grid.seeds:
                run = {**factors, "seed": seed}
                name = self._run_name(grid.place, run, timed)
                if name is None:
                    return {}
                if name in cases:  # values of vary and seeds are distinct: it is the case
                    text = f"received the runs of cases[{cases[name]}] again; "
                    place = (*grid.place, "cases", index)
                    self.findings.report(Problem(place, text + "every run once is expected."))
                    return {}
                cases[name] = index
                runs[name] = run
        return runs

    def _sweeps(self, grid: grids.Grid, timings: dict[str, Any]) -> tuple[sweep_names.Sweep, ...]:
        found = []
        for _, factors, find in grid.combinations():
            size = self.sizes.get(factors["dataset"])
            self._check_examples(factors, find)
            self._check(incompatible_factors.of_timing(factors, size, timings), find)
            found.append(factors)
        grouped = tuple(sweep_names.group(found))
        try:
            _ = [sweep.name for sweep in grouped]
        except ValueError:
            text = f"received batch sizes whose name has more than {MAX_NAME_LENGTH} characters; "
            text += "fewer, or ranges without gaps, are expected."
            self.findings.report(Problem((*grid.place, "vary"), text))
        return grouped

    def _check(self, wrong: Iterable[tuple[str, str]], find: Callable[[str], Place]) -> None:
        """Reports what is wrong with one combination."""
        self.findings.report(*(Problem(find(factor), text) for factor, text in wrong))

    def _check_examples(self, factors: dict[str, Any], find: Callable[[str], Place]) -> None:
        kind, side = (of.get(factors["dataset"]) for of in (self.kinds, self.sides))
        self._check(incompatible_factors.of_examples(factors, kind, side), find)

    def _run_name(self, place: Place, factors: dict[str, Any], timed: bool) -> str | None:
        try:
            name = run_names.run_name(factors)
            if timed:
                run_names.timing_name(factors)
        except ValueError:
            text = f"received a run whose name has more than {MAX_NAME_LENGTH} characters; "
            text += "shorter names of data set and model are expected."
            self.findings.report(Problem(place, text))
            return None
        return name

    def _pairs(
        self, between: run_pairs.Between, runs: dict[str, dict[str, Any]]
    ) -> tuple[run_pairs.Pair, ...]:
        found = run_pairs.find(between, runs)
        if not found:
            self.findings.report(run_pairs.none_found(between))
        # A cluster's executor makes one file name of both runs and the settings.
        if any(len(small) + len(large) > _LONGEST_PAIR for small, large in found):
            text = f"received two runs whose names have more than {_LONGEST_PAIR} characters; "
            text += "shorter names of data set and model are expected."
            self.findings.report(Problem(between.place, text))
        return found

    def _check_needs(
        self, place: Place, runs: list[dict[str, Any]], measures: dict[str, Any]
    ) -> None:
        """Some measures read what a training keeps only where it is asked to."""
        for measure in measures.keys() & MEASURES.keys():
            for factor, value in MEASURES[measure].factors.items():
                lacking = [run for run in runs if run[factor] != value]
                if lacking:
                    text = f"received runs without {factor} ({len(lacking)}); {factor}: "
                    text += f"{show(value)} is expected, in set or defaults."
                    self.findings.report(Problem((*place, "measure", measure), text))
