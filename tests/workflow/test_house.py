"""The house rules: imports point downward, pins agree, nothing heavy where it must be light."""

from __future__ import annotations

import ast
import functools
import importlib
import pkgutil
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

from batchscope import PACKAGES, project_files
from batchscope.study.registry import MEASURES, TIMINGS
from project import locked

ROOT = Path(__file__).resolve().parents[2]
LIBRARY = ROOT / "workflow" / "batchscope"

HEAVY = {
    *("tensorflow", "keras", "numpy", "pandas", "scipy", "matplotlib", "sklearn", "jinja2"),
    *("torch", "mxnet", "jax"),
}


def modules(package: str) -> list[Path]:
    folder = LIBRARY / package
    return sorted(folder.rglob("*.py")) if folder.is_dir() else [LIBRARY / f"{package}.py"]


@functools.cache
def nodes(path: Path) -> list[ast.AST]:
    return list(ast.walk(ast.parse(path.read_text())))


def names(found: list[ast.AST]) -> set[str]:
    """Returns the modules that statements import."""
    modules = set()
    for node in found:
        if isinstance(node, ast.Import):
            modules |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module == "batchscope":
            modules |= {f"batchscope.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            modules.add(node.module)
    return modules


@functools.cache
def imported(path: Path) -> frozenset[str]:
    return frozenset(names(nodes(path)))


def type_checking_only(path: Path) -> set[str]:
    guards = [node for node in nodes(path) if isinstance(node, ast.If)]
    guarded = [node for node in guards if "TYPE_CHECKING" in ast.dump(node.test)]
    return names([inner for node in guarded for inner in ast.walk(node)])


def test_every_module_is_in_a_room():
    found = {path.stem for path in LIBRARY.glob("*.py")} - {"__init__"}
    found |= {path.parent.name for path in LIBRARY.glob("*/__init__.py")}
    assert found == {*PACKAGES}


@pytest.mark.parametrize("package", PACKAGES)
def test_imports_point_downward(package):
    order = list(PACKAGES)
    allowed = {*order[: order.index(package) + 1]}
    for path in modules(package):
        for name in imported(path):
            if name.startswith("batchscope."):
                assert name.split(".")[1] in allowed, f"{path.name} imports {name}"
            assert not name.startswith("snakemake"), f"{path.name} imports {name}"
        used = {name.split(".")[0] for name in imported(path) - type_checking_only(path)}
        assert used & HEAVY <= {*PACKAGES[package]}, path.name


def test_no_class_name_occurs_twice():
    paths: dict[str, list[str]] = {}
    for path in sorted((ROOT / "workflow").rglob("*.py")):
        for node in nodes(path):
            if isinstance(node, ast.ClassDef):
                paths.setdefault(node.name, []).append(str(path.relative_to(ROOT)))
    assert {name: homes for name, homes in paths.items() if len(homes) > 1} == {}


@pytest.mark.parametrize("package", [name for name in PACKAGES if (LIBRARY / name).is_dir()])
def test_every_package_says_what_lives_there_and_tests_mirror_it(package):
    text = ast.get_docstring(ast.parse((LIBRARY / package / "__init__.py").read_text()))
    assert len(re.findall(r"[.:](?=\s|$)", text)) >= 2, package
    assert list((ROOT / "tests" / package).glob("test_*.py")), package


def test_the_project_pins_what_the_lock_holds():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    lock, dev = locked("requirements.lock"), locked("requirements-dev.lock")
    pins = {"": project["project"]["dependencies"], "dev": project["dependency-groups"]["dev"]}
    for group, locked_there in (("", lock), ("dev", dev)):
        assert dict(pin.split("==") for pin in pins[group]).items() <= locked_there.items()
    assert lock.items() <= dev.items()


def test_conda_twins_never_drift_from_the_lock():
    conda_names = {"matplotlib-base": "matplotlib"}
    # What starts the jobs, and no job imports.
    plugins = {"snakemake-executor-plugin-slurm", "snakemake-logger-plugin-rich"}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    dependencies = {pin.split("==")[0] for pin in project["project"]["dependencies"]}
    lock = locked("requirements.lock")
    files = sorted((ROOT / "envs").glob("*.yaml"))
    assert files
    for path in files:
        pins = dict(pin.split("=") for pin in yaml.safe_load(path.read_text())["dependencies"])
        pins = {conda_names.get(name, name): version for name, version in pins.items()}
        del pins["python"]
        assert pins.items() <= lock.items(), path.name
        # Whatever the jobs may import is there.
        assert dependencies - {"snakemake", *plugins} <= pins.keys(), path.name


def test_the_container_has_the_versions_of_the_lock():
    text = (ROOT / "Containerfile").read_text()
    given = dict(re.findall(r"^ARG (\w+)=(\S+)$", text, re.M))
    assert given["TENSORFLOW"] == locked("requirements.lock")["tensorflow"]
    assert given["VARIANT"] == "cpu"
    conda = yaml.safe_load((ROOT / "envs" / "batchscope.yaml").read_text())
    assert f"python={given['PYTHON']}" in conda["dependencies"]
    # What is copied is what the build is given, and no more.
    copied = re.findall(r"^COPY (\S+) ", text, re.M)
    kept = (ROOT / ".dockerignore").read_text().split()
    assert kept == ["*", *(f"!{name}" for name in copied)]
    assert all((ROOT / name).is_file() for name in copied)


def test_every_costly_rule_carries_its_version_and_no_code():
    from batchscope.study.versions import VERSIONS

    for step, version in VERSIONS.items():
        assert re.fullmatch(rf"{step}-v\d+", version)
    rules = "".join(path.read_text() for path in (ROOT / "workflow" / "rules").glob("*.smk"))
    own = {step: f'VERSIONS["{step}"]' for step in ("prepare_data", "train", "run_command")}
    looped = {"MEASURES": "ENTRY.version", "TIMINGS": "ENTRY.version"}
    assert {*VERSIONS} == {*own, *MEASURES, *TIMINGS}
    for step, version in own.items():
        body = re.search(rf"^rule {step}:\n((?:    .*\n|\n)+)", rules, re.M)[1]
        assert version in body and ":q}" in body
    for entries, version in looped.items():
        loop = re.search(rf"^for ENTRY in {entries}.values\(\):\n((?:    .*\n|\n)+)", rules, re.M)[
            1
        ]
        for part in ("log:", "conda:", f"params:\n            {version},", "ENTRY.name))"):
            assert part in loop
    assert "retries:" not in rules  # the profile's reach a cluster better
    assert "workflow/batchscope" not in rules
    assert not re.search(r"^\s+run:", rules, re.M)


CHEAP = ("tables", "figures", "report")
OWN = re.compile(r"batchscope(\.|$)")


def loaded(package: str) -> set[Path]:
    """Returns the library's files that a package imports, anew."""
    known = {name: sys.modules.pop(name) for name in [*sys.modules] if OWN.match(name)}
    try:
        found = importlib.import_module(f"batchscope.{package}")
        for each in pkgutil.walk_packages(found.__path__, f"{found.__name__}."):
            importlib.import_module(each.name)
        own = [module for name, module in sys.modules.items() if name.startswith("batchscope.")]
        return {Path(module.__file__) for module in own}
    finally:
        for name in filter(OWN.match, [*sys.modules]):
            del sys.modules[name]
        sys.modules.update(known)


@pytest.mark.parametrize("package", CHEAP)
def test_cheap_rules_depend_on_all_code_that_they_run(package):
    """Held against what Python imports."""
    found = {Path(path).resolve() for path in project_files.code_of(package)}
    used = loaded(package)
    assert used <= found
    assert len(used) > 10 and len(found) < len(list(LIBRARY.rglob("*.py")))


def test_nothing_unsafe_is_read():
    banned = r"import pickle|yaml\.load\(|allow_pickle=True|extractall\(|\|\s*safe\b"
    files = [*(ROOT / "workflow").rglob("*.py"), *(ROOT / "workflow" / "templates").iterdir()]
    assert len(files) > 30
    for path in files:
        found = re.search(banned, path.read_text())
        assert not found, f"{path.name}: {found[0]}"


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
    assert [path.relative_to(LIBRARY).as_posix() for path in paths] == ["cli/decide.py"]
