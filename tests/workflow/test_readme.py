"""The README says what the code does."""

from __future__ import annotations

import re

import yaml

import readme

TEXT = readme.README.read_text(encoding="utf-8")


def test_tables_are_those_of_the_registries():
    assert readme.written(TEXT) == TEXT, "run python tests/readme.py"


def test_quick_start_holds_two_commands():
    section = TEXT.partition("## Quick start")[2].partition("\n## ")[0]
    commands = re.findall(r"```bash\n(.*?)```", section, re.S)
    assert len(commands) == 2
    assert all(len(command.strip().splitlines()) == 1 for command in commands)


def test_every_key_of_the_schema_is_explained():
    from batchscope.study import config

    schema = config.schema()
    for key in schema["properties"]:
        assert f"`{key}`" in TEXT
    for key in schema["$defs"]["experiment"]["properties"]:
        assert f"`experiments.*.{key}`" in TEXT or f"`{key}`" in TEXT
    for source in ("digits", "mnist", "cats_vs_dogs", "image_folder", "patches", "npz"):
        for key in schema["$defs"][source]["properties"]:
            assert key in TEXT, f"{source}.{key}"


def test_the_example_study_plans(tmp_path):
    from batchscope.study import config

    example = next(
        block for block in re.findall(r"```yaml\n(.*?)```", TEXT, re.S) if "study:" in block
    )
    path = tmp_path / "study.yaml"
    path.write_text(example)
    study = config.study(path)
    assert len(study.experiments) == 2
    assert len(study.runs) == 36


def test_the_example_data_sets_fit_the_schema(tmp_path, monkeypatch):
    from batchscope.study import config

    example = next(
        block for block in re.findall(r"```yaml\n(.*?)```", TEXT, re.S) if "datasets:" in block
    )
    (tmp_path / "data" / "flowers").mkdir(parents=True)
    (tmp_path / "data" / "mnist").mkdir()
    (tmp_path / "data" / "arrays.npz").write_bytes(b"")
    monkeypatch.chdir(tmp_path)
    document = {
        "study": "mine",
        **yaml.safe_load(example),
        "defaults": {"dataset": "mine", "model": "small_cnn", "optimizer": "sgd"},
        "experiments": {
            "one": {
                "set": {"learning_rate": 0.1, "epochs": 1, "batch_size": 8},
                "seeds": 1,
            }
        },
    }
    (tmp_path / "study.yaml").write_text(yaml.safe_dump(document))
    assert len(config.study(tmp_path / "study.yaml").runs) == 1


def test_the_example_model_builds(tmp_path):
    from batchscope.study import model_files
    from batchscope.training import models

    example = next(
        block for block in re.findall(r"```python\n(.*?)```", TEXT, re.S) if "def build" in block
    )
    path = tmp_path / "my_model.py"
    path.write_text(example)
    model = models.build(model_files.token("mine", str(path)), (8, 8, 1), 10, 0, str(path))
    assert model.output_shape == (None, 10)


def test_every_dependency_has_its_reason():
    import tomllib

    project = tomllib.loads((readme.ROOT / "pyproject.toml").read_text())
    table = TEXT.partition("| dependency |")[2]
    for pin in project["project"]["dependencies"]:
        assert pin.split("==")[0] in table
