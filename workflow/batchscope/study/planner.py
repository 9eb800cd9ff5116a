"""From a study file to its experiments and runs: every check of meaning, no heavy import.

Precedence of a run's factors: defaults, set, cases, vary, seed. All problems are found at
once; what depends on a part that is broken is not reported beside it.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from batchscope.catalogue import incompatible_factors, run_names, sweep_names, tasks
from batchscope.catalogue.dataset_definitions import BUILT_IN, DatasetInfo
from batchscope.catalogue.figures import FIGURES
from batchscope.catalogue.networks import NETWORKS
from batchscope.catalogue.registry import OF_TRAININGS
from batchscope.catalogue.run_names import MAX_NAME_LENGTH
from batchscope.catalogue.stages import Stage, Staged
from batchscope.errors import ConfigError
from batchscope.problems import Place, Problem, merged, show, unknown
from batchscope.study import (
    claims,
    command_experiment,
    experiments,
    external_experiment,
    figure_checks,
    grids,
    horizons,
    model_files,
    other_machines,
    published_numbers,
)
from batchscope.study.asked import Asked
from batchscope.study.document import CommandKeys, ExperimentKeys
from batchscope.study.plan import Experiment, Study, Times, Trainings, folder_name
from batchscope.study.published_numbers import Series
from batchscope.study.validation import Validated, reduce, validate

# From a data set's id to its training examples, where it is prepared.
Recorded = Callable[[str], int | None]
# From the name of a study's folder to what the looks at its experiments have given.
Looked = Callable[[str], Mapping[str, Stage]]


def unrecorded(dataset_id: str) -> None:
    """Returns nothing: what is known of prepared data where nobody looks."""


def unlooked(folder: str) -> Mapping[str, Stage]:
    return {}


def make(
    raw: dict[str, Any],
    scale: str = "full",
    recorded: Recorded = unrecorded,
    folder: Path | None = None,
    looked: Looked = unlooked,
) -> Study:
    """Returns the study of a file.

    Args:
        raw: What YAML holds.
        scale: `full`, or `reduced` for the smaller form.
        folder: Where the file lies: tables of external runs lie beside it.
        looked: What the looks at a study so far have given.

    Raises:
        ConfigError: With every problem of structure and of meaning.
    """
    planner = _Planner(validate(raw, scale), scale, recorded, folder or Path(), looked)
    study = planner.study()
    if planner.findings.problems:
        raise ConfigError([problem.line for problem in merged(planner.findings.problems)])
    written = raw if scale == "full" else reduce(raw)[0]
    return replace(study, written=written, folder=folder)


class _Planner:
    """One pass over the sound parts of a file; collects problems, warnings and runs."""

    def __init__(
        self,
        validated: Validated,
        scale: str,
        recorded: Recorded,
        folder: Path,
        looked: Looked,
    ) -> None:
        self.document, self.findings = validated.document, validated.findings
        self.most: set[Any] = set()  # names of all runs that the study may come to
        self.stages = looked(folder_name(self.document.study, scale == "reduced"))
        self.scale, self.recorded, self.folder = scale, recorded, folder
        self.datasets = dict(self._read_datasets())
        self.models = dict(self._read_models())
        self.by_id = {one.id: one for one in self.datasets.values() if one}
        ids = {name: one.id if one else None for name, one in self.datasets.items()}
        models = {name: one[0] if one else None for name, one in self.models.items()}
        self.factors = grids.FactorReader(self.findings, ids, models)
        self.sizes = {one.id: one.training_examples for one in self.by_id.values()}

    def study(self) -> Study:
        document = self.document
        defaults = self.factors.values(("defaults",), document.defaults, None)
        planned = {}
        for name, keys in document.experiments.items():
            place = ("experiments", name)
            written = self.findings.names_at(place)
            logged = bool({"runs", "command"} & written)
            self.findings.report(*experiments.own_metrics(place, keys, logged))
            if logged:
                of_a_command = "command" in written
                plan_one = self._command_experiment if of_a_command else self._own_experiment
                planned[name] = plan_one(name, keys, place)
                continue
            timed = "timing" in written
            kind = grids.TIMING if timed else grids.TRAINING
            stage = self.stages.get(name, Stage())
            grid = grids.read(self.factors, place, keys, kind, defaults, document.defaults, stage)
            plan_one = self._timing_experiment if timed else self._experiment
            planned[name] = plan_one(name, keys, grid)
        found = {name: one for name, one in planned.items() if one}
        self._check_total()
        stated = self._claims(found)
        self._check_seeds([each for each in found.values() if not each.times.sweeps])
        other_machines.check(self.findings, document)
        every = [factors for one in found.values() for factors in one.factors()]
        return Study(
            name=document.study,
            title=document.title or document.study,
            machine=document.machine,
            reduced=self.scale == "reduced",
            datasets=self._used_datasets(every),
            models=self._used_models(every),
            experiments=found,
            warnings=tuple(self.findings.warnings),
            claims=stated,
            published=dict(self._published()),
            machines=other_machines.read(document),
            figure_format=document.figure_format,
            guess=document.guess,
        )

    def _read_datasets(self) -> Iterator[tuple[str, DatasetInfo | None]]:
        """Yields every data set by name; None for what is at fault."""
        for name, definition in {**BUILT_IN, **self.document.datasets}.items():
            place = ("datasets", name)
            if not self.findings.broken(place):
                self.findings.report(*definition.problems(place))
            broken = self.findings.broken(place)
            yield name, None if broken else DatasetInfo.of(name, definition, self.recorded)
        for name in self.findings.names_at(("datasets",)) - {*self.document.datasets}:
            yield name, None

    def _read_models(self) -> Iterator[tuple[str, tuple[str, str | None] | None]]:
        """Yields id and file of every model by name; None for what is at fault."""
        built_in = sorted(NETWORKS)
        yield from ((name, (name, None)) for name in built_in)
        for name in self.findings.names_at(("models",)) - {*built_in}:
            yield name, None
        for name, written in self.document.models.items():
            place, path = ("models", name), model_files.expanded(written)
            if name in built_in and path != name:
                text = "a name of its own is expected: this one is a built-in model's."
                self.findings.report(Problem(place, f"received {show(path)}; {text}"))
            elif path in built_in:
                yield name, (path, None)
            elif problem := model_files.problem(place, path):
                self.findings.report(problem)
            else:
                yield name, (model_files.token(name, path), os.path.normpath(path))

    def _tasks(self, runs: Iterable[dict[str, Any]]) -> tuple[str, ...]:
        found = {self.by_id[factors["dataset"]].task for factors in runs}
        return tuple(task for task in tasks.TASKS if task in found or None in found)

    def _used_datasets(self, every: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
        ids = dict.fromkeys(factors["dataset"] for factors in every)
        return {each: self.by_id[each].definition.resolved() for each in ids}

    def _used_models(self, every: list[dict[str, Any]]) -> dict[str, str | None]:
        files = dict(one for one in self.models.values() if one)
        return {each: files[each] for each in dict.fromkeys(one["model"] for one in every)}

    def _published(self) -> Iterator[tuple[str, tuple[int, str]]]:
        """Yields a data set's id, how many examples of it a document used, and its place there."""
        for name, body in self.document.published.items():
            place = ("published", name)
            if name not in self.datasets:
                self.findings.report(unknown(place, "data set", self.datasets))
            elif info := self.datasets[name]:
                yield info.id, (body.examples, body.place)

    def _claims(self, planned: dict[str, Experiment]) -> tuple[claims.Claim, ...]:
        elsewhere = [one for one in self.findings.problems if one.place[0] != "claims"]
        if elsewhere:
            return ()
        machines = (self.document.machine, *self.document.machines)
        sizes = {name: info.training_examples for name, info in self.datasets.items() if info}
        return claims.read(self.findings, self.document.claims, planned, machines, sizes)

    def _experiment(self, name: str, keys: ExperimentKeys, grid: grids.Grid) -> Experiment | None:
        place, report = grid.place, self.findings.report
        written = self.findings.names_at(place)
        asked = experiments.settings_by_name(keys.measure)
        others = self.document.experiments
        beside = [others[other] for other in keys.beside if other in others]
        timed = experiments.has_seconds(asked, beside)
        report(*experiments.asked_problems((*place, "measure"), keys.measure))
        report(*figure_checks.problems(place, keys, written, asked, timed))
        numbers = self._numbers(place, keys, grid.kind)
        report(*experiments.epochs_without_a_measure(place, keys, asked))
        report(*experiments.seconds_problems(place, keys, timed))
        report(*experiments.beside_problems(place, keys, written, others))
        report(*experiments.primary_problems(place, keys))
        report(*experiments.planned_twice(place, keys))
        if not self._sound(grid):
            return None
        runs = self._expand(grid, timed=not OF_TRAININGS.keys().isdisjoint(asked))
        if not runs:
            return None
        factors = [*runs.values()]
        learned = self._tasks(factors)
        report(*experiments.outcomes_of_others(place, keys, learned))
        report(*experiments.needs_of_measures((*place, "measure"), keys.measure, factors))
        self._check_settings((*place, "measure"), keys.measure, factors)
        epochs = {each["epochs"] for each in factors}
        report(*experiments.epochs_not_kept(place, keys.at_epochs, epochs))
        report(*experiments.budgets_beyond(place, keys.budgets, factors, self.sizes, learned))
        report(*horizons.problems(place, keys, factors))
        report(*experiments.margins_without_outcomes(place, keys, asked, factors))
        paired = {one.name: experiments.pairs(one, runs) for one in keys.measure if one.between}
        for one in keys.measure:
            if one.between:
                report(*experiments.pair_problems((*place, "measure"), one, paired[one.name]))
        trainings = Trainings(
            runs=runs,
            seeds=_seeds(runs.values()),
            looks=grid.looks,
            measures=asked,
            pairs=paired,
            beside=keys.beside,
            timed=timed,
            tasks=learned,
            **experiments.statements(keys),
        )
        return experiments.made(name, keys, grid.vary, numbers, trainings=trainings)

    def _timing_experiment(
        self, name: str, keys: ExperimentKeys, grid: grids.Grid
    ) -> Experiment | None:
        place, report = grid.place, self.findings.report
        written = self.findings.names_at(place)
        text = "received beside `timing`; a training or a timing experiment is expected."
        for key in ("measure", "seeds", *experiments.OF_RUNS):
            if key in keys.model_fields_set:
                report(Problem((*place, key), text))
        timings = experiments.settings_by_name(keys.timing)
        report(*experiments.asked_problems((*place, "timing"), keys.timing))
        report(*experiments.epochs_without_a_measure(place, keys, timings))
        report(*figure_checks.problems(place, keys, written, timings, timed=True))
        numbers = self._numbers(place, keys, grid.kind)
        if not self._sound(grid) or self._too_many(grid):
            return None
        factors = [factors for _, factors, _ in grid.combinations()]
        self._check_settings((*place, "timing"), keys.timing, factors)
        times = Times(timings, self._sweeps(grid, timings))
        return experiments.made(name, keys, grid.vary, numbers, times=times)

    def _own_experiment(self, name: str, keys: ExperimentKeys, place: Place) -> Experiment | None:
        table = external_experiment.read(self.findings, place, keys, self.folder)
        numbers = self._asked_of_logs(place, keys)
        if table is None:
            return None
        vary, own = external_experiment.vary(table), external_experiment.planned(table)
        self.findings.report(*external_experiment.problems(place, keys, own, vary))
        seconds, learned = "seconds" in own.columns, table.tasks
        trainings = Trainings(timed=seconds, tasks=learned, **experiments.statements(keys))
        return experiments.made(name, keys, vary, numbers, trainings=trainings, own=own)

    def _command_experiment(
        self, name: str, keys: ExperimentKeys, place: Place
    ) -> Experiment | None:
        if not isinstance(keys, CommandKeys):  # its command is at fault
            return None
        stage = self.stages.get(name, Stage())
        grid = command_experiment.grid(self.findings, place, keys, self.document.defaults, stage)
        command = command_experiment.command(self.findings, place, keys, self.folder)
        self.findings.report(*command_experiment.problems(self.findings, place, keys, grid))
        self.findings.report(*experiments.planned_twice(place, keys))
        numbers = self._asked_of_logs(place, keys, grid.kind)
        if command is None or not self._sound(grid) or self._too_many(grid):
            return None
        runs = command_experiment.runs(self.findings, place, command, grid)
        own = command_experiment.planned(runs, grid, keys)
        vary = {
            **grid.vary,
            "batch_size": tuple({one.factors["batch_size"]: 0 for one in runs.values()}),
        }
        self.findings.report(*external_experiment.problems(place, keys, own, vary))
        seeds, said = _seeds(run.factors for run in runs.values()), experiments.statements(keys)
        made = {"seeds": seeds, "looks": grid.looks, "tasks": tuple(tasks.TASKS)}
        trainings = Trainings(timed=keys.alone, **made, **said)
        # Their names at later stages are not known: no two experiments share them.
        self.most.update(runs if not grid.looks else ((name, at) for at in range(grid.size)))
        parts = {"trainings": trainings, "own": own, "commands": runs}
        return experiments.made(name, keys, vary, numbers, **parts) if runs else None

    def _asked_of_logs(
        self, place: Place, keys: ExperimentKeys, kind: grids.Kind = grids.TRAINING
    ) -> dict[str, tuple[Series, ...]]:
        """Reports what no log gives, whatever it holds; returns a document's numbers by figure."""
        written = self.findings.names_at(place)
        self.findings.report(*experiments.primary_problems(place, keys))
        asked = figure_checks.problems(place, keys, written, run_names.ENTRIES, timed=True)
        self.findings.report(*asked)
        return self._numbers(place, keys, kind)

    def _numbers(
        self, place: Place, keys: ExperimentKeys, kind: grids.Kind
    ) -> dict[str, tuple[Series, ...]]:
        """Returns a document's numbers by figure, for the figures that are given some."""
        found = {}
        for figure, body in keys.published.items():
            if body.numbers and figure in FIGURES:
                at = (*place, "published", figure, "numbers")
                for problem in published_numbers.problems(at, figure, body.numbers):
                    if not self.findings.broken(problem.place):
                        self.findings.report(problem)
                found[figure] = tuple(
                    Series(
                        self.factors.values(
                            (*at, index), published_numbers.factors_of(series), kind
                        ),
                        series["batch_size"],
                        published_numbers.columns_of(series),
                    )
                    for index, series in enumerate(body.numbers)
                )
        return found

    def _sound(self, grid: grids.Grid) -> bool:
        return grid.complete and not self.findings.broken(grid.place, *grid.inherited)

    def _too_many(self, grid: grids.Grid) -> bool:
        limit = self.document.max_runs
        if grid.size > limit:
            text = f"received {grid.size} runs; at most {limit} (max_runs) are expected."
            self.findings.report(Problem(grid.place, text))
        return grid.size > limit

    def _check_total(self) -> None:
        """Reports more runs than a study may come to: at its last stage, where it has some."""
        limit, count = self.document.max_runs, len(self.most)
        if count > limit and not self.findings.problems:
            text = f"received {count} runs in all experiments; at most {limit} are"
            self.findings.report(Problem(("max_runs",), f"{text} expected."))

    def _check_seeds(self, planned: Iterable[Experiment]) -> None:
        """Warns of experiments with too few seeds for any verdict, or other ones than planned."""
        for each in planned:
            runs = each.trainings.runs.values()
            sizes = len({run["batch_size"] for run in runs}) or len(each.vary["batch_size"])
            count = each.own.seeds or len(each.trainings.seeds)
            place = ("experiments", each.name, "runs" if each.own.path else "seeds")
            reduced, intended = self.scale == "reduced", each.trainings.seeds_planned
            stated = self.document.experiments[each.name].seeds
            stage = self.stages.get(each.name)
            for problem in (
                *experiments.too_few_seeds(place, sizes, count),
                *experiments.beside_the_plan(place, intended, count, reduced),
            ):
                self.findings.warn(problem)
            if stage and isinstance(stated, Staged):
                for problem in experiments.another_plan(place, stage, stated):
                    self.findings.warn(problem)

    def _expand(self, grid: grids.Grid, timed: bool) -> dict[str, dict[str, Any]]:
        """Returns the factors of every run by its name; none where something is reported."""
        if self._too_many(grid):
            return {}
        runs: dict[str, dict[str, Any]] = {}
        cases: dict[str, int] = {}  # run -> the case that gave it
        for index, factors, find in grid.combinations():
            info = self.by_id[factors["dataset"]]
            self._check(incompatible_factors.of_examples(factors, info), find)
            self._check(incompatible_factors.of_training(factors, info), find)
            name_of = functools.partial(self._run_name, grid.place, factors, timed)
            now = grid.seeds_of(name_of)
            for seed in grid.seeds:
                name = name_of(seed)
                if name is None:
                    return {}
                if name in cases:  # values of vary and seeds are distinct: it is the case
                    text = f"received the runs of cases[{cases[name]}] again; "
                    place = (*grid.place, "cases", index)
                    self.findings.report(Problem(place, text + "every run once is expected."))
                    return {}
                cases[name] = index
                if seed in now:
                    runs[name] = {**factors, "seed": seed}
        self.most.update(cases)
        return runs

    def _sweeps(self, grid: grids.Grid, timings: dict[str, Any]) -> tuple[sweep_names.Sweep, ...]:
        found = []
        for _, factors, find in grid.combinations():
            info = self.by_id[factors["dataset"]]
            self._check(incompatible_factors.of_examples(factors, info), find)
            self._check(incompatible_factors.of_timing(factors, info, timings), find)
            found.append(factors)
        grouped = tuple(sweep_names.group(found))
        try:
            _ = [sweep.name for sweep in grouped]
        except ValueError:
            text = f"received batch sizes whose name has more than {MAX_NAME_LENGTH} characters; "
            text += "fewer, or ranges without gaps, are expected."
            self.findings.report(Problem((*grid.place, "vary"), text))
        return grouped

    def _check_settings(
        self, place: Place, asked: Iterable[Asked], runs: list[dict[str, Any]]
    ) -> None:
        self.findings.report(*experiments.unfit_settings(place, asked, runs, self.sizes))

    def _check(self, wrong: Iterable[tuple[str, str]], find: Callable[[str], Place]) -> None:
        self.findings.report(*(Problem(find(factor), text) for factor, text in wrong))

    def _run_name(
        self, place: Place, factors: dict[str, Any], timed: bool, seed: int
    ) -> str | None:
        factors = {**factors, "seed": seed}
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


def _seeds(runs: Iterable[dict[str, Any]]) -> tuple[int, ...]:
    return tuple(dict.fromkeys(factors["seed"] for factors in runs))
