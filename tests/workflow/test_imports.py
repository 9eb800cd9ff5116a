"""What must start quickly, or where a package is absent, imports no more than it needs.

One process does one thing after the other, from the lightest: what a later one must not import,
no earlier one may.
"""

import json
import os
import subprocess
import sys

import pytest

from batchscope.study.registry import MEASURES
from project import ROOT

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
        "reference.full_page(); from batchscope.study import editor_schema; editor_schema.text()",
        READING,
    ),
    "reading a study": (
        "from batchscope.cli import plan; plan.study('config.yaml', 'full', 'results')",
        READING,
    ),
    # NumPy comes with the paths of the records; it is a tenth of a second.
    "the Snakefile": (
        "from batchscope.rules import study, targets; study.study_of_call(['config.yaml'], {})",
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
def imported() -> dict[str, list[str]]:
    """Name -> the modules that are imported once it is done."""
    done = subprocess.run(
        [sys.executable, "-c", CODE],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT / "workflow")},
        input="".join(f"{json.dumps(code)}\n" for code, _ in THINGS.values()),
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return dict(zip(THINGS, map(json.loads, done.stdout.splitlines()), strict=True))


@pytest.mark.parametrize("name", THINGS)
def test_it_imports_no_more_than_it_needs(imported, name):
    assert not THINGS[name][1].intersection(imported[name])
