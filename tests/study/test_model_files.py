"""The models that a study may name."""

import re
from pathlib import Path

import pytest

from batchscope.study import model_files, planner
from batchscope.study.example_kinds import NETWORKS
from small_study import MODEL_FILE, config, forbid, problems


def test_golden_token():
    """Frozen: it stands in the names of everybody's runs."""
    assert model_files.token("mine", str(MODEL_FILE)) == "mine-fb964a77"


def test_user_model_carries_the_digest_of_its_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("net.py").write_text(MODEL_FILE.read_text())
    raw = config(models={"net": "net.py", "alias": "small_cnn"}, defaults={"model": "net"})
    study = planner.make(raw)
    ((token, path),) = study.models.items()
    assert path == "net.py" and token.startswith("net-")
    Path("net.py").write_text(MODEL_FILE.read_text() + "\n# changed\n")
    assert list(planner.make(raw).models) != [token]
    raw["defaults"]["model"] = "alias"
    assert planner.make(raw).models == {"small_cnn": None}


def test_one_model_under_two_names_is_one_run_twice():
    raw = config(
        models={"alias": "small_cnn"},
        experiment={"vary": {"batch_size": [8], "model": ["small_cnn", "alias"]}},
    )
    (line,) = problems(raw)
    assert line.startswith("experiments.a.vary.model[1]: ") and "(received 'alias')" in line


def test_built_in_models_are_those_of_the_networks_module():
    from batchscope.training import networks

    assert {*networks.BUILDERS} == {*NETWORKS}


@pytest.mark.parametrize("method", ["stat", "read_bytes"])
def test_a_file_that_nobody_may_read(method, tmp_path, monkeypatch):
    (tmp_path / "net.py").touch()
    forbid(monkeypatch, method)
    monkeypatch.chdir(tmp_path)
    found = model_files.problem(("models", "net"), "net.py")
    assert "Permission denied" in found.text


@pytest.mark.parametrize("text", ["-" * 100000 + "1", "a" + ".b" * 100000])
def test_a_file_that_python_gives_up_on(text, tmp_path):
    """Python says so as memory, as recursion or as syntax, by what is nested and its version."""
    path = tmp_path / "net.py"
    path.write_text(text)
    found = model_files.problem(("models", "net"), str(path))
    assert re.search(r"net\.py(:\d+)?: (Syntax|Memory|Recursion)Error: ", found.text)


def test_local_modules(tmp_path):
    """Imports anywhere in the file and in what it imports; nothing is run."""
    for name, text in {
        "net.py": "import keras\nimport a, random\ndef build(s, c):\n    from pack import deep\n",
        "a.py": "import b.c as d, net\nraise SystemExit\n",
        "b/c.py": "try:\n    import e\nexcept ImportError:\n    pass\nimport keras.layers",
        "b/unused.py": "",
        "pack/__init__.py": "from . import inner",
        "pack/inner.py": "from .deep import two\nfrom ..a import nothing",
        "pack/deep/__init__.py": "",
        "pack/deep/two.py": "",
        "keras.py": "",
        "random.py": "",
        "unused.py": "",
        "docs/page.md": "",
    }.items():
        (tmp_path / name).parent.mkdir(exist_ok=True, parents=True)
        (tmp_path / name).write_text(text)
    found = model_files.local_modules(tmp_path / "net.py")
    assert {name: path.relative_to(tmp_path).as_posix() for name, path in found.items()} == {
        "a": "a.py",
        "b.c": "b/c.py",
        "pack": "pack/__init__.py",
        "pack.inner": "pack/inner.py",
        "pack.deep": "pack/deep/__init__.py",
        "pack.deep.two": "pack/deep/two.py",
    }


def test_the_digest_covers_local_modules_and_no_others(tmp_path):
    path, beside = tmp_path / "net.py", tmp_path / "beside.py"
    path.write_bytes(MODEL_FILE.read_bytes())
    beside.write_text("UNITS = 5\n")
    alone = model_files.token("mine", str(path))
    assert alone == "mine-fb964a77"
    path.write_text(path.read_text() + "from beside import UNITS\n")
    first = model_files.token("mine", str(path))
    beside.write_text("UNITS = 6\n")
    second = model_files.token("mine", str(path))
    (tmp_path / "other.py").write_text("")
    assert len({alone, first, second}) == 3
    assert model_files.token("mine", str(path)) == second
    moved = tmp_path / "elsewhere"
    moved.mkdir()
    path.rename(moved / "net.py")
    beside.rename(moved / "beside.py")
    assert model_files.token("mine", str(moved / "net.py")) == second


@pytest.mark.parametrize(
    ("text", "place"),
    [("x = 1\n1 +* 2\n", "net.py:2: SyntaxError"), ("import beside", "beside.py:3: SyntaxError")],
)
def test_invalid_python_is_refused_at_its_line_before_it_runs(text, place, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("beside.py").write_text("\n\n1 +* 2\n")
    Path("net.py").write_text(text)
    assert place in model_files.problem(("models", "net"), "net.py").text


@pytest.mark.parametrize(
    "text",
    ['__file__[:-6] + "/w.h5"', '"w.h5"', '"deep/../w.h5"', "'missing.h5', 'w.h5'", "TWO"],
)
def test_the_digest_covers_files_that_a_text_of_the_model_file_names(text, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path, weights = tmp_path / "models" / "net.py", tmp_path / "models" / "w.h5"
    (path.parent / "deep").mkdir(parents=True)
    (path.parent / "beside.py").write_text("TWO = 'w.h5', 'models'\n")
    head = "from beside import TWO\n" if text == "TWO" else ""
    path.write_text(f"{head}x = {text}\n")
    before = model_files.digest(path)
    weights.write_text("1")
    first = model_files.digest(path)
    weights.write_text("2")
    assert len({before, first, model_files.digest(path)}) == 3


def test_files_in_the_working_directory_and_texts_that_name_none(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "net.py"
    names = ["net.py", "beside.py", "", ".", "a\0b", "x" * 5000, "w.h5", "w.h5 "]
    path.write_text(f"import beside\nx = {names!r}\nb = f'{{x}}/w.h5'\n")
    (tmp_path / "beside.py").write_text("")
    assert model_files.named_files("net.py") == {}
    (tmp_path / "w.h5").touch()
    assert {*model_files.named_files("net.py")} == {"w.h5", "/w.h5"}


def test_a_saved_model_is_read_as_bytes(tmp_path):
    path = tmp_path / "net.keras"
    assert model_files.problem(("models", "net"), str(path))
    path.write_bytes(b"import \xff")
    assert model_files.problem(("models", "net"), str(path)) is None and model_files.is_saved(path)
    first = model_files.token("net", str(path))
    path.write_bytes(b"other")
    assert model_files.token("net", str(path)) != first


def test_a_word_that_is_a_file_by_chance_changes_no_token(tmp_path, monkeypatch):
    """A layer called `rest`, and a file of that name where Snakemake is started."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "net.py").write_text('NAME = "rest"\nWEIGHTS = "w.h5"\n')
    before = model_files.token("net", "net.py")
    (tmp_path / "rest").write_text("anything")
    assert model_files.token("net", "net.py") == before
    (tmp_path / "w.h5").write_bytes(b"weights")
    assert model_files.token("net", "net.py") != before
