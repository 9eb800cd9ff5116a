"""Content of a study file in, experiments and runs out, with every check of meaning.

`make` returns the plan, or raises all problems together. A method of `_Planner` plans each kind of
experiment, and a new kind is an item of `_plan_experiment`. New checks belong to `study.checks`.
"""

import importlib
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from batchscope.core.errors import ConfigError, UserError
from batchscope.core.problems import Place, Problem, raise_sorted, received, unknown, why_unmet
from batchscope.study import (
    checks,
    claims,
    commands,
    grids,
    incompatible_factors,
    log_format,
    model_files,
    names,
    published_numbers,
    study_file,
    tasks,
)
from batchscope.study.dataset_definitions import BUILT_IN, DatasetInfo
from batchscope.study.experiments import (
    CommandExperiment,
    Experiment,
    ExternalExperiment,
    TimingExperiment,
    TrainingExperiment,
)
from batchscope.study.figures import FIGURES
from batchscope.study.model import Parameter
from batchscope.study.names import MAX_NAME_LENGTH, LongNameError
from batchscope.study.plan import PlannedExperiment, Study, folder_name
from batchscope.study.registry import SECONDS_TIMINGS, TRAINING_TIMINGS
from batchscope.study.run_factors import FACTORS, SWEEP_FACTORS
from batchscope.study.stages import Stage
from batchscope.study.tasks import NETWORKS

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
    raise_sorted(study_file.moved_to_reduced(problem, replaced) for problem in planner.problems)
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
        # Names of data sets and models -> their ids in paths; None if a definition has a problem.
        self.ids = {
            "dataset": {name: info and info.id for name, info in self.datasets.items()},
            "model": {name: model and model[0] for name, model in self.models.items()},
        }
        self.defaults = self._with_ids(("defaults",), file.defaults)

    def make_study(self, written: dict[str, Any]) -> Study:
        """Return the study; it is incomplete if there are problems."""
        file, experiments = self.file, {}
        for name, keys in file.experiments.items():
            self.earlier_problems = len(self.problems)
            planned = self._plan_experiment(name, keys)
            if planned and not self._has_new_problems:
                experiments[name] = planned
        for name, machine in file.machines.items():
            self._check_machine(name, machine.results)
        configurations = [factors for item in experiments.values() for factors in item.factors()]
        datasets = dict.fromkeys(factors["dataset"] for factors in configurations)
        files = dict(model for model in self.models.values() if model)
        for name in file.published.keys() - self.datasets.keys():
            self.problems.append(unknown(("published", name), "data set", self.datasets))
        # Claims are about experiments, which may be missing after a problem.
        can_read_claims = not self.problems
        return Study(
            file=file,
            reduced=self.reduced,
            datasets={item: self.infos[item].definition.resolved() for item in datasets},
            models={factors["model"]: files[factors["model"]] for factors in configurations},
            experiments=experiments,
            claims=claims.read(file.claims, experiments, self.problems) if can_read_claims else (),
            written=written,
            folder=self.folder,
        )

    @property
    def _has_new_problems(self) -> bool:
        return len(self.problems) > self.earlier_problems

    def _dataset(self, name: str, definition: Any, recorded: RecordedSizes) -> DatasetInfo | None:
        problems = [*definition.problems(("datasets", name))]
        self.problems += problems
        return None if problems else DatasetInfo.of(name, definition, recorded)

    def _model_file(self, name: str, written: str) -> tuple[str, str | None] | None:
        """Return id and file of a user-defined model; None for an invalid one."""
        place, path = ("models", name), os.path.expanduser(written)
        if name in NETWORKS:
            expected = "another name: this model is built in"
            self.problems.append(received(place, path, expected))
            return None
        try:
            return model_files.token(name, path), os.path.normpath(path)
        except UserError as error:
            self.problems.append(Problem(place, str(error)))
            return None

    def _with_ids(self, place: Place, factors: Mapping[str, Any]) -> dict[str, Any]:
        """Return factors with ids: None for an invalid name, and no item for one in a list."""
        result = dict(factors)
        for factor in factors.keys() & self.ids.keys():
            key_place, value = (*place, factor), factors[factor]
            if isinstance(value, tuple):
                items = enumerate(value)
                ids = [self._valid_id((*key_place, index), name, factor) for index, name in items]
                result[factor] = tuple(filter(None, ids))
            else:
                result[factor] = self._valid_id(key_place, value, factor)
        return result

    def _valid_id(self, place: Place, name: str, factor: str) -> str | None:
        valid = sorted(self.ids[factor])
        if name not in valid:
            self.problems.append(received(place, name, f"one of {', '.join(valid)}", valid))
        return self.ids[factor].get(name)

    def _check_machine(self, name: str, folder: str) -> None:
        """Add the problems of another machine's name and of the folder of its results."""
        place, key_place = ("machines", name), ("machines", name, "results")
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

    def _check_published_values(self, place: Place, keys: Experiment) -> None:
        for figure, body in keys.published.items():
            if body.numbers and figure in FIGURES:
                key_place = (*place, "published", figure, "numbers")
                self.problems += published_numbers.problems(key_place, figure, body.numbers)
                for index, series in enumerate(body.numbers):
                    if not isinstance(keys, CommandExperiment):
                        self._with_ids((*key_place, index), series.factors)

    def _plan_experiment(self, name: str, keys: Experiment) -> PlannedExperiment | None:
        """Return a planned experiment; None if there is a problem."""
        plan = {
            TrainingExperiment: self._plan_training,
            TimingExperiment: self._plan_timing,
            CommandExperiment: self._plan_command,
            ExternalExperiment: self._plan_external,
        }[type(keys)]
        planned = PlannedExperiment(name, keys, {}, timed=self._has_timing(keys))
        self._check_published_values(planned.place, keys)
        self.problems += checks.key_problems(planned, self.file.experiments)
        try:
            for entry, settings in (planned.measures | planned.timings).items():
                names.settings_name(entry, settings)
            result = plan(planned)
        except LongNameError:
            text = f"A name in the paths of results has more than {MAX_NAME_LENGTH} characters. "
            text += "Choose shorter names of data sets, models and factors, or fewer values."
            vary = ("vary",) if isinstance(keys, TimingExperiment) else ()
            self.problems.append(Problem((*planned.place, *vary), text))
            return None
        if result and not result.timings:
            stage = self.stages.get(name)
            self.warnings += checks.seed_warnings(result, stage, self.reduced)
        return result

    def _has_timing(self, keys: Experiment) -> bool:
        """Return whether a timing of an experiment, or of one in `beside`, gives runs seconds."""
        experiments = self.file.experiments
        others = (experiments[name] for name in keys.beside if name in experiments)
        timings = {*keys.measure}.union(*(other.timing for other in others))
        return not timings.isdisjoint(SECONDS_TIMINGS)

    def _seed_plan(self, planned: PlannedExperiment) -> grids.SeedPlan:
        return grids.seed_plan(planned.keys, self.stages.get(planned.name, Stage()))

    def _make_grid(
        self, planned: PlannedExperiment, factors: Mapping[str, Parameter], seeds: grids.SeedPlan
    ) -> grids.Grid | None:
        """Return the grid of an experiment; None if one of its keys is invalid."""
        keys, place = planned.keys, planned.place
        cases = enumerate(keys.cases)
        grid = grids.Grid(
            place,
            factors,
            {name: value for name, value in self.defaults.items() if name in factors},
            self._with_ids((*place, "set"), keys.set),
            [self._with_ids((*place, "cases", index), case) for index, case in cases],
            self._with_ids((*place, "vary"), keys.vary),
            seeds,
        )
        self.problems += grid.problems(self.file.max_runs)
        if self._has_new_problems:
            return None
        combinations = (factors for _, factors, _ in grid.combinations())
        has_ids = all(factors["dataset"] and factors["model"] for factors in combinations)
        return grid if has_ids and all(grid.vary.values()) else None

    def _plan_training(self, planned: PlannedExperiment) -> PlannedExperiment | None:
        grid = self._make_grid(planned, FACTORS, self._seed_plan(planned))
        runs = self._runs_of_grid(grid, planned.measures) if grid else {}
        if not runs:
            return None
        # A data set with an unknown task (None) may have any task.
        known_tasks = {self.infos[run["dataset"]].task for run in runs.values()}
        task_names = tuple(name for name in tasks.TASKS if {name, None} & known_tasks)
        planned = replace(
            planned, vary=grid.vary, runs=runs, analyses=grid.seeds.analyses, tasks=task_names
        )
        self.problems += checks.training_problems(planned, self.infos)
        return planned

    def _runs_of_grid(self, grid: grids.Grid, measures: Iterable[str]) -> dict[str, dict[str, Any]]:
        """Return the factors of every run by its name; none if two cases are equal."""
        runs: dict[str, dict[str, Any]] = {}
        cases: dict[str, int] = {}  # run with the first seed -> its case
        for index, factors, place_of in grid.combinations():
            info = self.infos[factors["dataset"]]
            self._report(incompatible_factors.training_problems(factors, info), place_of)
            if not TRAINING_TIMINGS.keys().isdisjoint(measures):
                names.timing_name(factors)  # This raises LongNameError.
            replicates = [{**factors, "seed": seed} for seed in grid.seeds.every]
            replicates_by_name = {names.run_name(run): run for run in replicates}
            first = next(iter(replicates_by_name))
            if first in cases:  # Values of vary are distinct, so two cases are equal.
                text = f"another case than cases[{cases[first]}], which has the same runs"
                place = (*grid.place, "cases", index)
                self.problems.append(received(place, grid.cases[index], text))
                return {}
            cases[first] = index
            seeds = grid.seeds.current(first)
            runs |= {name: run for name, run in replicates_by_name.items() if run["seed"] in seeds}
        return runs

    def _report(self, problems: Iterable[Problem], place_of: Callable[[str], Place]) -> None:
        """Add problems of factors at the places where the file states these factors."""
        self.problems += [Problem(place_of(factor), text) for (factor,), text in problems]

    def _plan_timing(self, planned: PlannedExperiment) -> PlannedExperiment | None:
        grid = self._make_grid(planned, SWEEP_FACTORS, grids.SeedPlan())
        if grid is None:
            return None
        combinations = []
        for _, factors, place_of in grid.combinations():
            info = self.infos[factors["dataset"]]
            problems = incompatible_factors.timing_problems(factors, info, planned.timings)
            self._report(problems, place_of)
            combinations.append(factors)
        key_place, timings = (*planned.place, "timing"), planned.timings
        self.problems += checks.setting_problems(key_place, timings, combinations, self.infos)
        sweeps = tuple(names.group_into_sweeps(combinations))
        for sweep in sweeps:
            _ = sweep.name  # This raises LongNameError.
        return replace(planned, vary=grid.vary, sweeps=sweeps)

    def _plan_command(self, planned: PlannedExperiment) -> PlannedExperiment | None:
        keys, place = planned.keys, planned.place
        grid = commands.make_grid(place, keys, self.file.defaults, self._seed_plan(planned))
        command = commands.read(place, keys, self.folder, self.problems)
        self.problems += grid.problems(self.file.max_runs)
        self.problems += commands.placeholder_problems(place, keys, grid)
        runs = {} if self._has_new_problems else commands.make_runs(command, grid, self.problems)
        if not runs:
            return None
        self.warnings += commands.missing_inputs(place, command)
        self.warnings += commands.missing_programs(place, runs)
        sizes = tuple(dict.fromkeys(run.factors["batch_size"] for run in runs.values()))
        costs = [name for name in log_format.COST_COLUMNS if keys.alone or name != "seconds"]
        outcomes = log_format.outcomes_with(keys.user_metrics)
        planned = replace(
            planned,
            vary={**grid.vary, "batch_size": sizes},
            analyses=grid.seeds.analyses,
            timed=keys.alone,
            tasks=tuple(tasks.TASKS),
            commands=runs,
            columns=(*costs, "epoch", *outcomes, *log_format.SOURCE_COLUMNS),
        )
        self.problems += checks.log_problems(planned)
        return planned

    def _plan_external(self, planned: PlannedExperiment) -> PlannedExperiment | None:
        # The module is imported by name, since its package is above this one and needs pandas.
        reader = importlib.import_module("batchscope.external.external_runs")
        keys, key_place = planned.keys, (*planned.place, "runs")
        try:
            runs = reader.read(keys.runs, self.folder, keys.user_metrics)
        except UserError as error:
            lines = error.problems if isinstance(error, ConfigError) else [str(error)]
            self.problems.append(Problem(key_place, "\n  ".join(lines)))
            return None
        self.warnings += [Problem(key_place, f"{note}.") for note in runs.table.notes]
        vary = {"batch_size": tuple(sorted(runs.rows["batch_size"].unique().tolist()))}
        if runs.tried_rates:
            vary["learning_rate"] = runs.tried_rates
        columns = log_format.filled_columns(runs.rows, runs.metrics)
        planned = replace(
            planned,
            vary=vary,
            timed="seconds" in columns,
            tasks=tasks.from_columns(runs.rows),
            columns=columns,
            external_runs=runs,
        )
        self.problems += checks.log_problems(planned)
        return planned
