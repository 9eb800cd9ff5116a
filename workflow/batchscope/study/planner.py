"""Plan a study: from the models of its file to experiments and runs, with every check of meaning.

Precedence of a run's factors: defaults, set, cases, vary, seed. All problems are collected.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from batchscope.errors import ConfigError
from batchscope.problems import Place, Problem, merged, received, unknown
from batchscope.study import (
    checks,
    claims,
    command_experiment,
    external_experiment,
    figure_checks,
    horizons,
    incompatible_factors,
    model_files,
    names,
    other_machines,
    published_numbers,
    stages,
    study_file,
    tasks,
    versions,
)
from batchscope.study.dataset_definitions import BUILT_IN, DatasetInfo
from batchscope.study.experiments import (
    CommandExperiment,
    Experiment,
    ExternalExperiment,
    LoggedExperiment,
    StagedSeeds,
    TimingExperiment,
    TrainingExperiment,
)
from batchscope.study.figures import FIGURES
from batchscope.study.grids import Grid, IdReader
from batchscope.study.names import MAX_NAME_LENGTH
from batchscope.study.networks import NETWORKS
from batchscope.study.plan import PlannedExperiment, Study, folder_name
from batchscope.study.published_numbers import PublishedValues
from batchscope.study.registry import OF_TRAININGS
from batchscope.study.run_factors import FACTORS, SWEEP_FACTORS
from batchscope.study.setting import Parameter
from batchscope.study.stages import Stage

# Function from a data set's id to its training examples; None unless it is prepared.
Recorded = Callable[[str], int | None]
# Function from the name of a study's folder to the results of its interim analyses, by experiment.
Looked = Callable[[str], Mapping[str, Stage]]


def unrecorded(dataset_id: str) -> None:
    """Return None: no data set is prepared."""


def unlooked(folder: str) -> Mapping[str, Stage]:
    return {}


def make(
    raw: dict[str, Any],
    scale: str = study_file.FULL,
    recorded: Recorded = unrecorded,
    folder: Path | None = None,
    looked: Looked = unlooked,
    local: bool = False,
) -> Study:
    """Return the planned study of a file.

    Args:
        raw: Content of the file.
        scale: `full`, or `reduced` for the smaller form.
        folder: Folder of the file. Paths of external runs are relative to it.
        looked: Results of the interim analyses so far.
        local: Whether commands run on this machine: a missing program is an error then.

    Raises:
        ConfigError: With every structural error; if there is none, with every error of meaning.
    """
    file, replaced = study_file.read(raw, scale)
    reduced = scale == study_file.REDUCED
    written = study_file.reduced_form(raw)[0] if reduced else raw
    planner = _Planner(file, reduced, recorded, folder or Path(), looked, local)
    study = planner.study(written)
    if planner.problems:
        problems = [study_file.in_reduced(problem, replaced) for problem in planner.problems]
        raise ConfigError([problem.line for problem in merged(problems)])
    warnings = [study_file.in_reduced(problem, replaced).line for problem in planner.warnings]
    return replace(study, warnings=tuple(dict.fromkeys(warnings)))


class _Planner:
    """One pass over a study file; collects problems and warnings."""

    def __init__(
        self,
        file: study_file.StudyFile,
        reduced: bool,
        recorded: Recorded,
        folder: Path,
        looked: Looked,
        local: bool,
    ) -> None:
        self.file, self.reduced, self.folder, self.local = file, reduced, folder, local
        self.problems: list[Problem] = []
        self.warnings: list[Problem] = []
        self.possible_runs: set[Any] = set()  # all runs of the study up to its last stage
        self.stages = looked(folder_name(file.study, reduced))
        self.datasets = dict(self._read_datasets(recorded))
        self.models = dict(self._read_models())
        self.by_id = {info.id: info for info in self.datasets.values() if info}
        self.sizes = {info.id: info.training_examples for info in self.by_id.values()}
        ids = {name: info.id if info else None for name, info in self.datasets.items()}
        models = {name: model[0] if model else None for name, model in self.models.items()}
        self.ids = IdReader(self.problems, ids, models)
        self.metrics: dict[str, str] = {}  # user-defined metrics of the experiments so far

    def study(self, written: dict[str, Any]) -> Study:
        """Return the study; it is incomplete if there are problems."""
        file = self.file
        defaults = self.ids.values(("defaults",), file.defaults)
        planned = {}
        for name, keys in file.experiments.items():
            before = len(self.problems)
            place = ("experiments", name)
            self.problems += checks.metrics(place, keys, self.metrics)
            experiment = self._plan(name, keys, place, defaults)
            if experiment and len(self.problems) == before:
                planned[name] = experiment
        if not self.problems:
            self._check_total()
        for experiment in planned.values():
            if not isinstance(experiment.keys, TimingExperiment):
                self._check_seeds(experiment)
        other_machines.check(file, self.problems, self.warnings.append)
        configurations = [factors for item in planned.values() for factors in item.factors()]
        return Study(
            file=file,
            reduced=self.reduced,
            datasets=self._used_datasets(configurations),
            models=self._used_models(configurations),
            experiments=planned,
            claims=self._claims(planned),
            published=dict(self._published()),
            machines=other_machines.read(file),
            written=written,
            folder=self.folder,
        )

    def _plan(
        self, name: str, keys: Experiment, place: Place, defaults: dict[str, Any]
    ) -> PlannedExperiment | None:
        match keys:
            case TrainingExperiment():
                return self._training(name, keys, place, defaults)
            case TimingExperiment():
                return self._timing(name, keys, place, defaults)
            case CommandExperiment():
                return self._command(name, keys, place)
            case ExternalExperiment():
                return self._external(name, keys, place)
        raise AssertionError(keys)

    def _read_datasets(self, recorded: Recorded) -> Iterator[tuple[str, DatasetInfo | None]]:
        """Yield every data set by name; None for an invalid one."""
        for name, definition in {**BUILT_IN, **self.file.datasets}.items():
            problems = [*definition.problems(("datasets", name))]
            self.problems += problems
            yield name, None if problems else DatasetInfo.of(name, definition, recorded)

    def _read_models(self) -> Iterator[tuple[str, tuple[str, str | None] | None]]:
        """Yield id and file of every model by name; None for an invalid one."""
        yield from ((name, (name, None)) for name in sorted(NETWORKS))
        for name, written in self.file.models.items():
            place, path = ("models", name), model_files.expanded(written)
            if name in NETWORKS and path != name:
                self.problems.append(received(place, path, "another name: this model is built in"))
            elif path in NETWORKS:
                yield name, (path, None)
            elif problem := model_files.problem(place, path):
                self.problems.append(problem)
                yield name, None
            else:
                yield name, (model_files.token(name, path), os.path.normpath(path))

    def _used_datasets(self, configurations: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
        ids = dict.fromkeys(factors["dataset"] for factors in configurations)
        return {dataset: self.by_id[dataset].definition.resolved() for dataset in ids}

    def _used_models(self, configurations: list[dict[str, Any]]) -> dict[str, str | None]:
        files = dict(model for model in self.models.values() if model)
        models = dict.fromkeys(factors["model"] for factors in configurations)
        return {name: files[name] for name in models}

    def _published(self) -> Iterator[tuple[str, tuple[int, str]]]:
        """Yield a data set's id, its number of examples in a document, and the place there."""
        for name, body in self.file.published.items():
            if name not in self.datasets:
                self.problems.append(unknown(("published", name), "data set", self.datasets))
            elif info := self.datasets[name]:
                yield info.id, (body.examples, body.place)

    def _claims(self, planned: dict[str, PlannedExperiment]) -> tuple[claims.Claim, ...]:
        if self.problems:  # claims are about experiments that may be missing now
            return ()
        machines = (self.file.machine, *self.file.machines)
        sizes = {name: info.training_examples for name, info in self.datasets.items() if info}
        return claims.read(
            self.file.claims, planned, machines, sizes, self.problems.append, self.warnings.append
        )

    def _grid(
        self,
        place: Place,
        keys: TrainingExperiment | TimingExperiment,
        factors: Mapping[str, Parameter],
        defaults: dict[str, Any],
    ) -> Grid:
        cases = [
            self.ids.values((*place, "cases", index), case) for index, case in enumerate(keys.cases)
        ]
        grid = Grid(
            place,
            factors,
            {name: value for name, value in defaults.items() if name in factors},
            self.ids.values((*place, "set"), keys.set),
            cases,
            self.ids.lists((*place, "vary"), keys.vary),
            *(self._seeds(place[-1], keys) if isinstance(keys, TrainingExperiment) else ()),
        )
        self.problems += grid.problems()
        return grid

    def _seeds(
        self, name: str, keys: TrainingExperiment | CommandExperiment
    ) -> tuple[Any, tuple[int, ...], Stage]:
        """Return the seeds, the numbers of seeds before each interim analysis, and the stage."""
        stage, seeds = self.stages.get(name, Stage()), keys.seeds
        if not isinstance(seeds, StagedSeeds):
            return seeds, (), stage
        # Other seeds have not been analysed yet.
        stage = stage if stage.first == seeds.first else Stage()
        return seeds.seeds, stages.looks(seeds.at_most), stage

    def _training(
        self, name: str, keys: TrainingExperiment, place: Place, defaults: dict[str, Any]
    ) -> PlannedExperiment | None:
        before = len(self.problems)
        grid = self._grid(place, keys, FACTORS, defaults)
        experiments = self.file.experiments
        measures = {measure.name: measure.settings for measure in keys.measure}
        timed = checks.has_seconds(
            measures, [experiments[other] for other in keys.beside if other in experiments]
        )
        at = (*place, "measure")
        self.problems += [
            *checks.settings(at, keys.measure),
            *figure_checks.problems(place, keys, measures, timed),
            *checks.epochs_without_a_measure(place, keys, measures),
            *checks.seconds(place, keys, timed),
            *checks.beside(place, keys, experiments),
            *checks.primary(place, keys),
            *checks.planned_twice(place, keys, keys.seeds),
            *checks.target(place, keys),
            *checks.margins(place, keys),
        ]
        numbers = self._numbers(place, keys)
        if len(self.problems) > before or not self._usable(grid):
            return None
        runs = self._expand(grid, timed=not OF_TRAININGS.keys().isdisjoint(measures))
        if not runs:
            return None
        factors = [*runs.values()]
        learned = self._tasks(factors)
        epochs = {run["epochs"] for run in factors}
        self.problems += [
            *checks.outcomes_of_others(place, keys, learned),
            *checks.factors_of_measures(at, keys.measure, factors),
            *checks.unfit_settings(at, keys.measure, factors, self.sizes),
            *checks.epochs_not_kept(place, keys.at_epochs, epochs),
            *checks.budgets_beyond(place, keys.budgets, factors, self.sizes, learned),
            *horizons.problems(place, keys, factors),
            *checks.outcomes_of_margins(place, keys, measures, factors),
        ]
        of_pairs = [measure for measure in keys.measure if measure.between]
        pairs = {measure.name: checks.pairs(measure, runs) for measure in of_pairs}
        for measure in of_pairs:
            self.problems += checks.pair_problems(at, measure, pairs[measure.name])
        return PlannedExperiment(
            name,
            keys,
            grid.vary,
            numbers,
            runs=runs,
            seeds=_seeds(runs.values()),
            looks=grid.looks,
            pairs=pairs,
            timed=timed,
            tasks=learned,
        )

    def _timing(
        self, name: str, keys: TimingExperiment, place: Place, defaults: dict[str, Any]
    ) -> PlannedExperiment | None:
        before = len(self.problems)
        grid = self._grid(place, keys, SWEEP_FACTORS, defaults)
        timings = {timing.name: timing.settings for timing in keys.timing}
        self.problems += [
            *checks.settings((*place, "timing"), keys.timing),
            *checks.epochs_without_a_measure(place, keys, timings),
            *figure_checks.problems(place, keys, timings, timed=True),
        ]
        numbers = self._numbers(place, keys)
        if len(self.problems) > before or not self._usable(grid):
            return None
        combinations = [factors for _, factors, _ in grid.combinations()]
        at = (*place, "timing")
        self.problems += checks.unfit_settings(at, keys.timing, combinations, self.sizes)
        sweeps = self._sweeps(grid, timings)
        return PlannedExperiment(name, keys, grid.vary, numbers, sweeps=sweeps)

    def _external(
        self, name: str, keys: ExternalExperiment, place: Place
    ) -> PlannedExperiment | None:
        self.problems += self._log_problems(place, keys)
        table = external_experiment.read(
            place, keys, self.folder, self.problems, self.warnings.append
        )
        numbers = self._numbers(place, keys)
        if table is None:
            return None
        vary, logs = external_experiment.vary(table), external_experiment.planned(table)
        self.problems += external_experiment.problems(place, keys, logs, vary)
        timed = "seconds" in logs.columns
        return PlannedExperiment(
            name, keys, vary, numbers, timed=timed, tasks=tasks.of_columns(table.rows), own=logs
        )

    def _command(
        self, name: str, keys: CommandExperiment, place: Place
    ) -> PlannedExperiment | None:
        before = len(self.problems)
        seeds = self._seeds(name, keys)
        grid = command_experiment.grid(place, keys, self.file.defaults, seeds)
        command = command_experiment.command(
            place, keys, self.folder, self.problems, self.warnings.append
        )
        self.problems += [
            *grid.problems(),
            *command_experiment.problems(place, keys, grid),
            *checks.planned_twice(place, keys, keys.seeds),
            *self._log_problems(place, keys),
        ]
        numbers = self._numbers(place, keys)
        if command is None or len(self.problems) > before or self._too_many(grid):
            return None
        runs = command_experiment.runs(place, command, grid, self.problems)
        if not runs:
            return None
        missing = [*command_experiment.missing_programs(place, runs)]
        (self.problems if self.local else self.warnings).extend(missing)
        logs = command_experiment.planned(runs, keys)
        sizes = tuple(dict.fromkeys(run.factors["batch_size"] for run in runs.values()))
        vary = {**grid.vary, "batch_size": sizes}
        self.problems += external_experiment.problems(place, keys, logs, vary)
        # Names of runs at later stages are unknown: no two experiments share them.
        later = ((name, at) for at in range(grid.size))
        self.possible_runs.update(later if grid.looks else runs)
        return PlannedExperiment(
            name,
            keys,
            vary,
            numbers,
            seeds=_seeds(run.factors for run in runs.values()),
            looks=grid.looks,
            timed=keys.alone,
            tasks=tuple(tasks.TASKS),
            commands=runs,
            own=logs,
        )

    def _log_problems(self, place: Place, keys: LoggedExperiment) -> Iterator[Problem]:
        yield from checks.primary(place, keys)
        yield from checks.margins(place, keys)
        yield from checks.target(place, keys)
        yield from figure_checks.problems(place, keys, versions.ENTRIES, timed=True)

    def _numbers(self, place: Place, keys: Experiment) -> dict[str, tuple[PublishedValues, ...]]:
        """Return the published values by figure."""
        numbers = {}
        for figure, body in keys.published.items():
            if body.numbers and figure in FIGURES:
                at = (*place, "published", figure, "numbers")
                self.problems += published_numbers.problems(at, figure, body.numbers)
                numbers[figure] = tuple(
                    PublishedValues(
                        self.ids.values((*at, index), published_numbers.factors_of(series))
                        if not isinstance(keys, CommandExperiment)
                        else published_numbers.factors_of(series),
                        series["batch_size"],
                        published_numbers.columns_of(series),
                    )
                    for index, series in enumerate(body.numbers)
                )
        return numbers

    def _tasks(self, runs: Iterable[dict[str, Any]]) -> tuple[str, ...]:
        learned = {self.by_id[factors["dataset"]].task for factors in runs}
        return tuple(task for task in tasks.TASKS if task in learned or None in learned)

    def _usable(self, grid: Grid) -> bool:
        """Return whether the size, the data sets and the models of a grid are valid."""
        if self._too_many(grid) or not all(grid.vary.values()):
            return False
        combinations = (factors for _, factors, _ in grid.combinations())
        return all(factors["dataset"] and factors["model"] for factors in combinations)

    def _too_many(self, grid: Grid) -> bool:
        limit = self.file.max_runs
        if grid.size > limit:
            self.problems.append(
                received(grid.place, grid.size, f"at most {limit} runs (max_runs)")
            )
        return grid.size > limit

    def _check_total(self) -> None:
        """Report a study with too many runs up to its last stage."""
        limit, count = self.file.max_runs, len(self.possible_runs)
        if count > limit:
            text = f"at most {limit} runs in all experiments"
            self.problems.append(received(("max_runs",), count, text))

    def _check_seeds(self, planned: PlannedExperiment) -> None:
        """Warn of too few seeds for a verdict, and of deviations from the planned seeds."""
        keys, count = planned.keys, planned.own.seeds or len(planned.seeds)
        place = ("experiments", planned.name, "runs" if planned.own.path else "seeds")
        warnings = [
            *checks.too_few_seeds(place, len(planned.batch_sizes), count),
            *checks.unplanned_seeds(place, keys.seeds_planned, count, self.reduced),
        ]
        stage, seeds = self.stages.get(planned.name), getattr(keys, "seeds", None)
        if stage and isinstance(seeds, StagedSeeds):
            warnings += checks.another_plan(place, stage, seeds)
        self.warnings += warnings

    def _expand(self, grid: Grid, timed: bool) -> dict[str, dict[str, Any]]:
        """Return the factors of every run by its name; none if there is a problem."""
        runs: dict[str, dict[str, Any]] = {}
        cases: dict[str, int] = {}  # run -> its case
        for index, factors, place_of in grid.combinations():
            info = self.by_id[factors["dataset"]]
            self._check(incompatible_factors.of_examples(factors, info), place_of)
            self._check(incompatible_factors.of_training(factors, info), place_of)
            name_of = functools.partial(self._run_name, grid.place, factors, timed)
            current_seeds = grid.seeds_of(name_of)
            for seed in grid.seeds:
                name = name_of(seed)
                if name is None:
                    return {}
                if name in cases:  # values of vary and seeds are distinct, so cases repeat
                    text = f"another case than cases[{cases[name]}], which has the same runs"
                    self.problems.append(received((*grid.place, "cases", index), {1: 1}, text))
                    return {}
                cases[name] = index
                if seed in current_seeds:
                    runs[name] = {**factors, "seed": seed}
        self.possible_runs.update(cases)
        return runs

    def _sweeps(self, grid: Grid, timings: dict[str, Any]) -> tuple[names.Sweep, ...]:
        combinations = []
        for _, factors, place_of in grid.combinations():
            info = self.by_id[factors["dataset"]]
            self._check(incompatible_factors.of_examples(factors, info), place_of)
            self._check(incompatible_factors.of_timing(factors, info, timings), place_of)
            combinations.append(factors)
        sweeps = tuple(names.sweeps(combinations))
        try:
            _ = [sweep.name for sweep in sweeps]
        except ValueError:
            text = f"The batch sizes need a name of more than {MAX_NAME_LENGTH} characters. "
            text += "State fewer, or ranges without gaps."
            self.problems.append(Problem((*grid.place, "vary"), text))
        return sweeps

    def _check(self, faults: Iterable[tuple[str, str]], place_of: Callable[[str], Place]) -> None:
        self.problems += [Problem(place_of(factor), text) for factor, text in faults]

    def _run_name(
        self, place: Place, factors: dict[str, Any], timed: bool, seed: int
    ) -> str | None:
        factors = {**factors, "seed": seed}
        try:
            name = names.run_name(factors)
            if timed:
                names.timing_name(factors)
        except ValueError:
            text = f"The name of a run has more than {MAX_NAME_LENGTH} characters. "
            text += "Choose shorter names of data set and model."
            self.problems.append(Problem(place, text))
            return None
        return name


def _seeds(runs: Iterable[dict[str, Any]]) -> tuple[int, ...]:
    return tuple(dict.fromkeys(factors["seed"] for factors in runs))
