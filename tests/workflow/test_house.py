"""The house rules: imports point downward, pins agree, nothing heavy where it must be light."""

import ast
import functools
import importlib
import json
import pkgutil
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

from batchscope import PACKAGES
from batchscope.core import project_files
from batchscope.study.registry import MEASURES, TIMINGS
from project import ROOT, start

LIBRARY = ROOT / "workflow" / "batchscope"

HEAVY = {
    *("tensorflow", "keras", "numpy", "pandas", "scipy", "matplotlib", "sklearn", "jinja2"),
    *("torch", "mxnet", "jax"),
}


@functools.cache
def nodes(path: Path) -> list[ast.AST]:
    return list(ast.walk(ast.parse(path.read_text())))


def imported(statements: list[ast.AST]) -> set[str]:
    """Return the modules that statements import."""
    names = set()
    for node in statements:
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module == "batchscope":
            names |= {f"batchscope.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module)
    return names


def type_checking_only(path: Path) -> set[str]:
    conditions = [node for node in nodes(path) if isinstance(node, ast.If)]
    guards = [node for node in conditions if "TYPE_CHECKING" in ast.dump(node.test)]
    return imported([inner for node in guards for inner in ast.walk(node)])


def test_every_module_is_in_a_package():
    assert [path.name for path in LIBRARY.glob("*.py")] == ["__init__.py"]
    assert {path.parent.name for path in LIBRARY.glob("*/__init__.py")} == {*PACKAGES}


@pytest.mark.parametrize("package", PACKAGES)
def test_imports_point_downward(package):
    order = list(PACKAGES)
    allowed = {*order[: order.index(package) + 1]}
    for path in sorted((LIBRARY / package).rglob("*.py")):
        names = imported(nodes(path))
        for name in names:
            if name.startswith("batchscope."):
                assert name.split(".")[1] in allowed, f"{path.name} imports {name}"
            assert not name.startswith("snakemake"), f"{path.name} imports {name}"
        used = {name.split(".")[0] for name in names - type_checking_only(path)}
        assert used & HEAVY <= {*PACKAGES[package]}, path.name
    assert [*(ROOT / "tests" / package).glob("test_*.py")]


def test_no_class_name_occurs_twice():
    paths: dict[str, list[str]] = {}
    for path in sorted((ROOT / "workflow").rglob("*.py")):
        for node in nodes(path):
            if isinstance(node, ast.ClassDef):
                paths.setdefault(node.name, []).append(str(path.relative_to(ROOT)))
    assert {name: homes for name, homes in paths.items() if len(homes) > 1} == {}


def locked(name: str) -> set[str]:
    """Return the pins of a lock file."""
    return set(re.findall(r"^[a-z0-9.-]+==[^\s;\\]+", (ROOT / name).read_text(), re.M))


def project_pins() -> tuple[set[str], set[str]]:
    """Return the pins of the package, and the additional ones of its development."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    return {*project["project"]["dependencies"]}, {*project["dependency-groups"]["dev"]}


def test_the_project_pins_what_the_lock_holds():
    pins, dev_pins = project_pins()
    assert pins <= locked("requirements.lock") <= locked("requirements-dev.lock")
    assert dev_pins <= locked("requirements-dev.lock")


def test_conda_twins_never_drift_from_the_lock():
    # They start jobs; no job imports them.
    starters = {"snakemake", "snakemake-executor-plugin-slurm", "snakemake-logger-plugin-rich"}
    imported_by_jobs = {pin for pin in project_pins()[0] if pin.split("==")[0] not in starters}
    files = sorted((ROOT / "envs").glob("*.yaml"))
    assert files
    for path in files:
        pins = {pin.replace("=", "==") for pin in yaml.safe_load(path.read_text())["dependencies"]}
        pins = {pin.replace("matplotlib-base", "matplotlib") for pin in pins}
        assert imported_by_jobs <= pins, path.name
        others = pins - locked("requirements.lock")
        assert all(pin.startswith("python==") for pin in others), path.name


def test_the_container_has_the_versions_of_the_lock():
    text = (ROOT / "Containerfile").read_text()
    arguments = dict(re.findall(r"^ARG (\w+)=(\S+)$", text, re.M))
    assert f"tensorflow=={arguments['TENSORFLOW']}" in locked("requirements.lock")
    assert arguments["VARIANT"] == "cpu"
    conda = yaml.safe_load((ROOT / "envs" / "batchscope.yaml").read_text())
    assert f"python={arguments['PYTHON']}" in conda["dependencies"]
    copied = re.findall(r"^COPY (\S+) ", text, re.M)
    assert (ROOT / ".dockerignore").read_text().split() == ["*", *(f"!{name}" for name in copied)]
    assert all((ROOT / name).is_file() for name in copied)


def test_every_costly_rule_carries_its_version_and_no_code():
    from batchscope.study.registry import VERSIONS

    for step, version in VERSIONS.items():
        assert re.fullmatch(rf"{step}-v\d+", version)
    rules = "".join(path.read_text() for path in (ROOT / "workflow" / "rules").glob("*.smk"))
    steps = ("prepare_data", "train", "run_command")
    assert {*VERSIONS} == {*steps, *MEASURES, *TIMINGS}
    for step in steps:
        body = re.search(rf"^rule {step}:\n((?:    .*\n|\n)+)", rules, re.M)[1]
        assert f'VERSIONS["{step}"]' in body and ":q}" in body
    for entries in ("MEASURES", "TIMINGS"):
        loop = rf"^for ENTRY in {entries}.values\(\):\n((?:    .*\n|\n)+)"
        body = re.search(loop, rules, re.M)[1]
        for part in ("log:", "conda:", "params:\n            ENTRY.version,", "ENTRY.name))"):
            assert part in body
    assert "retries:" not in rules  # the profile's reach a cluster better
    assert "workflow/batchscope" not in rules
    assert not re.search(r"^\s+run:", rules, re.M)


OWN = re.compile(r"batchscope(\.|$)")


def test_cheap_rules_depend_on_all_code_that_they_run():
    """The files that a rule names are at least those that Python imports."""
    modules = {name: sys.modules.pop(name) for name in [*sys.modules] if OWN.match(name)}
    try:
        for package in ("tables", "figures", "report"):  # each names the files of those before it
            root = importlib.import_module(f"batchscope.{package}")
            for module in pkgutil.walk_packages(root.__path__, f"{root.__name__}."):
                importlib.import_module(module.name)
            loaded = [sys.modules[name] for name in sys.modules if name.startswith("batchscope.")]
            used = {Path(module.__file__) for module in loaded}
            code = {Path(path).resolve() for path in project_files.code_files(package)}
            assert used <= code
            assert len(used) > 10 and len(code) < len(list(LIBRARY.rglob("*.py")))
    finally:
        for name in filter(OWN.match, [*sys.modules]):
            del sys.modules[name]
        sys.modules.update(modules)


def test_nothing_unsafe_is_read():
    banned = r"import pickle|yaml\.load\(|allow_pickle=True|extractall\(|\|\s*safe\b"
    files = [*(ROOT / "workflow").rglob("*.py"), *(ROOT / "workflow" / "templates").iterdir()]
    assert len(files) > 30
    assert [path for path in files if re.search(banned, path.read_text())] == []


@pytest.mark.parametrize(
    "command",
    [
        ["ruff", "check", "."],
        ["ruff", "format", "--check", "."],
        ["snakefmt", "--check", "Snakefile", "workflow/rules"],
    ],
    ids=lambda command: " ".join(command[:2]),
)
def test_format(command):
    tool = Path(sys.executable).parent / command[0]
    done = subprocess.run([tool, *command[1:]], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_only_decide_starts_snakemake():
    paths = [path for path in LIBRARY.rglob("*.py") if '"-m", "snakemake"' in path.read_text()]
    assert [path.relative_to(LIBRARY).as_posix() for path in paths] == ["cli/entry.py"]


FRAMEWORKS = {"tensorflow", "keras"}
TABLES = FRAMEWORKS | {"matplotlib"}
READING = TABLES | {"pandas", "scipy", "sklearn", "jinja2", "snakemake", "torch", "mxnet", "jax"}
# Name -> what is done, and the packages that it may not import.
THINGS = {
    "the registry of figures": (
        "from batchscope import figures; from batchscope.study import figure_checks;"
        "figure_checks.default_figures(['evaluate']); "
        "figures.FIGURES['time'].caption",
        {"pandas", "matplotlib", "scipy"},
    ),
    "specifications, explain and the schema": (
        "from batchscope.study import registry; from batchscope.cli import reference;"
        "reference.full_page(); from batchscope.study import study_file;"
        "study_file.json_schema_text()",
        READING,
    ),
    "reading a study": (
        "from batchscope.cli import plan; plan.study('config.yaml', 'full', 'results')",
        READING,
    ),
    # NumPy comes with the paths of the records; it is a tenth of a second.
    "the Snakefile": (
        "from batchscope.rules import inputs, study; study.study_of_call(['config.yaml'], {})",
        READING | {"PIL"},
    ),
    **{
        f"measure {name}": (f"import batchscope.measures.{name}", FRAMEWORKS)
        for name, entry in MEASURES.items()
        if not entry.data
    },
    "sampling": ("from batchscope.timing import samples", FRAMEWORKS),
    "tables": ("from batchscope.tables import run_table", TABLES),
    "the report": ("import batchscope.report", TABLES | {"sklearn", "scipy.stats"}),
    "a figure": (
        "from batchscope.figures.kinds import heat_map",
        FRAMEWORKS | {"sklearn", "scipy.stats"},
    ),
}
CODE = """
import json, sys
for code in sys.stdin:
    exec(json.loads(code))
    print(json.dumps(sorted(sys.modules)), flush=True)
"""


@pytest.fixture(scope="module")
def loaded_modules() -> dict[str, list[str]]:
    """Name -> the modules that are imported once it is done."""
    texts = "".join(f"{json.dumps(code)}\n" for code, _ in THINGS.values())
    output, _ = start("-c", CODE).communicate(texts)
    return dict(zip(THINGS, map(json.loads, output.splitlines()), strict=True))


@pytest.mark.parametrize("name", THINGS)
def test_it_imports_no_more_than_it_needs(loaded_modules, name):
    assert not THINGS[name][1].intersection(loaded_modules[name])
