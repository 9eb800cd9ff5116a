"""Plan experiments with results from logs: runs of a command, or external runs."""

from __future__ import annotations

import importlib
import os
import re
import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from batchscope.core.errors import ConfigError, UserError
from batchscope.core.problems import Place, Problem, received
from batchscope.study import budget_kinds, checks, external_columns, figure_checks, grids
from batchscope.study.commands import RESOURCES, RUN_DIR, Command, CommandRun, placeholders, sha256
from batchscope.study.experiments import CommandExperiment, ExternalExperiment, LoggedExperiment
from batchscope.study.factor_models import NAME_BY_ALIAS, RESERVED_NAMES, command_factors
from batchscope.study.plan import PlannedExperiment

_SCRIPT_SUFFIXES = (".py", ".sh")


def command_grid(
    place: Place, keys: CommandExperiment, defaults: dict[str, Any], seeds: grids.SeedPlan
) -> grids.Grid:
    """Return the grid of an experiment, with the defaults of factors that a placeholder uses."""
    explicit = {*keys.set, *keys.vary, *(name for case in keys.cases for name in case)}
    used = placeholders((*keys.command, *keys.env.values()))
    inherited = {name: value for name, value in defaults.items() if name in used - explicit}
    factors = command_factors({*explicit, *inherited, "batch_size"})
    del factors["seed"]
    return grids.Grid(place, factors, inherited, keys.set, keys.cases, keys.vary, *seeds)


def command(
    place: Place,
    keys: CommandExperiment,
    folder: Path,
    problems: list[Problem],
    warn: Callable[[Problem], None],
) -> Command | None:
    """Return the command of an experiment; None if one of its inputs cannot be read."""
    inputs = {}
    for index, path in enumerate(keys.inputs):
        try:
            inputs[path] = sha256(folder / os.path.expanduser(path))
        except UserError as error:
            text = f"{error}. Expected a file or a folder, relative to the study file."
            problems.append(Problem((*place, "inputs", index), text))
    input_paths = [os.path.normpath(path) for path in keys.inputs]
    for word in keys.command:
        paths = [*Path(os.path.normpath(word)).parents, Path(os.path.normpath(word))]
        is_script = Path(word).suffix in _SCRIPT_SUFFIXES and (folder / word).is_file()
        if is_script and not {*map(str, paths)} & {*input_paths}:
            text = f"A change of {word} makes no new run. Add inputs: [{word}]."
            warn(Problem((*place, "inputs"), text))
    if len(inputs) < len(keys.inputs):
        return None
    log = keys.log.explicit() | ({"metrics": keys.metrics} if keys.metrics else {})
    return Command(
        keys.command,
        keys.env,
        inputs,
        log,
        os.path.abspath(folder),
        keys.resources.threads,
        keys.resources.gpu,
        keys.resources.mem_mb,
        keys.alone,
        keys.resume,
        keys.requires,
    )


def command_problems(place: Place, keys: CommandExperiment, grid: grids.Grid) -> Iterator[Problem]:
    """Yield unknown placeholders, factors that no placeholder uses, and reserved factors."""
    valid = {*grid.factors, "seed", RUN_DIR, *RESOURCES}
    texts: dict[Place, str] = {("command", index): word for index, word in enumerate(keys.command)}
    texts |= {("env", name): text for name, text in keys.env.items()}
    used = placeholders(texts.values())
    texts |= {("requires", index): path for index, path in enumerate(keys.requires)}
    for key_place, text in texts.items():
        allowed = sorted(valid - {RUN_DIR} if key_place[0] == "requires" else valid)
        for name in sorted(placeholders([text]).difference(allowed)):
            choices = [f"{{{item}}}" for item in allowed]
            placeholder, expected = f"{{{name}}}" if name else "{", f"one of {', '.join(choices)}"
            yield received((*place, *key_place), placeholder, f"{expected}, or {{{{", choices)
    # Factor -> its key in the experiment.
    stated: dict[str, Place] = {name: ("set", name) for name in keys.set}
    cases = enumerate(keys.cases)
    stated |= {name: ("cases", index, name) for index, case in cases for name in case}
    stated |= {name: ("vary", name) for name in keys.vary}
    for name, key in stated.items():
        if text := _reason_reserved(name):
            yield Problem((*place, *key), text)
    for name, key in {"seed": ("seeds",), **stated}.items():
        if name not in used:
            text = f"The command does not use this factor. Add {{{name}}} to command or env."
            yield Problem((*place, *key), text)


def _reason_reserved(name: str) -> str:
    """Return the reason why a command may not have a factor; empty if it may."""
    if name == "seed":
        return "The experiment's key `seeds` states the seeds."
    if name in RESERVED_NAMES:
        return "Choose another name, or state `resources: {threads: 4, gpu: 1}` in the experiment."
    if name in NAME_BY_ALIAS:
        return f"Unknown factor. Did you mean '{NAME_BY_ALIAS[name]}'?"
    return "" if re.fullmatch("[a-z][a-z0-9_]{0,59}", name) else "Unknown factor."


def command_runs(
    place: Place, command: Command, grid: grids.Grid, problems: list[Problem]
) -> dict[str, CommandRun]:
    """Return the runs by their names; add a problem and return none if two are equal."""
    planned_runs: dict[str, CommandRun] = {}
    first_runs: dict[str, str] = {}  # command with its arguments -> the first run that has it
    for _, factors, _ in grid.combinations():
        configuration = CommandRun(command, {**factors, "seed": grid.seeds[0]}).name
        for seed in grid.seeds_of(configuration):
            run = CommandRun(command, {**factors, "seed": seed})
            first = first_runs.setdefault(repr(run.resolved(RUN_DIR)), run.name)
            if first != run.name or run.name in planned_runs:
                text = f"Two runs have the same command: {first} and {run.name}."
                problems.append(Problem((*place, "command"), text))
                return {}
            planned_runs[run.name] = run
    return planned_runs


def missing_programs(place: Place, runs: Mapping[str, CommandRun]) -> Iterator[Problem]:
    """Yield the missing programs of commands. Runs that lack a required file are left out."""
    programs = set()
    for run in runs.values():
        arguments, env = run.resolved(RUN_DIR)
        if arguments and all(map(os.path.exists, run.needs["requires"])):
            programs.add((arguments[0], env.get("PATH")))
    for program, path in sorted(programs, key=str):
        folder = next(iter(runs.values())).command.folder if os.path.dirname(program) else ""
        if shutil.which(os.path.join(folder, program), path=path) is None:
            text = "a program on the PATH, or its path relative to the study file"
            yield received((*place, "command"), program, text)


def command_columns(keys: CommandExperiment) -> tuple[str, ...]:
    """Return the columns of our tables that the logs of the runs will fill."""
    axes = [name for name in external_columns.COST_COLUMNS if keys.alone or name != "seconds"]
    outcomes = external_columns.outcomes_with(keys.user_metrics)
    return (*axes, "epoch", *outcomes, *external_columns.SOURCE_COLUMNS)


def external_runs(
    place: Place,
    keys: ExternalExperiment,
    folder: Path,
    problems: list[Problem],
    warn: Callable[[Problem], None],
) -> Any:
    """Return the `LoggedRuns` of an experiment; None if their logs are invalid."""
    # The module is imported by name, since its package is above this one and needs pandas.
    reader = importlib.import_module("batchscope.external.external_runs")
    key_place = (*place, "runs")
    try:
        runs = reader.read(keys.runs, folder, keys.user_metrics)
    except UserError as error:
        lines = error.problems if isinstance(error, ConfigError) else [str(error)]
        problems.append(Problem(key_place, "\n  ".join(lines)))
        return None
    for note in runs.table.notes:
        warn(Problem(key_place, f"{note}."))
    return runs


def log_problems(
    place: Place, keys: LoggedExperiment, planned: PlannedExperiment
) -> Iterator[Problem]:
    """Yield the keys that need columns that the logs lack."""
    runs, columns = planned.external_runs, planned.columns
    source = runs.path if runs else "the log"
    yield from checks.early_budgets(place, keys.budgets, checks.horizon_schedule(planned))
    for outcome in keys.margins:
        if outcome not in columns:
            outcomes = external_columns.outcomes_with(keys.user_metrics)
            present = [name for name in columns if name in outcomes]
            expected = f"an outcome in {source} ({', '.join(present) or 'none'})"
            yield received((*place, "margins", outcome), outcome, expected, present)
    for key, value in keys.budgets.items():
        key_place, columns_of_key = (*place, "budgets", key), [budget_kinds.AXES.get(key)]
        if not planned.has_evaluations:
            text = f"Needs a row per evaluation. Each training of {source} has a single row."
            yield Problem(key_place, text)
            continue
        for column in value if key == budget_kinds.TARGET else columns_of_key:
            if column not in columns:
                needed = f"a column {column} of {source}" if runs else "alone: true"
                yield Problem(key_place, f"Needs {needed}.")
        if key == budget_kinds.TARGET and "updates" not in columns:
            text = f"Needs updates or examples of {source}, or examples_per_epoch."
            yield Problem(key_place, text)
    for key_place, figure in figure_checks.named_figures(place, keys):
        if reason := figure_checks.external_run_problem(figure, {*columns, *planned.vary}):
            yield received(key_place, figure.name, f"a figure that {source} allows ({reason})")


def filled_columns(runs: Any) -> tuple[str, ...]:
    """Return the columns of our tables that external runs fill."""
    names = (*external_columns.COST_COLUMNS, "epoch", *external_columns.outcomes_with(runs.metrics))
    filled = [*runs.rows.reindex(columns=names).dropna(axis=1, how="all")]
    sources = external_columns.SOURCE_COLUMNS.items()
    return (*filled, *(name for name, columns in sources if columns <= {*filled}))


def common_seeds(runs: Any) -> int:
    """Return the number of seeds that every batch size has, of the series with the fewest."""
    seeds = (rows.groupby("batch_size")["seed"].agg(set) for rows in runs.series)
    return min(len(set.intersection(*by_size)) for by_size in seeds)


def external_vary(runs: Any) -> dict[str, tuple[Any, ...]]:
    sizes = tuple(sorted(runs.rows["batch_size"].unique().tolist()))
    return {
        "batch_size": sizes,
        **({"learning_rate": runs.tried_rates} if runs.tried_rates else {}),
    }
