"""Content of a study file in, experiments and runs out, with every check of meaning.

`make` returns the plan, or raises all problems together. A method of `_Planner` plans each kind of
experiment, and a new kind is an item of `_plan_experiment`. New checks belong to `study.checks`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from batchscope.core.errors import ConfigError
from batchscope.core.problems import Place, Problem, received, sorted_problems, unknown, why_unmet
from batchscope.study import (
    checks,
    claims,
    figure_checks,
    incompatible_factors,
    logged_experiments,
    model_files,
    names,
    published_numbers,
    stages,
    study_file,
    tasks,
)
from batchscope.study.dataset_definitions import BUILT_IN, DatasetInfo
from batchscope.study.example_kinds import NETWORKS
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
from batchscope.study.grids import Grid, SeedPlan
from batchscope.study.names import MAX_NAME_LENGTH, LongNameError
from batchscope.study.plan import PlannedExperiment, Study, folder_name
from batchscope.study.registry import ENTRIES, TRAINING_TIMINGS
from batchscope.study.run_factors import FACTORS, SWEEP_FACTORS
from batchscope.study.setting import Parameter
from batchscope.study.stages import Stage

# Function from a data set's id to its training examples; None unless the data set is prepared.
RecordedSizes = Callable[[str], int | None]
# Function from a study's folder name to the results of its interim analyses, by experiment.
InterimResults = Callable[[str], Mapping[str, Stage]]


def make(
    raw: dict[str, Any],
    scale: str = study_file.FULL,
    recorded: RecordedSizes = lambda dataset_id: None,
    folder: Path | None = None,
    interim_results: InterimResults = lambda study_folder: {},
) -> Study:
    """Return the planned study of a file.

    Args:
        raw: Content of the file.
        scale: `full`, or `reduced` for the smaller form.
        recorded: Returns the size of a training set that is prepared.
        folder: Folder of the file. Paths of external runs are relative to it.
        interim_results: Returns the results of the interim analyses so far.

    Raises:
        ConfigError: With every structural error; if there is none, with every error of meaning.
    """
    file, written, replaced = study_file.read(raw, scale)
    reduced = scale == study_file.REDUCED
    results = interim_results(folder_name(file.study, reduced))
    planner = _Planner(file, reduced, recorded, folder or Path(), results)
    study = planner.make_study(written)
    if planner.problems:
        problems = [study_file.moved_to_reduced(problem, replaced) for problem in planner.problems]
        raise ConfigError([problem.line for problem in sorted_problems(problems)])
    warnings = [study_file.moved_to_reduced(problem, replaced).line for problem in planner.warnings]
    return replace(study, warnings=tuple(dict.fromkeys(warnings)))


class _Planner:
    """Plans the experiments of a file one after the other; collects problems and warnings."""

    def __init__(
        self,
        file: study_file.StudyFile,
        reduced: bool,
        recorded: RecordedSizes,
        folder: Path,
        stages: Mapping[str, Stage],
    ) -> None:
        self.file, self.reduced, self.folder, self.stages = file, reduced, folder, stages
        self.problems: list[Problem] = []
        self.warnings: list[Problem] = []
        self.earlier_problems = 0  # number of problems before the current experiment
        definitions = {**BUILT_IN, **file.datasets}
        self.datasets = {
            name: self._dataset(name, definitions[name], recorded) for name in definitions
        }
        self.models = {name: self._model_file(name, path) for name, path in file.models.items()}
        self.models |= {name: (name, None) for name in sorted(NETWORKS)}
        # Data set's id -> its properties.
        self.infos = {info.id: info for info in self.datasets.values() if info}
        # Data set's id -> number of training examples.
        self.examples = {info.id: info.training_examples for info in self.infos.values()}
        # Names of data sets and models -> their ids in paths; None if a definition has a problem.
        self.ids = {
            "dataset": {name: info and info.id for name, info in self.datasets.items()},
            "model": {name: model and model[0] for name, model in self.models.items()},
        }
        self.defaults = self._with_ids(("defaults",), file.defaults)

    def make_study(self, written: dict[str, Any]) -> Study:
        """Return the study; it is incomplete if there are problems."""
        file, planned, metrics = self.file, {}, {}
        for name, keys in file.experiments.items():
            place, self.earlier_problems = ("experiments", name), len(self.problems)
            self.problems += checks.metric_conflicts(place, keys, metrics)
            experiment = self._plan_experiment(keys, place)
            if experiment and not self._has_new_problems:
                planned[name] = experiment
        machines = {
            name: self._machine_folder(name, machine) for name, machine in file.machines.items()
        }
        configurations = [factors for item in planned.values() for factors in item.factors()]
        datasets = dict.fromkeys(factors["dataset"] for factors in configurations)
        files = dict(model for model in self.models.values() if model)
        return Study(
            file=file,
            reduced=self.reduced,
            datasets={item: self.infos[item].definition.resolved() for item in datasets},
            models={factors["model"]: files[factors["model"]] for factors in configurations},
            experiments=planned,
            claims=self._read_claims(planned),
            published=self._published_sizes(),
            machines=machines,
            written=written,
            folder=self.folder,
        )

    @property
    def _has_new_problems(self) -> bool:
        return len(self.problems) > self.earlier_problems

    def _plan_experiment(self, keys: Experiment, place: Place) -> PlannedExperiment | None:
        """Return a planned experiment; None if there is a problem."""
        numbers = self._published_values(place, keys)
        kinds = {
            TrainingExperiment: self._plan_training,
            TimingExperiment: self._plan_timing,
            CommandExperiment: self._plan_command,
            ExternalExperiment: self._plan_external,
        }
        try:
            for request in (*keys.measure, *keys.timing):
                names.settings_name(request.name, request.settings)
            planned = kinds[type(keys)](keys, place)
        except LongNameError:
            text = f"A name in the paths of results has more than {MAX_NAME_LENGTH} characters. "
            text += "Choose shorter names of data sets, models and factors, or fewer values."
            key_place = (*place, "vary") if isinstance(keys, TimingExperiment) else place
            self.problems.append(Problem(key_place, text))
            return None
        return planned and replace(planned, numbers=numbers)

    def _dataset(self, name: str, definition: Any, recorded: RecordedSizes) -> DatasetInfo | None:
        problems = [*definition.problems(("datasets", name))]
        self.problems += problems
        return None if problems else DatasetInfo.of(name, definition, recorded)

    def _model_file(self, name: str, written: str) -> tuple[str, str | None] | None:
        """Return id and file of a user-defined model; None for an invalid one."""
        place, path = ("models", name), os.path.expanduser(written)
        problem = model_files.find_problem(place, path)
        if name in NETWORKS:
            problem = received(place, path, "another name: this model is built in")
        if problem:
            self.problems.append(problem)
            return None
        return model_files.token(name, path), os.path.normpath(path)

    def _with_ids(self, place: Place, factors: Mapping[str, Any]) -> dict[str, Any]:
        """Return factors with ids: None for an invalid name, and no item for one in a list."""
        result = dict(factors)
        for factor in factors.keys() & self.ids.keys():
            key_place, value = (*place, factor), factors[factor]
            if isinstance(value, tuple):
                places = [(*key_place, index) for index in range(len(value))]
                ids = [self._valid_id(*item, factor) for item in zip(places, value, strict=True)]
                result[factor] = tuple(filter(None, ids))
            else:
                result[factor] = self._valid_id(key_place, value, factor)
        return result

    def _valid_id(self, place: Place, name: str, factor: str) -> str | None:
        valid = sorted(self.ids[factor])
        if name not in valid:
            self.problems.append(received(place, name, f"one of {', '.join(valid)}", valid))
        return self.ids[factor].get(name)

    def _machine_folder(self, name: str, machine: study_file.Machine) -> tuple[str, str]:
        """Return the results folder of another machine, and its name there."""
        place, folder = ("machines", name), os.path.expanduser(machine.results)
        key_place = (*place, "results")
        if name == self.file.machine:
            text = "another name than this machine's `machine`"
            self.problems.append(received(place, name, text))
        if os.path.realpath(folder) == os.path.realpath("results"):
            why = ", this machine's own"
            text = "a copy of the other machine's folder"
            self.problems.append(received(key_place, folder, text, why=why))
        elif (why := why_unmet(Path(folder), Path.is_dir)) == "":
            text = f"No such folder (received '{folder}'). The report leaves {name} out."
            self.warnings.append(Problem(key_place, text))
        elif why:
            self.problems.append(received(key_place, folder, "a folder that can be read", why=why))
        return os.path.normpath(folder), machine.machine

    def _published_sizes(self) -> dict[str, tuple[int, str]]:
        """Return data set -> its number of examples in a document, and the place there."""
        published = {}
        for name, body in self.file.published.items():
            if name not in self.datasets:
                self.problems.append(unknown(("published", name), "data set", self.datasets))
            elif info := self.datasets[name]:
                published[info.id] = (body.examples, body.place)
        return published

    def _read_claims(self, planned: dict[str, PlannedExperiment]) -> tuple[claims.Claim, ...]:
        if self.problems:  # Claims are about experiments, which may be missing now.
            return ()
        return claims.read(self.file.claims, planned, self.problems)

    def _make_grid(
        self,
        place: Place,
        keys: TrainingExperiment | TimingExperiment,
        factors: Mapping[str, Parameter],
        seeds: SeedPlan | tuple[()] = (),
    ) -> Grid:
        cases = enumerate(keys.cases)
        grid = Grid(
            place,
            factors,
            {name: value for name, value in self.defaults.items() if name in factors},
            self._with_ids((*place, "set"), keys.set),
            [self._with_ids((*place, "cases", index), case) for index, case in cases],
            self._with_ids((*place, "vary"), keys.vary),
            *seeds,
        )
        self.problems += grid.problems()
        return grid

    def _seed_plan(self, place: Place, keys: TrainingExperiment | CommandExperiment) -> SeedPlan:
        stage, seeds = self.stages.get(place[-1], Stage()), keys.seeds
        if not isinstance(seeds, StagedSeeds):
            return seeds, (), stage
        # Other seeds have not been analysed yet.
        stage = stage if stage.first == seeds.first else Stage()
        analysis_seeds = stages.race_seeds if checks.has_race(keys) else stages.analysis_seeds
        return seeds.seeds, analysis_seeds(seeds.at_most), stage

    def _plan_training(self, keys: TrainingExperiment, place: Place) -> PlannedExperiment | None:
        grid = self._make_grid(place, keys, FACTORS, self._seed_plan(place, keys))
        experiments = self.file.experiments
        measures = {measure.name: measure.settings for measure in keys.measure}
        timed = checks.has_seconds(
            measures, [experiments[other] for other in keys.beside if other in experiments]
        )
        self.problems += [
            *figure_checks.problems(place, keys, measures, timed),
            *checks.unused_epochs(place, keys, measures),
            *checks.problems_of_seconds(place, keys, experiments, timed),
            *checks.comparison_keys(place, keys),
        ]
        if self._has_new_problems or not self._is_usable(grid):
            return None
        runs = self._runs_of_grid(grid, timed=not TRAINING_TIMINGS.keys().isdisjoint(measures))
        factors = [*runs.values()]
        if not factors:
            return None
        # A data set whose task is unknown (None) may have any task.
        known_tasks = {self.infos[run["dataset"]].task for run in factors}
        task_names = tuple(name for name in tasks.TASKS if {name, None} & known_tasks)
        pairs = {item.name: checks.run_pairs(item, runs) for item in keys.measure if item.between}
        key_place = (*place, "measure")
        self.problems += [
            *checks.outcomes_of_other_tasks(place, keys, task_names),
            *checks.unfit_settings(key_place, keys.measure, factors, self.examples),
            *checks.unsaved_epochs(place, keys.at_epochs, {run["epochs"] for run in factors}),
            *checks.unreachable_budgets(place, keys.budgets, factors, self.examples, task_names),
            *checks.uses_before_the_end(place, keys, factors),
            *checks.margins_without_outcomes(place, keys, measures, factors),
            *checks.measures_without_pairs(key_place, keys.measure, pairs),
        ]
        planned = PlannedExperiment(
            place[-1],
            keys,
            grid.vary,
            runs=runs,
            seeds=_distinct_seeds(factors),
            analyses=grid.analyses,
            pairs=pairs,
            timed=timed,
            tasks=task_names,
        )
        return self._with_seed_warnings(planned, planned.verdict_seeds)

    def _plan_timing(self, keys: TimingExperiment, place: Place) -> PlannedExperiment | None:
        grid = self._make_grid(place, keys, SWEEP_FACTORS)
        timings = {timing.name: timing.settings for timing in keys.timing}
        self.problems += [
            *checks.unused_epochs(place, keys, timings),
            *figure_checks.problems(place, keys, timings, timed=True),
        ]
        if self._has_new_problems or not self._is_usable(grid):
            return None
        combinations = []
        for _, factors, place_of in grid.combinations():
            info = self.infos[factors["dataset"]]
            self._report(incompatible_factors.timing_problems(factors, info, timings), place_of)
            combinations.append(factors)
        key_place = (*place, "timing")
        self.problems += checks.unfit_settings(key_place, keys.timing, combinations, self.examples)
        sweeps = tuple(names.group_into_sweeps(combinations))
        for sweep in sweeps:
            _ = sweep.name  # This raises LongNameError.
        return PlannedExperiment(place[-1], keys, grid.vary, sweeps=sweeps)

    def _plan_external(self, keys: ExternalExperiment, place: Place) -> PlannedExperiment | None:
        self._check_logged(place, keys)
        runs = logged_experiments.external_runs(
            place, keys, self.folder, self.problems, self.warnings.append
        )
        if runs is None:
            return None
        columns = logged_experiments.filled_columns(runs)
        planned = PlannedExperiment(
            place[-1],
            keys,
            logged_experiments.external_vary(runs),
            timed="seconds" in columns,
            tasks=tasks.from_columns(runs.rows),
            columns=columns,
            external_runs=runs,
        )
        self.problems += logged_experiments.log_problems(place, keys, planned)
        return self._with_seed_warnings(planned, logged_experiments.common_seeds(runs))

    def _plan_command(self, keys: CommandExperiment, place: Place) -> PlannedExperiment | None:
        seeds = self._seed_plan(place, keys)
        grid = logged_experiments.command_grid(place, keys, self.file.defaults, seeds)
        command = logged_experiments.command(
            place, keys, self.folder, self.problems, self.warnings.append
        )
        self.problems += [*grid.problems(), *logged_experiments.command_problems(place, keys, grid)]
        self._check_logged(place, keys)
        if command is None or self._has_new_problems or self._is_too_large(grid):
            return None
        runs = logged_experiments.command_runs(place, command, grid, self.problems)
        if not runs:
            return None
        self.warnings += logged_experiments.missing_programs(place, runs)
        factors = [run.factors for run in runs.values()]
        sizes = tuple(dict.fromkeys(run["batch_size"] for run in factors))
        planned = PlannedExperiment(
            place[-1],
            keys,
            {**grid.vary, "batch_size": sizes},
            seeds=_distinct_seeds(factors),
            analyses=grid.analyses,
            timed=keys.alone,
            tasks=tuple(tasks.TASKS),
            commands=runs,
            columns=logged_experiments.command_columns(keys),
        )
        self.problems += logged_experiments.log_problems(place, keys, planned)
        return self._with_seed_warnings(planned, planned.verdict_seeds)

    def _with_seed_warnings(self, planned: PlannedExperiment, seeds: int) -> PlannedExperiment:
        stage = self.stages.get(planned.name)
        self.warnings += checks.unsuitable_seeds(planned, seeds, stage, self.reduced)
        return planned

    def _check_logged(self, place: Place, keys: LoggedExperiment) -> None:
        self.problems += checks.comparison_keys(place, keys)
        self.problems += figure_checks.problems(place, keys, ENTRIES, timed=True)

    def _published_values(self, place: Place, keys: Experiment) -> dict[str, tuple[Any, ...]]:
        """Return the published values by figure."""
        numbers = {}
        for figure, body in keys.published.items():
            if body.numbers and figure in FIGURES:
                key_place = (*place, "published", figure, "numbers")
                numbers[figure] = tuple(body.numbers)
                self.problems += published_numbers.problems(key_place, figure, body.numbers)
                if not isinstance(keys, CommandExperiment):
                    numbers[figure] = tuple(
                        replace(series, factors=self._with_ids((*key_place, index), series.factors))
                        for index, series in enumerate(body.numbers)
                    )
        return numbers

    def _is_usable(self, grid: Grid) -> bool:
        """Return whether the size, the data sets and the models of a grid are valid."""
        if self._is_too_large(grid) or not all(grid.vary.values()):
            return False
        combinations = (factors for _, factors, _ in grid.combinations())
        return all(factors["dataset"] and factors["model"] for factors in combinations)

    def _is_too_large(self, grid: Grid) -> bool:
        limit = self.file.max_runs
        if grid.size > limit:
            text = f"at most {limit} runs (max_runs)"
            self.problems.append(received(grid.place, grid.size, text))
        return grid.size > limit

    def _runs_of_grid(self, grid: Grid, timed: bool) -> dict[str, dict[str, Any]]:
        """Return the factors of every run by its name; none if there is a problem."""
        runs: dict[str, dict[str, Any]] = {}
        cases: dict[str, int] = {}  # run -> its case
        for index, factors, place_of in grid.combinations():
            info = self.infos[factors["dataset"]]
            self._report(incompatible_factors.training_problems(factors, info), place_of)
            replicates = [{**factors, "seed": seed} for seed in grid.seeds]
            current_seeds = grid.seeds_of(names.run_name(replicates[0]))
            if timed:
                names.timing_name(factors)  # This raises LongNameError.
            for run in replicates:
                name = names.run_name(run)
                if name in cases:  # Values of vary and seeds are distinct, so two cases are equal.
                    text = f"another case than cases[{cases[name]}], which has the same runs"
                    self.problems.append(received((*grid.place, "cases", index), {1: 1}, text))
                    return {}
                cases[name] = index
                if run["seed"] in current_seeds:
                    runs[name] = run
        return runs

    def _report(self, problems: Iterable[Problem], place_of: Callable[[str], Place]) -> None:
        """Add problems of factors at the places where the file states these factors."""
        self.problems += [Problem(place_of(factor), text) for (factor,), text in problems]


def _distinct_seeds(runs: Iterable[dict[str, Any]]) -> tuple[int, ...]:
    return tuple(dict.fromkeys(factors["seed"] for factors in runs))
