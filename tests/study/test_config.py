"""Reading a study's file: errors of structure and of meaning, and Snakemake's command line."""

import copy
import itertools
import shutil
from pathlib import Path

import pytest
import yaml

import project
import small_study
from batchscope.core.errors import ConfigError, UserError
from batchscope.study import config, planner, yaml_file
from costs import first
from project import ROOT

CORPUS = ROOT / "tests" / "bad_configs"
BAD = sorted(path.stem for path in CORPUS.glob("*.yaml"))


def place_of(line: str) -> str:
    return line.partition(": ")[0]


@pytest.mark.parametrize("name", BAD)
def test_bad_config(name, tmp_path, monkeypatch):
    """NAME.txt holds the place of every problem, the received value and the nearest name.

    `# scale: reduced` in line 1 reads the reduced form.
    """
    for file in (f"{name}.yaml", "tiny_model.py"):
        shutil.copy(CORPUS / file, tmp_path)
    monkeypatch.chdir(tmp_path)
    scale = "reduced" if Path(f"{name}.yaml").read_bytes().startswith(b"# scale: r") else "full"
    with pytest.raises(UserError) as raised:
        config.study(f"{name}.yaml", scale)
    lines = str(raised.value).splitlines()
    expected = [line.split(" | ") for line in (CORPUS / f"{name}.txt").read_text().splitlines()]
    assert [place_of(line) for line in lines] == [place for place, *_ in expected]
    for line, (place, *parts) in zip(lines, expected, strict=True):
        text = line.removeprefix(f"{place}: ")
        assert all(part in text for part in parts), line
        assert len(line) < 560


@pytest.mark.parametrize("name", ["missing.yaml", ""])
def test_no_file(tmp_path, name):
    with pytest.raises(UserError, match=f"^{tmp_path / name}: "):
        yaml_file.read(tmp_path / name)


def written(folder, text):
    path = folder / "config.yaml"
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("text", "value"),
    [("016", 16), (".5", 0.5), ("1e-3", 0.001), ("1e3", 1000), ("1e26", 1e26)]
    + [("-.inf", -float("inf")), ("'1'", "1"), ("0x10", "0x10"), ("1_000", "1_000")]
    + [("10:99", "10:99"), ("yes", "yes"), ("2026-13-45", "2026-13-45"), ("true", True)]
    + [("", None)],
)
def test_scalars_are_those_of_yaml_1_2(text, value, tmp_path):
    read = yaml_file.read(written(tmp_path, f"a: {text}"))["a"]
    assert (read, type(read)) == (value, type(value))


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("a:\n\tb: 2", ":2:1"),
        ("a: a\x07b", ":1:5"),
        ('a: ["\\0"]', ":1:5"),
        ("a: !!python/name:os.system x", ":1:4"),
        ("a: 1\nb: 2\na: 3", ":3:1"),
        ("a: !!int abc", ""),
        ("? [a, b]\n: c", ":1:3"),
        ("a: 1\n---\nb: 2", ":2:1"),
        ("[" * 500, ""),
        ("- a", ""),
        ("", ""),
    ],
)
def test_invalid_yaml_is_one_line_with_its_place(text, place, tmp_path):
    path = written(tmp_path, text)
    with pytest.raises(UserError) as raised:
        yaml_file.read(path)
    (line,) = str(raised.value).splitlines()
    assert line.startswith(f"{path}{place}: ")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a: &a {x: 1, y: 2}\nb: {<<: *a, x: 3}", {"a": {"x": 1, "y": 2}, "b": {"x": 3, "y": 2}}),
        ("a: {b: &b {<<: {1: 1}, 1: 2}}\nc: {<<: *b}", {"a": {"b": {"1": 2}}, "c": {"1": 2}}),
        ("1: {true: a, null: b}", {"1": {"true": "a", "null": "b"}}),
        ("\ufeffstudy: s\n", {"study": "s"}),  # a byte order mark
    ],
)
def test_keys_are_text_and_may_be_merged(text, expected, tmp_path):
    assert yaml_file.read(written(tmp_path, text)) == expected


def test_a_home_is_found_in_every_path(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    shutil.copy(small_study.MODEL_FILE, tmp_path / "net.py")
    (tmp_path / "theirs").mkdir()
    (tmp_path / "own.npz").touch()
    study = planner.make(
        small_study.config(
            models={"net": "~/net.py"},
            machines={"other": {"results": "~/theirs"}},
            datasets={"own": {"source": "npz", "path": "~/own.npz"}},
            defaults={"model": "net"},
            experiment={"seeds": 6},
        )
    )
    assert list(study.models.values()) == [str(tmp_path / "net.py")]
    assert study.machines["other"].results == str(tmp_path / "theirs")
    assert not study.warnings


def test_default_study_is_the_fixed_one():
    study = config.study(ROOT / "config.yaml")
    assert (study.name, study.machine, len(study.runs)) == ("default", "local", 78)
    decided, minimum = study.experiments.values()
    assert decided.race == (3, 6, 9, 13, 19, 28)
    # Seeds that the race gives to every rate cost measures alone.
    shared = {run for run, factors in minimum.runs.items() if factors["seed"] < 3}
    assert shared < set(decided.runs)
    # At least three rates at every batch size.
    pairs = {(run["batch_size"], run["learning_rate"]) for run in study.runs.values()}
    rates = {rate for _, rate in pairs}
    assert pairs == {*itertools.product((8, 16, 32, 64, 128, 256), rates)} and len(rates) >= 3
    assert not study.warnings


def _places(node, place=()):
    yield place
    if isinstance(node, dict | list):
        for key, item in node.items() if isinstance(node, dict) else enumerate(node):
            yield from _places(item, (*place, key))


def _at(node, place):
    for key in place:
        node = node[key]
    return node


CLAIMS = (
    {"type": "comparison", "of": {"batch_size": 4}, "to": {"batch_size": 8}, "above": 0},
    {"type": "order", "order": [{"batch_size": 4}, {"batch_size": 8}]},
    {"type": "argmax", "is": [4], "best": "lowest", "over": "batch_size"},
)
FULL = small_study.config(
    datasets={
        "mine": {
            "source": "cats_vs_dogs",
            "image_size": 32,
            "per_class": 50,
            "split": {"train": 0.6, "validation": 0.2, "test": 0.2},
        }
    },
    models={"net": str(small_study.MODEL_FILE)},
    defaults={"dataset": "mine", "model": "net"},
    experiment={
        "set": {"learning_rate": 0.1},
        "vary": {"batch_size": [4, 8]},
        "cases": [{"momentum": 0.9}, {"momentum": 0.5, "nesterov": True}],
        "seeds": [1, 2],
        "measure": {"evaluate": None, "sharpness": {"epsilons": [0.001], "examples": "all"}},
    },
    claims=[
        {
            **{"id": test["type"], "document": "D", "place": "P", "sentence": "S"},
            **{"figure": "accuracy"},
            "test": {"experiment": "a", "column": "test_accuracy", **test},
        }
        for test in CLAIMS
    ],
    reduced={
        "defaults": {"epochs": 1},
        "datasets": {"mine": {"per_class": 20}},
        "experiments": {"a": {"seeds": 1, "cases": None}},
    },
)
JUNK = (None, True, -1, 0, 3.5, float("nan"), 10**310, "", "x", "1e-3", [], [None], {}, {"x": 1})


@pytest.mark.parametrize("scale", ["full", pytest.param("reduced", marks=pytest.mark.slow)])
@pytest.mark.parametrize("junk", first(JUNK), ids=repr)
def test_junk_anywhere_ends_in_a_message(junk, scale, tmp_path, monkeypatch):
    """Each node in turn becomes junk, gets another key, and is removed."""
    monkeypatch.chdir(tmp_path)
    assert len(planner.make(FULL, scale).runs) == (8 if scale == "full" else 2)
    for place in list(_places(FULL))[1:]:
        broken = copy.deepcopy(FULL)
        _at(broken, place[:-1])[place[-1]] = copy.deepcopy(junk)
        _check(broken, scale)
        broken = copy.deepcopy(FULL)
        if isinstance(_at(broken, place), dict):
            _at(broken, place)["extra"] = junk
            _check(broken, scale)
        parent = _at(broken, place[:-1])
        del parent[place[-1]]
        if junk is None:
            _check(broken, scale)


def _check(broken, scale):
    try:
        planner.make(broken, scale)
    except ConfigError as error:
        assert error.problems
        for line in error.problems:
            assert "\n" not in line and ": " in line


def test_options_are_read_and_others_are_refused():
    assert config.options({}) == config.Options()
    read = config.options({"scale": "reduced", "partial": True})
    assert (read.scale, read.partial) == ("reduced", True)
    for given in ({"sclae": "reduced"}, {"scale": "small", "partial": 7}):
        with pytest.raises(ConfigError) as raised:
            config.options(given)
        assert {*map(place_of, raised.value.problems)} == {f"--config {name}" for name in given}
    with pytest.raises(ConfigError, match="^--config scale: .*'small'"):
        config.study_of_command(["--config", "scale=small"])


TEXT = yaml.safe_dump(project.TINY)
BROKEN = {"colon": b"study tiny\ndefaults:\n  epochs: 2\n", "utf_16": TEXT.encode("utf-16")}


def message(path: Path, kind: str) -> str:
    """Write a broken file, or none; return the message that is expected."""
    path.unlink(missing_ok=True)
    if kind in BROKEN:
        path.write_bytes(BROKEN[kind])
    with pytest.raises(UserError) as raised:
        yaml_file.read(path.name)
    return str(raised.value)


def refused(*words: str) -> str:
    with pytest.raises(SystemExit) as raised:
        config.check_options(words)
    return str(raised.value)


@pytest.fixture(scope="module")
def clone(tmp_path_factory) -> Path:
    folder = project.copy(tmp_path_factory.mktemp("project"))
    project.write_config(folder, project.TINY)
    shutil.copy(folder / "config.yaml", folder / "good.yaml")
    return folder


def error_lines(clone: Path, *arguments: str) -> list[str]:
    """Return the output of a refused dry-run, without Snakemake's line on its profile."""
    done = project.snakemake(clone, "-n", *arguments)
    assert done.returncode != 0
    return [line for line in done.stdout.splitlines() if not line.startswith("Using ")]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "kind"), [("config.yaml", "missing"), ("a.yaml", "utf_16")])
def test_snakemake_prints_only_the_line_of_a_broken_file(clone, monkeypatch, name, kind):
    monkeypatch.chdir(clone)
    expected = message(clone / name, kind)
    try:
        arguments = () if name == "config.yaml" else ("--configfile", name)
        assert error_lines(clone, *arguments) == [expected]
    finally:
        project.write_config(clone, project.TINY)


@pytest.mark.parametrize(
    "words",
    [
        ["-n", "data", "--configfile=a.yaml", "--config", "scale=reduced"],
        ["--configfiles", "a.yaml", "--conda-prefix", "x", "-C", "partial=true"],
        ["--configfile", "a.yaml", "--", "data"],
    ],
)
def test_the_file_of_a_command_line_is_read(tmp_path, monkeypatch, words):
    monkeypatch.chdir(tmp_path)
    Path("a.yaml").write_text(TEXT)
    config.check_options(words)
    expected = message(Path("a.yaml"), "colon")
    assert refused(*words) == expected


@pytest.mark.parametrize("words", ["--configfile a.yaml data", "--configfile a --configfile b"])
def test_two_studies_or_a_target_behind_an_option_are_refused(words):
    line = refused(*words.split())
    assert line.startswith("--configfile: received ") and "snakemake TARGET --configfile " in line


BARS = ("-n", "--workflow-profile x --conda-prefix p -j4 -C partial=true")
EVERY_LINE = ("--profile slurm", "--profile=slurm", "-e slurm", "-np", "-q rules", "--quiet=all")


@pytest.mark.parametrize("words", BARS + EVERY_LINE)
def test_bars_are_not_shown_with_every_line(words, monkeypatch):
    monkeypatch.delenv("SNAKEMAKE_PROFILE", raising=False)
    assert config.wants_every_line(words.split()) == (words in EVERY_LINE)
    monkeypatch.setenv("SNAKEMAKE_PROFILE", "slurm")
    assert config.wants_every_line(words.split())
