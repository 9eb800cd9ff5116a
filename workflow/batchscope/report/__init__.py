"""The report: tables, figures and records of a study -> one self-contained HTML page.

`report_inputs` reads the inputs, `study_page` puts the page together, and a module per
section turns rows of tables into the values of its template. batchscope.figures draws and
batchscope.analysis computes.
The page's Content-Security-Policy forbids every request.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from batchscope.core import disk
from batchscope.report import report_inputs, study_page

if TYPE_CHECKING:
    from batchscope.study.plan import Study


def write(
    study: Study,
    results: Path | str,
    config_path: Path | str,
    output: Path | str,
    partial: bool = False,
) -> None:
    """Write a study's report, and a text file of the same name with its headline.

    Raises:
        UserError: If a table or a figure is missing and `partial` is False, or one is damaged.
    """
    inputs = report_inputs.read(study, results, config_path, partial)
    html, headline = study_page.build(study, inputs, Path(output).parent)
    disk.write_text(output, html)
    disk.write_text(Path(output).with_suffix(".txt"), headline + "\n")
