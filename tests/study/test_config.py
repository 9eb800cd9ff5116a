"""Reading a study's file: what is refused, at which place, and the models behind it."""

import copy
import json
import random
import re
import shutil
from pathlib import Path

import pytest

from batchscope.catalogue import run_factors
from batchscope.catalogue.registry import MEASURES, OF_TRAININGS
from batchscope.errors import ConfigError, UserError
from batchscope.study import config, planner
from costs import first

ROOT = Path(__file__).resolve().parents[2]
CORPUS = ROOT / "tests" / "bad_configs"
BAD = sorted(path.stem for path in CORPUS.glob("*.yaml"))


def parsed(line: str) -> str:
    """Returns place, received value and nearest fix of a message, without its other words."""
    place, _, text = line.partition(": ")
    got = re.match(r"missing|unknown [\w ]+(?=\.)|[^;]*", text)[0]
    fix = re.search(r"Did you mean (['`].+?['`])[?,]", text)
    return f"{place}: {got}" + (f" -> {fix[1]}" if fix else "")


@pytest.mark.parametrize("name", BAD)
def test_bad_config(name, tmp_path, monkeypatch):
    """NAME.txt holds place, received value and nearest fix of every problem.

    `# scale: reduced` in line 1 asks for the small form.
    """
    for file in (f"{name}.yaml", "tiny_model.py", "empty_model.py"):
        shutil.copy(CORPUS / file, tmp_path)
    # Written here: a formatter would choke on it in the repository.
    (tmp_path / "broken_model.py").write_text("def build(input_shape, classes):\n    return (\n")
    monkeypatch.chdir(tmp_path)
    scale = "reduced" if Path(f"{name}.yaml").read_bytes().startswith(b"# scale: r") else "full"
    with pytest.raises(UserError) as raised:
        config.study(f"{name}.yaml", scale)
    lines = str(raised.value).splitlines()
    assert [parsed(line) for line in lines] == (CORPUS / f"{name}.txt").read_text().splitlines()
    for line in lines:
        assert "expected" in line or ": unknown " in line
        assert len(line) < 560


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("missing.yaml", "received no such file"),
        ("", "received a folder"),
        ("file/config.yaml", "Not a directory; a file that begins with"),
    ],
)
def test_what_is_no_file(tmp_path, name, message):
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match=message):
        config.read(tmp_path / name)


@pytest.fixture
def written(tmp_path):
    """Writes a text as a configuration."""

    def write(text, encoding="utf-8"):
        path = tmp_path / "config.yaml"
        path.write_text(text, encoding=encoding)
        return path

    return write


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: [" + 250_000 * "1," + "]", "a file of more than 500000 bytes"),
        ("a: [" + 20_000 * "1," + "]", ":1:40003: received more than 20000 values"),
        ("a: &a [" + 200 * "1," + "]\nb: [" + 100 * "*a," + "]", ":1:4: received more than 20000"),
    ],
)
def test_a_file_with_more_than_a_study_has_use_for(text, message, written):
    with pytest.raises(UserError, match=message):
        config.read(written(text))


def test_a_word_stands_for_a_list_of_it(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = """
        study: words
        defaults: {dataset: digits, model: small_cnn, optimizer: sgd, learning_rate: 1, epochs: 2}
        experiments:
          speed: {vary: {batch_size: [8]}, timing: %s}
          gap:
            vary: {batch_size: [8]}
            seeds: 1
            measure: %s
            figures: %s
            margins: {test_accuracy: 0.01}
            beside: %s
    """
    found = []
    for shape in ("%s", "[%s]"):
        words = ("throughput", "evaluate", "accuracy", "speed")
        Path("config.yaml").write_text(text % tuple(shape % word for word in words))
        found.append(config.study("config.yaml"))
    assert found[0] == found[1]
    gap, speed = found[0].experiments["gap"], found[0].experiments["speed"]
    assert (list(gap.measures), gap.figures) == (["evaluate"], ("accuracy",))
    assert gap.keys.beside == ("speed",)
    assert list(speed.timings) == ["throughput"]


def test_every_alias_is_answered_with_the_factor_or_setting():
    every = {("defaults",): {**run_factors.FACTORS, **run_factors.SWEEP_FACTORS}}
    for measure, entry in {**MEASURES, **OF_TRAININGS}.items():
        every["experiments", "a", "measure", measure] = entry.parameters
    asked = 0
    for place, known in every.items():
        for name, parameter in known.items():
            if parameter.alias not in known and name not in ("seed", "epoch", "repeats"):
                broken = copy.deepcopy(FULL)
                broken["experiments"]["a"]["measure"] = {}
                _at(broken, place[:-1])[place[-1]] = {parameter.alias: 1}
                with pytest.raises(ConfigError) as raised:
                    planner.make(broken)
                fixes = [parsed(line).partition(" -> ")[2] for line in raised.value.problems]
                assert f"'{name}'" in fixes, (place, name)
                asked += 1
    assert asked > 50


def test_a_home_is_found_in_every_path(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    shutil.copy(CORPUS / "tiny_model.py", tmp_path / "net.py")
    (tmp_path / "theirs").mkdir()
    (tmp_path / "own.npz").touch()
    raw = copy.deepcopy(FULL)
    raw["models"]["net"] = "~/net.py"
    raw["machines"] = {"other": {"results": "~/theirs"}}
    raw["datasets"]["own"] = {"source": "npz", "path": "~/own.npz"}
    study = planner.make(raw)
    assert list(study.models.values()) == [str(tmp_path / "net.py")]
    assert study.machines == {"other": (str(tmp_path / "theirs"), "local")}
    assert not [line for line in study.warnings if "seeds" not in line]


def test_default_study_is_the_fixed_one():
    study = config.study(ROOT / "config.yaml")
    assert (study.name, study.machine, len(study.runs)) == ("default", "local", 144)
    decided, minimum = study.experiments.values()
    for experiment in study.experiments.values():
        assert experiment.seeds == (0, 1, 2, 3, 4, 5)
    assert set(minimum.trainings.runs) < set(decided.trainings.runs)  # costs measures alone
    assert list(decided.trainings.measures) == ["time_epoch"]
    measured = ["evaluate", "sharpness", "weight_distance", "noise_scale"]
    assert list(minimum.trainings.measures) == measured
    runs = [*study.runs.values()]
    assert {(run["model"], run["optimizer"]) for run in runs} == {("small_cnn", "sgd")}
    assert all(run["dataset"].startswith("digits-") and run["evaluate_every"] for run in runs)
    # The rate is chosen at every batch size, with one rate on either side.
    rates = {size: set() for size in (8, 16, 32, 64, 128, 256)}
    for run in runs:
        rates[run["batch_size"]].add(run["learning_rate"])
    assert len({frozenset(tried) for tried in rates.values()}) == 1
    assert min(len(tried) for tried in rates.values()) >= 3
    assert not study.warnings


def test_text_that_spells_a_number_is_one(written):
    path = written(
        """
study: s
max_runs: 1e2
datasets:
  tiny: {source: digits, split: {train: 0.5, validation: 0.2, test: 0.2}}
  words: {source: text, split: {train: 0.8, validation: 0.05, test: 0.05}}
defaults:
  {dataset: tiny, model: small_cnn, optimizer: sgd, learning_rate: 1e-3, epochs: "3"}
experiments:
  a:
    vary: {batch_size: [1e1, "20"], momentum: [9e-1, .5]}
    seeds: ["7"]
    measure: {sharpness: {epsilons: [1e-3, 5e-4], examples: 1e2}}
    seeds_planned: 1e1
    advice: {slower: 2e-1}
reduced: {experiments: {a: {seeds_planned: "2"}}}
"""
    )
    study = config.study(path)
    asked = study.experiments["a"].trainings
    assert (asked.seeds_planned, type(asked.seeds_planned), asked.slower) == (10, int, 0.2)
    assert config.study(path, "reduced").experiments["a"].keys.seeds_planned == 2
    assert list(study.runs)[0].endswith("+bs=10+lr=0.001+opt=sgd+ep=3+seed=7+mom=0.9")
    assert study.experiments["a"].measures["sharpness"]["epsilons"] == (1e-3, 5e-4)
    (definition,) = study.datasets.values()
    assert definition["split"] == {"train": 0.5, "validation": 0.2, "test": 0.2, "seed": 0}


@pytest.mark.parametrize(
    ("text", "value"),
    [("0", 0), ("-0", 0), ("0.5", 0.5), ("010.5", 10.5), ("1_000", 1000), ("0x10", 16)]
    + [("0b10", 2), ("'010'", "010"), ("10:99", "10:99"), ("1e-3", "1e-3")],
)
def test_a_number_that_can_be_taken_in_one_way(text, value, written):
    assert config.read(written(f"a: {text}")) == {"a": value}


@pytest.mark.parametrize(
    ("text", "taken", "meant"),
    [("010", 8, "10"), ("-017", -15, "-17"), ("+0_1_6", 14, "16"), ("00", 0, "0"), ("0_", 0, "0")],
)
def test_a_number_of_another_base(text, taken, meant, written):
    path = written(f"a:\n  - {text}")
    with pytest.raises(UserError) as raised:
        config.read(path)
    got = f"{path}:2:5: received '{text}', which YAML takes for {taken}"
    assert str(raised.value).startswith(f"{got}; {meant}")


@pytest.mark.parametrize(
    "number", ["9" * 310, "0" + "7" * 5000, "0x" + "f" * 5000, 99 * "1:" + "1"]
)
def test_a_number_of_more_digits_than_any_has(number, written):
    with pytest.raises(UserError) as raised:
        config.read(written(f"a: {number}"))
    assert f":1:4: received '{number[:57]}...'; " in str(raised.value)


@pytest.mark.parametrize(
    ("text", "got"),
    [
        ("!!int", "an empty text"),
        ('!!float ""', "an empty text"),
        ("!!bool maybe", "'maybe'"),
        ("!!timestamp soon", "'soon'"),
        ("!!int 0x", "'0x' (invalid literal for int() with base 16: '')"),
    ],
)
def test_a_scalar_that_is_not_what_its_tag_says(text, got, written):
    path = written(f"a: {text}\n")
    with pytest.raises(UserError) as raised:
        config.read(path)
    assert str(raised.value).startswith(f"{path}:1:4: received {got}; ")


@pytest.mark.parametrize("text", ["!!map [1]", "!!map ab", "!!set [1]"])
def test_what_is_no_map_and_is_called_one(text, written):
    with pytest.raises(UserError, match="expected a mapping node, but found s.*is expected"):
        config.read(written(f"a: {text}"))


def test_a_merge_is_no_duplicate_key(written):
    path = written("a: &a {x: 1, y: 2}\nb: {<<: *a, x: 3}\n")
    assert config.read(path)["b"] == {"x": 3, "y": 2}


def test_byte_order_mark(written):
    assert config.read(written("study: s\n", encoding="utf-8-sig")) == {"study": "s"}


def _places(node, place=()):
    yield place
    if isinstance(node, dict | list):
        for key, item in node.items() if isinstance(node, dict) else enumerate(node):
            yield from _places(item, (*place, key))


def _at(node, place):
    for key in place:
        node = node[key]
    return node


FULL = {
    "study": "s",
    "datasets": {
        "mine": {
            "source": "cats_vs_dogs",
            "image_size": 32,
            "per_class": 50,
            "split": {"train": 0.6, "validation": 0.2, "test": 0.2},
        }
    },
    "models": {"net": "small_cnn"},
    "defaults": {"dataset": "mine", "model": "net", "optimizer": "sgd", "epochs": 2},
    "experiments": {
        "a": {
            "set": {"learning_rate": 0.1},
            "vary": {"batch_size": [4, 8]},
            "cases": [{"momentum": 0.9}, {"momentum": 0.5, "nesterov": True}],
            "seeds": [1, 2],
            "measure": ["evaluate", {"sharpness": {"epsilons": [0.001], "examples": "all"}}],
        }
    },
    "claims": [
        {
            **{"id": name, "document": "D", "place": "P", "sentence": "S", "figure": "accuracy"},
            "test": {"experiment": "a", "column": "test_accuracy", **test},
        }
        for name, test in {
            "c": {
                "type": "comparison",
                "of": {"batch_size": 4},
                "to": {"batch_size": 8},
                "above": 0,
            },
            "o": {"type": "order", "order": [{"batch_size": 4}, {"batch_size": 8}]},
            "m": {"type": "argmax", "is": [4], "best": "lowest", "over": "batch_size"},
        }.items()
    ],
    "reduced": {
        "defaults": {"epochs": 1},
        "datasets": {"mine": {"per_class": 20}},
        "experiments": {"a": {"seeds": 1, "cases": None}},
    },
}
JUNK = (None, True, -1, 0, 3.5, float("nan"), 10**310, "", "x", "1e-3", [], [None], {}, {"x": 1})


@pytest.mark.parametrize("scale", ["full", pytest.param("reduced", marks=pytest.mark.slow)])
@pytest.mark.parametrize("junk", first(JUNK), ids=repr)
def test_junk_anywhere_ends_in_a_message(junk, scale, tmp_path, monkeypatch):
    """Each node in turn becomes junk; whatever is not taken is refused in our words."""
    monkeypatch.chdir(tmp_path)
    assert len(planner.make(FULL, scale).runs) == (8 if scale == "full" else 2)
    for place in list(_places(FULL))[1:]:
        broken = copy.deepcopy(FULL)
        _at(broken, place[:-1])[place[-1]] = copy.deepcopy(junk)
        _check(monkeypatch, broken, scale)
        broken = copy.deepcopy(FULL)
        if isinstance(_at(broken, place), dict):
            _at(broken, place)["extra"] = junk
            _check(monkeypatch, broken, scale)
        parent = _at(broken, place[:-1])
        del parent[place[-1]]
        if junk is None:
            _check(monkeypatch, broken, scale)


def _check(monkeypatch, broken, scale):
    monkeypatch.setattr(config, "read", lambda path: broken)
    try:
        config.study("x", scale)
    except ConfigError as error:
        assert error.problems
        for line in error.problems:
            assert "\n" not in line and ": " in line


def test_two_faults_at_once_are_two_lines(monkeypatch):
    random.seed(1)
    faults = [
        (("study",), "A B"),
        (("defaults", "epochs"), 0),
        (("experiments", "a", "seeds"), []),
        (("experiments", "a", "measure"), ["nothing"]),
        (("datasets", "mine", "split", "test"), 0.9),
        (("reduced", "experiments", "a", "seeds"), -1),
    ]
    for count in range(2, len(faults) + 1):
        broken = copy.deepcopy(FULL)
        for place, value in random.sample(faults, count):
            _at(broken, place[:-1])[place[-1]] = value
        monkeypatch.setattr(config, "read", lambda path, broken=broken: broken)
        with pytest.raises(ConfigError) as raised:
            config.study("x")
        assert len(raised.value.problems) == count


def test_overrides_are_read():
    loaded = {"study": "s"}
    assert config.check_overrides(dict(loaded), loaded) == config.OVERRIDES
    given = {**loaded, "scale": "reduced", "partial": "true", "runs_per_job": "4"}
    read = {"scale": "reduced", "partial": True, "runs_per_job": 4}
    assert config.check_overrides(given, loaded) == read


def test_a_study_in_json_is_the_same_to_snakemakes_reader(written):
    text = '{"study": "s", "a": [{"rate": 1e-05, "last": 1E400}, NaN], "b": {"c": "1e3"}}'
    loaded = config.read(written(text))
    assert loaded["a"][0]["rate"] == "1e-05"  # as YAML 1.1 has it
    assert config.check_overrides(json.loads(text), loaded)["scale"] == "full"
    with pytest.raises(ConfigError, match="--config a: received another value than the file's"):
        config.check_overrides(json.loads(text.replace("1e-05", "1e-04")), loaded)


@pytest.mark.parametrize(
    ("given", "lines"),
    [
        ({"study": "s", "sclae": "reduced"}, ["--config sclae: unknown key -> 'scale'"]),
        ({"study": "t"}, ["--config study: received another value than the file's"]),
        (
            {"study": "s", "scale": "small", "partial": 1, "runs_per_job": 0},
            [
                "--config scale: received 'small'",
                "--config partial: received 1",
                "--config runs_per_job: received 0",
            ],
        ),
    ],
)
def test_other_overrides_are_refused(given, lines):
    with pytest.raises(ConfigError) as raised:
        config.check_overrides(given, {"study": "s"})
    assert [parsed(line) for line in raised.value.problems] == lines


def test_flags_of_the_command_line_are_text():
    flags = {True: True, False: False, "true": True, "false": False, "False": False}
    assert {value: config.parse_flag(value) for value in flags} == flags
    for value in ("yes", "", 1, None):
        with pytest.raises(ValueError):
            config.parse_flag(value)
