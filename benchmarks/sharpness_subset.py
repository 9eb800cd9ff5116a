"""What the subset of the training set does to sharpness.

    python benchmarks/sharpness_subset.py RUN_FOLDER... [--settings sp=full] [--model-file FILE]

RUN_FOLDER is `results/runs/{run}` of a finished run. Prints a Markdown table: the run's
sharpness in both spaces and boxes with the loss over 250, 500, 1000, 2000 and all training
examples (the smaller subsets lie in the larger ones). Nothing is written.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "workflow"))

from batchscope.catalogue import run_names
from batchscope.catalogue.measures import MEASURES
from batchscope.errors import UserError
from batchscope.host import tensorflow_start
from batchscope.measures import sharpness
from batchscope.measures.finished_run import FinishedRun
from batchscope.store import records

EXAMPLES = (250, 500, 1000, 2000, 0)


def rows(folder: Path, given: dict[str, Any], model_file: str | None) -> None:
    """Prints a run's rows, one per subset; subsets as large as the training set once."""
    run = FinishedRun(folder.parent.parent, folder.name, model_file)
    if run.record["status"] != records.FINISHED:
        print(f"{run.name}: {run.record['status']}, left out", file=sys.stderr)
        return
    available = len(run.data.labels("train"))
    for examples in EXAMPLES:
        if examples >= available:
            continue
        settings = {**given, "examples": examples}
        found = sharpness.measure_run(run, settings)
        shown = " | ".join("" if each is None else f"{each:.4g}" for each in found.values.values())
        count = f"all {available}" if examples == 0 else str(examples)
        print(f"| {run.name} | {count} | {found.details['loss']:.4g} | {shown} |", flush=True)


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN_FOLDER")
    parser.add_argument("--settings", default="default", help="of sharpness, as in paths")
    parser.add_argument("--model-file", help="the user's model file, where there is one")
    arguments = parser.parse_args()
    tensorflow_start.start(threads=1)
    given = run_names.parse_settings("sharpness", arguments.settings)
    columns = MEASURES["sharpness"].columns_for(given)
    print("| run | examples | loss | " + " | ".join(columns) + " |")
    print("|---" * (3 + len(columns)) + "|", flush=True)
    try:
        for folder in arguments.runs:
            rows(folder.resolve(), given, arguments.model_file)
    except UserError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
