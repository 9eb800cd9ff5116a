"""Plan a study: from the models of its file to experiments and runs, with every check of meaning.

Precedence of a run's factors: defaults, set, cases, vary, seed. All problems are collected.
"""

from __future__ import annotations

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
from batchscope.study.grids import Grid, IdReader, Seeds
from batchscope.study.names import MAX_NAME_LENGTH, LongNameError
from batchscope.study.networks import NETWORKS
from batchscope.study.plan import PlannedExperiment, Study, folder_name
from batchscope.study.published_numbers import PublishedValues
from batchscope.study.registry import OF_TRAININGS
from batchscope.study.run_factors import FACTORS, SWEEP_FACTORS
from batchscope.study.setting import Parameter
from batchscope.study.stages import Stage

# Function from a data set's id to its training examples; None unless it is prepared.
Recorded = Callable[[str], int | None]
# Fields of a `PlannedExperiment`, without its keys and published values.
Fields = dict[str, Any]
# Function from the name of a study's folder to the results of its interim analyses, by experiment.
Looked = Callable[[str], Mapping[str, Stage]]


def make(
    raw: dict[str, Any],
    scale: str = study_file.FULL,
    recorded: Recorded = lambda dataset_id: None,
    folder: Path | None = None,
    looked: Looked = lambda study_folder: {},
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
    file, written, replaced = study_file.read(raw, scale)
    reduced = scale == study_file.REDUCED
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
        self.defaults = self.ids.read(("defaults",), file.defaults)
        self.metrics: dict[str, str] = {}  # user-defined metrics of the experiments so far

    def study(self, written: dict[str, Any]) -> Study:
        """Return the study; it is incomplete if there are problems."""
        file = self.file
        planned = {}
        for name, keys in file.experiments.items():
            place, before = ("experiments", name), len(self.problems)
            self.problems += checks.metrics(place, keys, self.metrics)
            numbers = self._numbers(place, keys)
            experiment = self._plan(keys, place, before)
            if experiment and len(self.problems) == before:
                planned[name] = PlannedExperiment(name, keys, numbers=numbers, **experiment)
        if not self.problems:
            self._check_total()
        for experiment in planned.values():
            if not isinstance(experiment.keys, TimingExperiment):
                self._check_seeds(experiment)
        machines = other_machines.read(file, self.problems, self.warnings.append)
        configurations = [factors for item in planned.values() for factors in item.factors()]
        datasets = dict.fromkeys(factors["dataset"] for factors in configurations)
        files = dict(model for model in self.models.values() if model)
        return Study(
            file=file,
            reduced=self.reduced,
            datasets={item: self.by_id[item].definition.resolved() for item in datasets},
            models={factors["model"]: files[factors["model"]] for factors in configurations},
            experiments=planned,
            claims=self._claims(planned),
            published=dict(self._published()),
            machines=machines,
            written=written,
            folder=self.folder,
        )

    def _plan(self, keys: Experiment, place: Place, before: int) -> Fields | None:
        """Return the fields of a planned experiment; None if there is a problem.

        Args:
            before: Number of problems in earlier parts of the study.
        """
        try:
            for request in (*keys.measure, *keys.timing):
                names.settings_name(request.name, request.settings)
            match keys:
                case TrainingExperiment():
                    return self._training(keys, place, before)
                case TimingExperiment():
                    return self._timing(keys, place, before)
                case CommandExperiment():
                    return self._command(keys, place, before)
                case ExternalExperiment():
                    return self._external(keys, place)
        except LongNameError:
            text = f"A name in the paths of results has more than {MAX_NAME_LENGTH} characters. "
            text += "Choose shorter names of data sets, models and factors, or fewer values."
            at = (*place, "vary") if isinstance(keys, TimingExperiment) else place
            self.problems.append(Problem(at, text))
            return None
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
        return claims.read(self.file.claims, planned, self.problems.append)

    def _grid(
        self,
        place: Place,
        keys: TrainingExperiment | TimingExperiment,
        factors: Mapping[str, Parameter],
        seeds: Seeds | tuple[()] = (),
    ) -> Grid:
        cases = enumerate(keys.cases)
        grid = Grid(
            place,
            factors,
            {name: value for name, value in self.defaults.items() if name in factors},
            self.ids.read((*place, "set"), keys.set),
            [self.ids.read((*place, "cases", index), case) for index, case in cases],
            self.ids.read((*place, "vary"), keys.vary),
            *seeds,
        )
        self.problems += grid.problems()
        return grid

    def _seeds(self, place: Place, keys: TrainingExperiment | CommandExperiment) -> Seeds:
        stage, seeds = self.stages.get(place[-1], Stage()), keys.seeds
        if not isinstance(seeds, StagedSeeds):
            return seeds, (), stage
        # Other seeds have not been analysed yet.
        stage = stage if stage.first == seeds.first else Stage()
        race = checks.has_race(keys)
        planned = stages.of_race(seeds.at_most) if race else stages.looks(seeds.at_most)
        return seeds.seeds, planned, stage

    def _training(self, keys: TrainingExperiment, place: Place, before: int) -> Fields | None:
        grid = self._grid(place, keys, FACTORS, self._seeds(place, keys))
        experiments = self.file.experiments
        measures = {measure.name: measure.settings for measure in keys.measure}
        timed = checks.has_seconds(
            measures, [experiments[other] for other in keys.beside if other in experiments]
        )
        at = (*place, "measure")
        self.problems += [
            *figure_checks.problems(place, keys, measures, timed),
            *checks.epochs_without_a_measure(place, keys, measures),
            *checks.seconds(place, keys, timed),
            *checks.beside(place, keys, experiments),
            *checks.comparison(place, keys),
        ]
        if len(self.problems) > before or not self._usable(grid):
            return None
        runs = self._expand(grid, timed=not OF_TRAININGS.keys().isdisjoint(measures))
        factors = [*runs.values()]
        if not factors:
            return None
        learned = self._tasks(factors)
        pairs = {item.name: checks.pairs(item, runs) for item in keys.measure if item.between}
        self.problems += [
            *checks.outcomes_of_others(place, keys, learned),
            *checks.settings(at, keys.measure, factors, self.sizes),
            *checks.epochs_not_kept(place, keys.at_epochs, {run["epochs"] for run in factors}),
            *checks.budgets_beyond(place, keys.budgets, factors, self.sizes, learned),
            *horizons.problems(place, keys, factors),
            *checks.outcomes_of_margins(place, keys, measures, factors),
            *checks.no_pairs(at, keys.measure, pairs),
        ]
        return {
            "vary": grid.vary,
            "runs": runs,
            "seeds": _seeds(factors),
            "analyses": grid.analyses,
            "pairs": pairs,
            "timed": timed,
            "tasks": learned,
        }

    def _timing(self, keys: TimingExperiment, place: Place, before: int) -> Fields | None:
        grid = self._grid(place, keys, SWEEP_FACTORS)
        timings = {timing.name: timing.settings for timing in keys.timing}
        self.problems += [
            *checks.epochs_without_a_measure(place, keys, timings),
            *figure_checks.problems(place, keys, timings, timed=True),
        ]
        if len(self.problems) > before or not self._usable(grid):
            return None
        combinations = []
        for _, factors, place_of in grid.combinations():
            info = self.by_id[factors["dataset"]]
            self._check(incompatible_factors.of_examples(factors, info), place_of)
            self._check(incompatible_factors.of_timing(factors, info, timings), place_of)
            combinations.append(factors)
        at = (*place, "timing")
        self.problems += checks.settings(at, keys.timing, combinations, self.sizes)
        sweeps = tuple(names.sweeps(combinations))
        _ = [sweep.name for sweep in sweeps]  # raises LongNameError
        return {"vary": grid.vary, "sweeps": sweeps}

    def _external(self, keys: ExternalExperiment, place: Place) -> Fields | None:
        self.problems += self._log_problems(place, keys)
        table = external_experiment.read(
            place, keys, self.folder, self.problems, self.warnings.append
        )
        if table is None:
            return None
        vary, logs = external_experiment.vary(table), external_experiment.planned(table)
        self.problems += external_experiment.problems(place, keys, logs, vary)
        timed, learned = "seconds" in logs.columns, tasks.of_columns(table.rows)
        return {"vary": vary, "timed": timed, "tasks": learned, "own": logs}

    def _command(self, keys: CommandExperiment, place: Place, before: int) -> Fields | None:
        seeds = self._seeds(place, keys)
        grid = command_experiment.grid(place, keys, self.file.defaults, seeds)
        command = command_experiment.command(
            place, keys, self.folder, self.problems, self.warnings.append
        )
        self.problems += [
            *grid.problems(),
            *command_experiment.problems(place, keys, grid),
            *self._log_problems(place, keys),
        ]
        if command is None or len(self.problems) > before or self._too_many(grid):
            return None
        runs = command_experiment.runs(place, command, grid, self.problems)
        if not runs:
            return None
        missing = [*command_experiment.missing_programs(place, runs)]
        (self.problems if self.local else self.warnings).extend(missing)
        logs = command_experiment.planned(runs, keys)
        factors = [run.factors for run in runs.values()]
        vary = {
            **grid.vary,
            "batch_size": tuple(dict.fromkeys(run["batch_size"] for run in factors)),
        }
        self.problems += external_experiment.problems(place, keys, logs, vary)
        # Names of runs at later stages are unknown: no two experiments share them.
        later = ((place[-1], at) for at in range(grid.size))
        self.possible_runs.update(later if grid.analyses else runs)
        return {
            "vary": vary,
            "seeds": _seeds(factors),
            "analyses": grid.analyses,
            "timed": keys.alone,
            "tasks": tuple(tasks.TASKS),
            "commands": runs,
            "own": logs,
        }

    def _log_problems(self, place: Place, keys: LoggedExperiment) -> Iterator[Problem]:
        yield from checks.comparison(place, keys)
        yield from figure_checks.problems(place, keys, versions.ENTRIES, timed=True)

    def _numbers(self, place: Place, keys: Experiment) -> dict[str, tuple[PublishedValues, ...]]:
        """Return the published values by figure."""
        numbers = {}
        for figure, body in keys.published.items():
            if body.numbers and figure in FIGURES:
                at, numbers[figure] = (*place, "published", figure, "numbers"), tuple(body.numbers)
                self.problems += published_numbers.problems(at, figure, body.numbers)
                if not isinstance(keys, CommandExperiment):
                    numbers[figure] = tuple(
                        replace(series, factors=self.ids.read((*at, index), series.factors))
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
        keys, count = planned.keys, planned.own.seeds or planned.verdict_seeds
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
            of_seeds = [{**factors, "seed": seed} for seed in grid.seeds]
            current_seeds = grid.seeds_of(names.run_name(of_seeds[0]))
            if timed:
                names.timing_name(factors)
            for run in of_seeds:
                name = names.run_name(run)
                if name in cases:  # values of vary and seeds are distinct, so cases repeat
                    text = f"another case than cases[{cases[name]}], which has the same runs"
                    self.problems.append(received((*grid.place, "cases", index), {1: 1}, text))
                    return {}
                cases[name] = index
                if run["seed"] in current_seeds:
                    runs[name] = run
        self.possible_runs.update(cases)
        return runs

    def _check(self, problems: Iterable[Problem], place_of: Callable[[str], Place]) -> None:
        self.problems += [Problem(place_of(factor), text) for (factor,), text in problems]


def _seeds(runs: Iterable[dict[str, Any]]) -> tuple[int, ...]:
    return tuple(dict.fromkeys(factors["seed"] for factors in runs))
