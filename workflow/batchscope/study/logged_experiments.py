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
from batchscope.study.factor_models import ALIASES, RESERVED, command_factors
from batchscope.study.plan import PlannedExperiment

_SCRIPTS = (".py", ".sh")
_PROGRAMS = ("bash", "python", "python3", "sh", "torchrun")


def command_grid(
    place: Place,
    keys: CommandExperiment,
    defaults: dict[str, Any],
    seeds: grids.Seeds,
) -> grids.Grid:
    """Return the grid, with the defaults of factors that a placeholder uses."""
    explicit = {*keys.set, *keys.vary, *(name for case in keys.cases for name in case)}
    used = placeholders((*keys.command, *keys.env.values()))
    inherited = {name: value for name, value in defaults.items() if name in used - explicit}
    named = command_factors({*explicit, *inherited, "batch_size"})
    factors = {name: factor for name, factor in named.items() if name != "seed"}
    return grids.Grid(place, factors, inherited, keys.set, keys.cases, keys.vary, *seeds)


def command(
    place: Place,
    keys: CommandExperiment,
    folder: Path,
    faults: list[Problem],
    warn: Callable[[Problem], None],
) -> Command | None:
    """Return the command of an experiment; None if one of its inputs cannot be read."""
    inputs = {}
    for index, path in enumerate(keys.inputs):
        try:
            inputs[path] = sha256(folder / os.path.expanduser(path))
        except UserError as error:
            text = f"{error}. Expected a file or a folder, relative to the study file."
            faults.append(Problem((*place, "inputs", index), text))
    covered = [os.path.normpath(path) for path in keys.inputs]
    for word in keys.command:
        above = [*Path(os.path.normpath(word)).parents, Path(os.path.normpath(word))]
        script = Path(word).suffix in _SCRIPTS and (folder / word).is_file()
        if script and not {*map(str, above)} & {*covered}:
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


def command_problems(
    place: Place, keys: CommandExperiment, factors: grids.Grid
) -> Iterator[Problem]:
    """Yield unknown placeholders, factors that no placeholder uses, and reserved factors."""
    valid = {*factors.factors, "seed", RUN_DIR, *RESOURCES}
    texts: dict[Place, str] = {("command", index): word for index, word in enumerate(keys.command)}
    texts |= {("env", name): text for name, text in keys.env.items()}
    used = placeholders(texts.values())
    for at, text in texts.items():
        for name in sorted(placeholders([text]) - valid):
            got = f"{{{name}}}" if name else "{"
            expected = "a factor of the experiment, run_dir, threads or gpus in braces, or {{"
            yield received((*place, *at), got, expected, [f"{{{item}}}" for item in valid])
    for index, path in enumerate(keys.requires):
        for name in sorted(placeholders([path]) - (valid - {RUN_DIR})):
            expected = "a factor of the experiment in braces"
            yield received((*place, "requires", index), f"{{{name}}}", expected)
    homes: dict[str, Place] = {name: ("set", name) for name in keys.set}
    homes |= {name: ("cases", at, name) for at, case in enumerate(keys.cases) for name in case}
    homes |= {name: ("vary", name) for name in keys.vary}
    for name, home in homes.items():
        if text := _refusal(name):
            yield Problem((*place, *home), text)
    for name, home in {"seed": ("seeds",), **homes}.items():
        if name not in used:
            text = f"The command does not use this factor. Add {{{name}}} to command or env."
            yield Problem((*place, *home), text)


def _refusal(name: str) -> str:
    """Return the reason why a command may not have a factor; empty if it may."""
    if name == "seed":
        return "The experiment's key `seeds` states the seeds."
    if name in ("threads", "device", "replicas"):
        return "State `resources: {threads: 4, gpu: 1}` in the experiment."
    if name in RESERVED:
        return "This is the name of a placeholder. Choose another name."
    if name in ALIASES:
        return f"Unknown factor. Did you mean '{ALIASES[name]}'?"
    return "" if re.fullmatch("[a-z][a-z0-9_]{0,59}", name) else "Unknown factor."


def command_runs(
    place: Place, command: Command, factors: grids.Grid, faults: list[Problem]
) -> dict[str, CommandRun]:
    """Return the runs by their names; none if two are equal."""
    planned_runs: dict[str, CommandRun] = {}
    resolved: dict[str, str] = {}
    for _, values, _ in factors.combinations():
        configuration = CommandRun(command, {**values, "seed": factors.seeds[0]}).name
        for seed in factors.seeds_of(configuration):
            run = CommandRun(command, {**values, "seed": seed})
            first = resolved.setdefault(repr(run.resolved(RUN_DIR)), run.name)
            if first != run.name or run.name in planned_runs:
                text = f"Two runs have the same command: {first} and {run.name}."
                faults.append(Problem((*place, "command"), text))
                return {}
            planned_runs[run.name] = run
    return planned_runs


def missing_programs(place: Place, runs: Mapping[str, CommandRun]) -> Iterator[Problem]:
    """Yield the programs of commands that this machine lacks, unless `requires` lacks a file."""
    programs = set()
    for run in runs.values():
        arguments, env = run.resolved(RUN_DIR)
        if arguments and all(map(os.path.exists, run.needs["requires"])):
            programs.add((arguments[0], env.get("PATH")))
    for program, path in sorted(programs, key=str):
        home = next(iter(runs.values())).command.folder if os.path.dirname(program) else ""
        if shutil.which(os.path.join(home, program), path=path) is None:
            text = "a program on the PATH, or its path relative to the study file"
            yield received((*place, "command"), program, text, _PROGRAMS)


def command_columns(keys: CommandExperiment) -> tuple[str, ...]:
    """Return the columns of our tables that the logs of the runs will fill."""
    axes = [name for name in external_columns.AXES if keys.alone or name != "seconds"]
    outcomes = external_columns.outcomes(keys.user_metrics)
    return (*axes, "epoch", *outcomes, *external_columns.SOURCE_COLUMNS)


def external_runs(
    place: Place,
    keys: ExternalExperiment,
    folder: Path,
    problems: list[Problem],
    warn: Callable[[Problem], None],
) -> Any:
    """Return the runs of an experiment; None if their logs are invalid."""
    # Imported by name, since its package is above this one and needs pandas.
    reader = importlib.import_module("batchscope.external.external_runs")
    at = (*place, "runs")
    try:
        runs = reader.read(keys.runs, folder, keys.user_metrics)
    except UserError as error:
        lines = error.problems if isinstance(error, ConfigError) else [str(error)]
        problems.append(Problem(at, "\n  ".join(lines)))
        return None
    for note in runs.table.notes:
        warn(Problem(at, f"{note}."))
    return runs


def log_problems(
    place: Place, keys: LoggedExperiment, planned: PlannedExperiment
) -> Iterator[Problem]:
    """Yield the keys that need columns that the logs lack."""
    runs, columns = planned.external_runs, planned.columns
    source = runs.path if runs else "the log"
    yield from checks.early_budgets(place, keys.budgets, checks.falling_schedule(planned))
    for outcome in keys.margins:
        if outcome not in columns:
            outcomes = external_columns.outcomes(keys.user_metrics)
            present = [name for name in columns if name in outcomes]
            expected = f"an outcome in {source} ({', '.join(present) or 'none'})"
            yield received((*place, "margins", outcome), outcome, expected, present)
    for key, value in keys.budgets.items():
        at, names = (*place, "budgets", key), [budget_kinds.AXES.get(key)]
        if not planned.has_evaluations:
            text = f"Needs a row per evaluation. Each training of {source} has a single row."
            yield Problem(at, text)
            continue
        for column in value if key == budget_kinds.TARGET else names:
            if column not in columns:
                needed = f"a column {column} of {source}" if runs else "alone: true"
                yield Problem(at, f"Needs {needed}.")
        if key == budget_kinds.TARGET and "updates" not in columns:
            yield Problem(at, f"Needs updates or examples of {source}, or examples_per_epoch.")
    for at, figure in figure_checks.named(place, keys):
        if lacking := figure_checks.external_run_problem(figure, {*columns, *planned.vary}):
            yield received(at, figure.name, f"a figure that {source} allows ({lacking})")


def filled_columns(runs: Any) -> tuple[str, ...]:
    """Return the columns of our tables that external runs fill."""
    names = (*external_columns.AXES, "epoch", *external_columns.outcomes(runs.metrics))
    filled = runs.rows.reindex(columns=names).dropna(axis=1, how="all")
    return (
        *filled,
        *(name for name, needed in external_columns.SOURCE_COLUMNS.items() if needed <= {*filled}),
    )


def common_seeds(runs: Any) -> int:
    """Return the number of seeds that every batch size has, of the series with the fewest."""
    seeds = (rows.groupby("batch_size")["seed"].agg(set) for rows in runs.series)
    return min(len(set.intersection(*by_size)) for by_size in seeds)


def external_vary(runs: Any) -> dict[str, tuple[Any, ...]]:
    sizes = tuple(sorted(runs.rows["batch_size"].unique().tolist()))
    return {"batch_size": sizes, **({"learning_rate": runs.rates} if runs.rates else {})}
