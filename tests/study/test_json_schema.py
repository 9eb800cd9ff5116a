"""The schema for editors: the file in docs, what is valid in it and what is not."""

import json
import re

import jsonschema
import pytest

from batchscope.study import planner, study_file, yaml_file
from project import ROOT

SCHEMA = ROOT / "docs" / "study.schema.json"
STUDIES = [ROOT / "config.yaml", *sorted(ROOT.glob("studies/*.yaml"))]

STUDY = """
study: written
defaults: {dataset: digits, model: small_cnn, optimizer: sgd, learning_rate: 5e-2, epochs: 2}
experiments:
  trains:
    vary: {batch_size: [16, 32], learning_rate: [1e-3, 0.1]}
    seeds: 6
    measure: [evaluate]
    figures: accuracy
    published: {accuracy: {figure: F, found: It falls.}}
  times:
    set: {dataset: digits}
    vary: {batch_size: [16, 32], threads: [1, all]}
    timing: {throughput: {block_seconds: 5E-1}}
reduced:
  experiments:
    trains: {seeds: [0, 1], figures: null, measure: {sharpness: {epsilons: [1e-3]}}}
"""


@pytest.fixture(scope="module")
def validator() -> jsonschema.Draft202012Validator:
    return jsonschema.Draft202012Validator(study_file.json_schema())


def errors(validator: jsonschema.Draft202012Validator, text: str) -> list[list]:
    return [list(error.absolute_path) for error in validator.iter_errors(yaml_file.parse(text))]


def test_the_file_is_what_the_program_has(validator):
    text = study_file.json_schema_text()
    same = SCHEMA.read_text(encoding="utf-8") == text
    assert same, "Run `python workflow/run.py schema > docs/study.schema.json`."
    validator.check_schema(json.loads(text))


@pytest.mark.parametrize("path", STUDIES, ids=lambda path: path.stem)
def test_every_study_names_it_and_is_valid(validator, path):
    text = path.read_text(encoding="utf-8")
    named = re.match(r"# yaml-language-server: \$schema=(\S+)\n", text)
    assert named and (path.parent / named[1]).resolve() == SCHEMA
    assert not errors(validator, text)


@pytest.mark.parametrize(
    ("right", "wrong", "place"),
    [
        ("seeds: 6", "seed: 6", ["experiments", "trains"]),
        ("learning_rate: [1e-3, 0.1]", "rate: [0.1]", ["experiments", "trains", "vary"]),
        ("5e-2", "fast", ["defaults", "learning_rate"]),
        ("[evaluate]", "[evalute]", ["experiments", "trains", "measure"]),
        ("5E-1", "-1", ["experiments", "times", "timing"]),
        ("timing: {", "measure: {", ["experiments", "times"]),
        ("batch_size: [16, 32]", "batch_size: 16", ["experiments", "trains", "vary", "batch_size"]),
        ("study: written", "study: A study", ["study"]),
    ],
)
def test_a_slip_is_found_where_it_stands(validator, right, wrong, place):
    assert not errors(validator, STUDY) and planner.make(yaml_file.parse(STUDY))
    assert right in STUDY
    found = errors(validator, STUDY.replace(right, wrong, 1))
    assert found and all(one[: len(place)] == place for one in found)
