"""The study file as a pydantic model, its reduced form, and its JSON schema for editors."""

import copy
import json
import os
from collections.abc import Sequence
from typing import Annotated, Any

from pydantic import AfterValidator, Field, ValidationError

from batchscope.core.problems import Place, Problem, raise_sorted, unknown
from batchscope.study import schema_messages
from batchscope.study.claims import Claim
from batchscope.study.dataset_definitions import Dataset
from batchscope.study.experiments import KINDS, AnyExperiment
from batchscope.study.factor_maps import DefaultFactors
from batchscope.study.model import Count, FilePath, Model, Name, Positive, Text

FULL, REDUCED = "full", "reduced"
MAX_RUNS = 1000


class Machine(Model):
    """Results of another machine."""

    results: Annotated[FilePath, AfterValidator(os.path.expanduser)]
    """Folder of the other machine's results."""
    machine: Name = "local"
    """Name of that machine in its own study file."""


class PublishedExamples(Model):
    """Number of examples of a data set in a document."""

    examples: Annotated[int, Field(ge=1, strict=True)]
    """Examples for training, validation and test together."""
    place: Text
    """Place in the document that states it."""


class Guess(Model):
    """The first guess that `init` made before the study, and the numbers behind it."""

    batch_size: Count
    """Batch size that was guessed from the numbers below."""
    learning_rate: Positive
    """Learning rate at that batch size, by the square-root rule from the range test."""
    largest_batch_size: Count = None
    """Largest batch that fits a quarter of a core's memory."""
    half_throughput: Count = None
    """Smallest batch size with half of the highest throughput."""
    level_throughput: Count = None
    """Smallest batch size with nine tenths of the highest throughput, where it levels off."""
    noise_scale: Annotated[list[Positive], Field(max_length=2)] = []
    """Gradient noise scale after half and after nine tenths of the fall of the validation loss."""


class Reduced(Model):
    """Keys that the smaller form of a study replaces."""

    defaults: DefaultFactors = {}
    datasets: dict[str, dict[str, Any]] = {}
    """Data set -> keys of its definition to replace."""
    experiments: dict[str, dict[str, Any]] = {}
    """Experiment -> keys to replace. A key without a value is removed."""


class StudyFile(Model):
    """A grid of training runs and their measures."""

    study: Name
    """Name of the study; its tables and figures are in results/studies/{study}."""
    title: Text = ""
    """Heading of the report. Default: the study's name."""
    machine: Name = "local"
    """Name of the machine whose times are measured."""
    machines: dict[Name, Machine] = {}
    """Other machines, by name, with a copy of their folder `results` of the same experiments."""
    max_runs: Count = MAX_RUNS
    """Largest number of runs of an experiment, against a mistake in a list."""
    datasets: dict[Name, Dataset] = {}
    """Data sets of this study, by name. `digits`, `mnist`, `breast_cancer`, `wine` and `numpy_docs`
    need no definition.
    """
    models: dict[Name, FilePath] = {}
    """User-defined models, by name: path of a Python file with `build(input_shape, classes) ->
    keras.Model` or a Keras model `model`, or of a `.keras` file, with new initial
    weights. Built-in models need no entry.
    """
    defaults: DefaultFactors = {}
    """Factors of every run, unless an experiment states them."""
    experiments: Annotated[dict[Name, AnyExperiment], Field(min_length=1)]
    """Experiments by name; nothing is inherited between them."""
    claims: Annotated[list[Claim], Field(min_length=1)] = []
    """Checkable sentences of documents, each with its test. claims.csv shows their verdicts."""
    published: dict[Name, PublishedExamples] = {}
    """Data set -> number of its examples in a document. The report shows that number and ours."""
    guess: Guess | None = None
    """First guess of batch size and learning rate, which `init` writes for the report."""
    reduced: Reduced | None = None
    """A smaller form of the study, for `--config scale=reduced`. Its keys replace whole values."""


def read(raw: dict[str, Any], scale: str) -> tuple[StudyFile, dict[str, Any], frozenset[Place]]:
    """Return the model and the content of a study at a scale, and the places that `reduced` states.

    Raises:
        ConfigError: With every structural error of the file; if there is none, with every one of
            its reduced form, if that is read.
    """
    model = _validated(raw)
    if scale == FULL:
        return model, raw, frozenset()
    if model.reduced is None:
        raise_sorted([Problem(("reduced",), "Missing key, which scale=reduced needs.")])
    unknown_names = [
        unknown(("reduced", section, name), noun, raw.get(section, {}))
        for section, noun in (("datasets", "data set"), ("experiments", "experiment"))
        for name in raw["reduced"].get(section, {})
        if name not in raw.get(section, {})
    ]
    content, replaced = reduced_form(raw)
    return _validated(content, replaced, unknown_names), content, replaced


def _validated(
    raw: dict[str, Any], replaced: frozenset[Place] = frozenset(), earlier: Sequence[Problem] = ()
) -> StudyFile:
    """Return the model of a file; raise a `ConfigError` with earlier and with new problems."""
    model, problems = None, list(earlier)
    try:
        model = StudyFile.model_validate(raw)
    except ValidationError as error:
        new_problems = schema_messages.problems(error, StudyFile)
        problems += [moved_to_reduced(problem, replaced) for problem in new_problems]
    raise_sorted(problems)
    return model


def moved_to_reduced(problem: Problem, replaced: frozenset[Place]) -> Problem:
    """Return a problem of the reduced form at its place in the file."""
    place = problem.place
    if any(place[:length] in replaced for length in range(len(place) + 1)):
        return problem._replace(place=("reduced", *place))
    return problem


def reduced_form(raw: dict[str, Any]) -> tuple[dict[str, Any], frozenset[Place]]:
    """Return the content of a study with the keys of `reduced`, and the places of these keys."""
    reduced, content, replaced = raw["reduced"], copy.deepcopy(raw), set()
    content["defaults"] = content.get("defaults", {}) | reduced.get("defaults", {})
    replaced |= {("defaults", name) for name in reduced.get("defaults", {})}
    for section in ("datasets", "experiments"):
        for name in reduced.get(section, {}).keys() & content.get(section, {}).keys():
            keys = reduced[section][name]
            body = {**content[section][name], **keys}
            if section == "experiments":
                body = {key: value for key, value in body.items() if value is not None}
            content[section][name] = body
            replaced |= {(section, name, key) for key in keys}
    return content, frozenset(replaced)


def json_schema() -> dict[str, Any]:
    """Return the JSON schema of a study file. It accepts every file that planning accepts."""
    # The keys of an experiment decide its kind, so that an editor reports the errors of this kind.
    # With pydantic's `oneOf`, it would say only that no kind fits.
    *kinds, (_, last) = KINDS.items()
    experiment = {"$ref": f"#/$defs/{last.__name__}"}
    for key, model in reversed(kinds):
        kind = {"$ref": f"#/$defs/{model.__name__}"}
        experiment = {"if": {"required": [key]}, "then": kind, "else": experiment}
    schema = StudyFile.model_json_schema()
    experiments = schema["properties"]["experiments"]
    experiments["patternProperties"] = dict.fromkeys(experiments["patternProperties"], experiment)
    return schema | {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$comment": "Printed by `python workflow/run.py schema`.",
        "title": "Batchscope study",
    }


def json_schema_text() -> str:
    """Return the JSON schema with a line for each definition."""
    schema = json_schema()
    definitions = schema.pop("$defs").items()
    lines = [json.dumps({name: body}, ensure_ascii=False)[1:-1] for name, body in definitions]
    head = json.dumps(schema, ensure_ascii=False)[:-1]
    return "\n".join([f'{head}, "$defs": {{', ",\n".join(lines), "}}", ""])
