"""An experiment whose runs a command makes: its grid, its placeholders, and what is wrong there."""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from batchscope.catalogue import command_factors, own_columns
from batchscope.catalogue.run_factors import FALLING
from batchscope.catalogue.stages import Stage
from batchscope.errors import UserError
from batchscope.problems import Findings, Place, Problem, received
from batchscope.study import grids, plan
from batchscope.study.command_keys import command_reader
from batchscope.study.commands import RESOURCES, RUN_DIR, Command, Run, placeholders, sha256
from batchscope.study.document import CommandKeys

_SCRIPTS = (".py", ".sh")


class _AsGiven(grids.FactorReader):
    """Takes every factor as it is: the command alone knows what a data set or a model is."""

    def __init__(self, findings: Findings) -> None:
        self.findings, self._ids = findings, {}


def grid(
    findings: Findings, place: Place, keys: CommandKeys, defaults: dict[str, Any], stage: Stage
) -> grids.Grid:
    """Returns the grid at a stage: of the defaults the factors that a placeholder names."""
    given = {*keys.set, *keys.vary, *(name for case in keys.cases for name in case)}
    used = placeholders((*keys.command, *keys.env.values()))
    own = {name: value for name, value in defaults.items() if name in used - given}
    named = command_factors.factors({*given, *own, "batch_size"})
    factors = {name: command_reader(name) for name in named if name != "seed"}
    kind = grids.Kind(factors, f"unknown factor; one of {', '.join(factors)} is expected.")
    return grids.read(_AsGiven(findings), place, keys, kind, own, own, stage)


def command(findings: Findings, place: Place, keys: CommandKeys, folder: Path) -> Command | None:
    """Returns the command of an experiment; None where something it depends on cannot be read."""
    inputs = {}
    for index, path in enumerate(keys.inputs):
        try:
            inputs[path] = sha256(folder / os.path.expanduser(path))
        except UserError as error:
            text = f"{error}; a file or a folder is expected, relative to that of this file."
            findings.report(Problem((*place, "inputs", index), text))
    covered = [os.path.normpath(path) for path in keys.inputs]
    for word in keys.command:
        above = [*Path(os.path.normpath(word)).parents, Path(os.path.normpath(word))]
        script = Path(word).suffix in _SCRIPTS and (folder / word).is_file()
        if script and not {*map(str, above)} & {*covered}:
            text = f"received without {word}, a change of which then makes no new run; "
            findings.warn(Problem((*place, "inputs"), f"{text}inputs: [{word}] is expected."))
    if len(inputs) < len(keys.inputs):
        return None
    return Command(
        keys.command,
        keys.env,
        inputs,
        keys.log.given | ({"metrics": keys.metrics} if keys.metrics else {}),
        os.path.abspath(folder),
        keys.resources.threads,
        keys.resources.gpu,
        keys.resources.mem_mb,
        keys.alone,
        keys.resume,
        keys.requires,
    )


def problems(
    findings: Findings, place: Place, keys: CommandKeys, factors: grids.Grid
) -> Iterator[Problem]:
    """Yields the placeholders that there are not, and the factors that none of them uses."""
    known = {*factors.kind.factors, "seed", RUN_DIR, *RESOURCES}
    texts = {("command", index): word for index, word in enumerate(keys.command)}
    texts |= {("env", name): text for name, text in keys.env.items()}
    for at, text in texts.items():
        for name in sorted(placeholders([text]) - known):
            got = f"{{{name}}}" if name else "{"
            expected = "a factor of the experiment, run_dir, threads or gpus in braces, or {{,"
            yield received((*place, *at), got, expected, [f"{{{one}}}" for one in known])
    for index, path in enumerate(keys.requires):
        for name in sorted(placeholders([path]) - (known - {RUN_DIR})):
            expected = "a factor of the experiment in braces"
            yield received((*place, "requires", index), f"{{{name}}}", expected)
    if findings.broken((*place, "command"), (*place, "env")):
        return
    used = placeholders(texts.values())
    homes = {"seed": ("seeds",), **{name: ("set", name) for name in factors.set}}
    homes |= {name: ("cases", at, name) for at, case in enumerate(factors.cases) for name in case}
    homes |= {name: ("vary", name) for name in factors.vary}
    for name in homes.keys() - used:
        text = f"received a factor that the command is not given; {{{name}}} is expected in "
        yield Problem((*place, *homes[name]), f"{text}command or env.")


def runs(findings: Findings, place: Place, made_by: Command, factors: grids.Grid) -> dict[str, Run]:
    """Returns the runs by their names; none where two are the same, or a name is too long."""
    found: dict[str, Run] = {}
    resolved: dict[str, str] = {}
    for _, values, _ in factors.combinations():
        for seed in factors.seeds_of(functools.partial(_name, made_by, values)):
            run = Run(made_by, {**values, "seed": seed})
            try:
                name = run.name
            except ValueError:
                text = "received a run whose name has more than 200 characters; shorter names of "
                findings.report(Problem(place, f"{text}factors, or fewer, are expected."))
                return {}
            first = resolved.setdefault(repr(run.resolved(RUN_DIR)), name)
            if first != name or name in found:
                text = f"received the same command for two runs, {first} and {name}; every run is "
                findings.report(Problem((*place, "command"), f"{text}expected to have its own."))
                return {}
            found[name] = run
    return found


def _name(made_by: Command, values: dict[str, Any], seed: int) -> str | None:
    """Returns the name of a run; None where it is too long."""
    with contextlib.suppress(ValueError):
        return Run(made_by, {**values, "seed": seed}).name
    return None


def planned(made: dict[str, Run], factors: grids.Grid, keys: CommandKeys) -> plan.OwnRuns:
    """Returns what the plan knows of evaluations that only the logs of the runs will have."""
    axes = [name for name in own_columns.AXES if keys.alone or name != "seconds"]
    schedules = [run.factors.get("schedule") for run in made.values()]
    return plan.OwnRuns(
        trainings=len(made),
        seeds=len({run.factors["seed"] for run in made.values()}),
        columns=(
            *(*axes, "epoch", *own_columns.OUTCOMES, *own_columns.MADE_OF),
            *own_columns.of_metrics(keys.metrics),
        ),
        evaluated=True,
        schedule=next((each for each in schedules if each in FALLING), ""),
    )
