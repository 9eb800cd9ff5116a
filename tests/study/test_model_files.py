"""The models that a study may name."""

import re
from pathlib import Path

import pytest

from batchscope.core.errors import UserError
from batchscope.study import model_files, planner
from batchscope.study.tasks import NETWORKS
from small_study import MODEL_FILE, config, forbid

GOLDEN = "mine-fb964a77"  # frozen: it is in the names of everybody's runs


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def problem(path: str) -> str:
    try:
        model_files.token("net", path)
    except UserError as error:
        return str(error)
    return ""


def write(texts: dict[str, str]) -> None:
    for name, text in texts.items():
        Path(name).parent.mkdir(exist_ok=True, parents=True)
        Path(name).write_text(text)


def test_a_user_model_has_the_digest_of_its_file():
    Path("net.py").write_text(MODEL_FILE.read_text())
    raw = config(models={"mine": "net.py"}, defaults={"model": "mine"})
    assert planner.make(raw).models == {GOLDEN: "net.py"}


def test_built_in_models_are_those_of_the_networks_module():
    from batchscope.training import networks

    assert {*networks.BUILDERS} == {*NETWORKS}


@pytest.mark.parametrize("method", ["stat", "read_bytes"])
def test_a_file_that_nobody_may_read(method, monkeypatch):
    Path("net.py").touch()
    forbid(monkeypatch, method)
    assert "Permission denied" in problem("net.py")


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("import beside", r"beside\.py:3: SyntaxError"),
        # Python reports this as memory, as recursion or as syntax.
        ("-" * 100000 + "1", r"net\.py(:\d+)?: (Syntax|Memory|Recursion)Error: "),
    ],
    ids=["an imported module", "nested"],
)
def test_invalid_python_is_refused_at_its_line_before_it_runs(text, place):
    write({"beside.py": "\n\n1 +* 2\n", "net.py": text})
    assert re.match(place, problem("net.py"))


def test_local_modules(tmp_path):
    """Imports anywhere in the file and in the modules; nothing is run."""
    write(
        {
            "net.py": "import keras\nimport a, random\ndef build():\n    from pack import deep\n",
            "a.py": "import b.c as d, net\nraise SystemExit\n",
            "b/c.py": "try:\n    import e\nexcept ImportError:\n    pass\nimport keras.layers",
            "b/unused.py": "",
            "pack/__init__.py": "from . import inner",
            "pack/inner.py": "from .deep import two\nfrom ..a import nothing",
            "pack/deep/__init__.py": "",
            "pack/deep/two.py": "",
            "keras.py": "",
            "random.py": "",
        }
    )
    found = model_files.local_modules(tmp_path / "net.py")
    assert {name: path.relative_to(tmp_path).as_posix() for name, path in found.items()} == {
        "a": "a.py",
        "b.c": "b/c.py",
        "pack": "pack/__init__.py",
        "pack.inner": "pack/inner.py",
        "pack.deep": "pack/deep/__init__.py",
        "pack.deep.two": "pack/deep/two.py",
    }


def test_the_digest_covers_local_modules_and_no_other_file():
    text = MODEL_FILE.read_text()
    write({"models/net.py": text, "models/beside.py": "UNITS = 5\n"})
    digests = [model_files.digest("models/net.py")]
    write({"models/net.py": text + "from beside import UNITS\n"})
    digests.append(model_files.digest("models/net.py"))
    write({"models/beside.py": "UNITS = 6\n", "models/other.py": ""})
    digests.append(model_files.digest("models/net.py"))
    assert len({*digests}) == 3
    Path("models").rename("elsewhere")
    assert model_files.digest("elsewhere/net.py") == digests[-1]


@pytest.mark.parametrize("text", ['__file__[:-6] + "/w.h5"', '"w.h5"', "TWO"])
def test_the_digest_covers_files_that_a_text_of_the_model_file_names(text):
    head = "from beside import TWO\n" if text == "TWO" else ""
    write({"models/net.py": f"{head}x = {text}\n", "models/beside.py": "TWO = 'w.h5', 'models'\n"})
    Path("models/deep").mkdir()
    digests = [model_files.digest("models/net.py")]
    for content in ("1", "2"):
        Path("models/w.h5").write_text(content)
        digests.append(model_files.digest("models/net.py"))
    assert len({*digests}) == 3


def test_files_in_the_working_directory_and_texts_that_name_none():
    """A layer's name may be the name of a file in the folder of Snakemake."""
    names = ["net.py", "beside.py", "", ".", "a\0b", "x" * 5000, "w.h5", "w.h5 ", "rest"]
    write({"net.py": f"import beside\nx = {names!r}\nb = f'{{x}}/w.h5'\n", "beside.py": ""})
    Path("rest").touch()
    assert model_files.named_files("net.py") == {}
    Path("w.h5").touch()
    assert {*model_files.named_files("net.py")} == {"w.h5", "/w.h5"}


def test_a_saved_model_is_read_as_bytes():
    assert problem("net.keras") and model_files.is_saved("net.keras")
    Path("net.keras").write_bytes(b"import \xff")
    assert problem("net.keras") == ""
    first = model_files.digest("net.keras")
    Path("net.keras").write_bytes(b"other")
    assert model_files.digest("net.keras") != first
