"""One more measure, with a table and a figure, is one new file.

`weight_norm` of docs/extend.md, a kind of figure and the timing `timed_steps` are added to a copy
of the project: one new file each, and no other file changes.
"""

import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import project
from batchscope.tables import csv_tables

PAGE = (project.ROOT / "docs" / "extend.md").read_text(encoding="utf-8")
(MEASURE,) = re.findall(r"^```python\n(.*?)^```$", PAGE, re.M | re.S)
# A second figure, of a new kind.
POINTS = """    figures=(
        Figure(
            "weight_norm_points",
            "Norm of the weights, run by run",
            "Weights",
            "A point per run.",
            kind="points",
            panels=(Panel("weight_norm", "Norm", "‖w‖"),),
            columns=("run",),
        ),
"""
FIGURE = '''"""A point per run."""

from __future__ import annotations

import pandas
from matplotlib.figure import Figure

from batchscope.study import specifications
from batchscope.figures import canvas


def draw(frame: pandas.DataFrame, spec: specifications.Figure) -> Figure:
    """Return the figure."""
    assert frame["run"].nunique() == len(frame)
    figure, (axes,) = canvas.panels(1)
    axes.plot(frame["batch_size"], frame[spec.panels[0].column], "o")
    return figure
'''
TIMING = '''"""Images of a step."""

from batchscope.study.specifications import Column, Timing
from batchscope.timing import Timed

ENTRY = Timing(
    version="timed_steps-v1",
    columns={"step_images": Column("Images of a step.", "images")},
    trains=True,
)


def measure(job, settings) -> Timed:
    return Timed("finished", {}, {"step_images": job.factors["batch_size"]})
'''
FILES = {
    "measures/weight_norm.py": MEASURE.replace("    figures=(\n", POINTS),
    "figures/kinds/points.py": FIGURE,
    "timing/timed_steps.py": TIMING,
}

CAPTION = "Norm of the trained weights."


def study(**settings) -> dict:
    return {
        "study": "norms",
        "defaults": {**project.TINY["defaults"], "epochs": 1},
        "experiments": {
            "norms": {
                "question": "How large are the weights?",
                "vary": {"batch_size": [256, 512]},
                "seeds": 1,
                "measure": {"weight_norm": settings, "timed_steps": None},
            }
        },
        "claims": [
            {
                **{"id": table, "document": "A", "place": "Page 1", "sentence": "It falls."},
                "test": {"type": "trend", "experiment": "norms", "table": table}
                | {"column": column, "direction": "falls"},
            }
            for table, column in (("runs", "weight_norm"), ("norms", "norm"))
        ],
    }


@pytest.fixture(scope="module")
def copied(tmp_path_factory) -> Path:
    folder = project.copy(tmp_path_factory.mktemp("project"))
    for name, text in FILES.items():
        path = folder / "workflow" / "batchscope" / name
        assert not path.exists()
        path.write_text(text)
    project.write_config(folder, study())
    return folder


COMMANDS = {
    "measure": ["explain", "weight_norm"],
    "figure": ["explain", "weight_norm_points"],
    "measure_step": ["weight_norm", "--help"],
    "timing_step": ["timed_steps", "--help"],
    "schema": ["schema"],
}
PROGRAM = """
import contextlib, io, json, sys
sys.path.insert(0, "workflow")
from batchscope.cli import entry

printed = {}
for name, words in json.load(sys.stdin).items():
    output = io.StringIO()
    with contextlib.redirect_stdout(output), contextlib.suppress(SystemExit):
        entry.main(words)
    printed[name] = output.getvalue()
json.dump(printed, sys.stdout)
"""


def test_it_is_explained_a_step_and_in_the_schema(copied):
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        cwd=copied,
        input=json.dumps(COMMANDS),
        capture_output=True,
        text=True,
        check=True,
    )
    printed = json.loads(done.stdout)
    lines = printed["measure"].splitlines()
    assert lines[:3] == ["### weight_norm", "", "Euclidean norm of the trained weights."]
    assert any(line.startswith("- `power` (`p`, default `2`; ") for line in lines)
    assert lines.count("- `weight_norm`: Norm of the weights.") == 1
    assert lines[-3:] == ["### weight_norm", "", CAPTION]
    assert printed["figure"] == "### weight_norm_points\n\nA point per run.\n"
    assert "--run " in printed["measure_step"] and "--timing " in printed["timing_step"]
    assert all(f'"{name}"' in printed["schema"] for name in ("weight_norm", "power", "timed_steps"))


@pytest.mark.slow
def test_the_workflow_makes_table_and_figures(copied):
    project.run(copied)
    results = copied / "results"
    rows = project.rows(copied, "norms/norms")
    assert len(rows) == 2
    for row in rows:
        with np.load(results / "runs" / row["run"] / "final.npz") as arrays:
            squares = [
                np.square(arrays[name].astype(np.float64)).sum()
                for name in arrays.files
                if name.startswith("trainable:")
            ]
        assert float(row["step_images"]) == float(row["batch_size"])
        assert float(row["weight_norm"]) == pytest.approx(np.sqrt(sum(squares)), rel=1e-12)
    norms = csv_tables.read(results / "studies" / "norms" / "norms" / "norms.csv")
    claims = csv_tables.read(results / "studies" / "norms" / "claims.csv").set_index("id")
    # Each layer is a part; of one seed nothing can be said.
    layers = norms["layer"].nunique()
    assert claims["parts"].to_dict() == {"runs": 1, "norms": layers} and layers > 1
    assert claims.loc["norms", "figure"] == "weight_norm_points"
    figures = results / "studies" / "norms" / "norms" / "figures"
    for name in ("weight_norm", "weight_norm_points"):
        assert {path.suffix for path in figures.glob(f"{name}.*")} == {".svg", ".png", ".csv"}
    assert CAPTION in project.report(copied)
    path = copied / "workflow" / "batchscope" / "measures" / "weight_norm.py"
    path.write_text(path.read_text() + "\n# An edit that changes no number.\n")
    assert not {"train", "weight_norm", "timed_steps"} & {*project.planned(copied)}
