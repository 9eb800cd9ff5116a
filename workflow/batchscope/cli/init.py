"""Write a study for a user's data, with a grid from a range test; return a summary.

A new kind of file belongs in `_dataset_definition`.
"""

import os
import re
import shlex
import sys
import textwrap
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from batchscope.cli import range_test, steps, study_check
from batchscope.core import disk, display, project_files
from batchscope.core.errors import ConfigError, UserError
from batchscope.datasets import Dataset
from batchscope.datasets.source import expanded_path
from batchscope.host import memory_limits, requirements
from batchscope.store import paths
from batchscope.study import dataset_definitions, model_files, run_factors, schema_messages, tasks
from batchscope.study.tasks import IMAGES, NETWORKS, ROWS, TOKENS

_SPLIT = {"train": 0.7, "validation": 0.15, "test": 0.15}
_NETWORKS = {IMAGES: "small_cnn", ROWS: "mlp", TOKENS: "tiny_transformer"}
_DEFAULT_OPTIMIZER = "adam"
_MEMORY_SHARE = 0.25  # largest share of the memory per core that a training may use


@dataclass(frozen=True)
class Choices:
    """The options of `init`. None means a default that depends on the data."""

    data: str
    model: str | None
    label: str | None
    task: str | None
    optimizer: str | None
    output: Path | None
    results: Path


def write_study(choices: Choices) -> str:
    """Write a study; return a text about the data, the time, and the command that runs it."""
    from batchscope.report import rendering
    from batchscope.store import status
    from batchscope.study import config

    name = _slug(choices.output or choices.data)
    output = choices.output or Path("studies", f"{name}.yaml")
    if output.exists():
        raise UserError(f"--output: received {output}, which exists; a new file is expected.")
    schema = project_files.WORKFLOW.parent / "docs" / "study.schema.json"
    values = {"data": choices.data, "name": name, "path": shlex.quote(str(output))}
    values["schema"] = os.path.relpath(schema, output.parent)
    try:
        values |= study_check.run_in_fork(_explore, name, choices)
    except (EOFError, TimeoutError):
        file = choices.model or choices.data
        raise UserError(
            f"MODEL: {file} ended the process, or started a non-daemon thread. It must only build "
            "a model."
        ) from None
    for seeds in (range_test.SEEDS, range_test.FIRST_SEEDS):
        disk.write_text(output, rendering.render("new_study.txt.j2", **values, seeds=seeds))
        try:
            study = config.study(output)
        except UserError:
            output.unlink()  # The user can then repeat the command.
            raise
        study_check.note_missing_times(study, choices.results)
        rows = status.rows(study, choices.results)
        seconds = status.wall_seconds(study, rows, requirements.usable_cores())
        if seconds < range_test.LONG_SECONDS:
            break
    values |= {"duration": display.duration(seconds), "runs_made": len(study.runs), "seeds": seeds}
    return rendering.render("init.txt.j2", **values)


def _slug(path: Path | str) -> str:
    slug = re.sub(r"[^a-z0-9]+", "_", Path(path).stem.lower()).strip("_")
    # A name has at most 60 characters.
    return (slug if slug[:1].isalpha() else f"data_{slug}")[:60].rstrip("_")


def _explore(name: str, choices: Choices) -> dict[str, Any]:
    """Prepare the data, run the range test, and return the values for the templates."""
    steps.start_tensorflow({"threads": 1, "device": "cpu"})
    from batchscope.training import models, trials

    is_built_in = choices.data in dataset_definitions.BUILT_IN
    try:
        definition = _dataset_definition(choices.data, choices.label, choices.task)
        data = _prepared_data(name, definition, choices.results)
    except ValidationError as error:
        problems = schema_messages.problems(error, dataset_definitions.Dataset)
        raise ConfigError([f"DATA, {problem.line}" for problem in problems]) from None
    model = _model_values(choices.model, data.model_input.kind)
    if model["model_file"]:
        for note in trials.check_model(model["token"], data.model_input, model["model_file"]):
            print(note, file=sys.stderr)
    network = models.build(model["token"], data.model_input, 0, model["model_file"])
    memory = _MEMORY_SHARE * 1e6 * memory_limits.limit_mb() / requirements.usable_cores()
    optimizer = _optimizer_factors(choices.optimizer, getattr(network, "optimizer", None))
    counts, has_classes = data.record["counts"], bool(data.record["class_counts"])
    return {
        "dataset": choices.data if is_built_in else name,
        "definition": "" if is_built_in else _yaml_section({name: definition}),
        "record": data.record,
        "task": data.task,
        "optimizer": optimizer,
        "margin": range_test.accuracy_margin(counts["test"]) if has_classes else None,
        **model,
        **range_test.explore(data, network, optimizer, memory),
    }


def _optimizer_factors(name: str | None, compiled: Any) -> dict[str, Any]:
    """Return the factors of the optimizer: the named one, the model's compiled one, or Adam."""
    if name or compiled is None:
        return {"optimizer": name or _DEFAULT_OPTIMIZER}
    kind, config = type(compiled).__name__.lower(), compiled.get_config()
    constants = run_factors.DEFAULT_CONSTANTS.get(kind)
    if constants is None:
        name = type(compiled).__name__
        print(f"compile(optimizer={name}(...)): {_DEFAULT_OPTIMIZER} replaces it.")
        return {"optimizer": _DEFAULT_OPTIMIZER}
    defaults = type(compiled)().get_config()
    keys = ("momentum", "nesterov", "weight_decay", *constants)
    changed = {key: config[key] for key in keys if config.get(key) not in (None, defaults.get(key))}
    return {"optimizer": kind, **changed}


def _prepared_data(name: str, definition: dict[str, Any], results: Path) -> Dataset:
    """Return a data set. Prepare it first if necessary, and print warnings."""
    from batchscope import datasets

    token = dataset_definitions.read(definition).token(name)
    if not paths.dataset_record(results, token).exists():
        for warning in datasets.prepare(token, definition, results):
            print(f"Warning: {warning}")
    return datasets.load(results, token)


def _dataset_definition(data: str, label: str | None, task: str | None) -> dict[str, Any]:
    """Return the definition of a data set, which depends on the kind of file at a path."""
    keys = {key: value for key, value in (("label", label), ("task", task)) if value}
    if data in dataset_definitions.BUILT_IN:
        return {**dataset_definitions.BUILT_IN[data].resolved(), **keys}
    path = expanded_path(data)
    if path.is_dir():
        folder = {"source": "image_folder", "path": data, "image_size": 64, **keys}
        parts = dataset_definitions.read(folder).parts()
        split = {part: share for part, share in _SPLIT.items() if part not in parts}
        return {**folder, "split": split} if split else folder
    if path.suffix.lower() == ".npz":
        return {"source": "npz", "path": data, **keys, "split": _SPLIT}
    if path.suffix.lower() in (".csv", ".tsv"):
        return _table_settings({"source": "csv", "path": data, **keys, "split": _SPLIT})
    if path.is_file():
        return {"source": "text", "path": data, **keys}
    built_in = display.listed(dataset_definitions.BUILT_IN, "or")
    raise UserError(
        f"DATA: received {data!r}; a folder of images, a table (.csv), arrays (.npz), a "
        f"text, or {built_in} is expected."
    )


def _table_settings(definition: dict[str, Any]) -> dict[str, Any]:
    """Return the definition of a table with all necessary keys; print the ignored columns."""
    from batchscope.datasets.sources import csv

    path = expanded_path(definition["path"])
    definition = {**definition, **csv.find_dialect(path)}
    source = dataset_definitions.read({**definition, "missing": "median"})
    table = csv.ParsedTable(source, "DATA")
    if table.refused:
        columns = [f"{column} ({reason})" for column, reason in table.refused.items()]
        print(f"Columns of {path} that are not used: {display.listed(columns)}.")
        definition = {**definition, "ignore": [*table.refused]}
    return {**definition, "missing": "median"} if table.rows.isna().any(axis=None) else definition


def _model_values(model: str | None, kind: str) -> dict[str, Any]:
    """Return name, token and file of a model. The default depends on the kind of data."""
    model = model or _NETWORKS.get(kind)
    if model is None:
        kinds = tasks.KINDS[kind]
        raise UserError(f"MODEL: received nothing for {kinds}; a file of your own is expected.")
    if model in NETWORKS:
        return {"model": model, "token": model, "model_file": None, "models": ""}
    if not Path(model).is_file():
        names = display.listed(NETWORKS, "or")
        raise UserError(f"MODEL: received {model!r}; an existing file, or {names}, is expected.")
    name = _slug(model)
    name = f"my_{name}" if name in NETWORKS else name
    try:
        token = model_files.token(name, model)
    except UserError as error:
        raise UserError(f"MODEL: {error}") from None
    section = _yaml_section({name: model})
    return {"model": name, "token": token, "model_file": model, "models": section}


def _yaml_section(section: dict[str, Any]) -> str:
    """Return the text of a section of a study, with each nested map and list on one line."""
    nested = any(isinstance(value, dict) for value in section.values())
    flow = None if nested else False
    text = yaml.safe_dump(section, sort_keys=False, allow_unicode=True, default_flow_style=flow)
    return textwrap.indent(text, "  ")
