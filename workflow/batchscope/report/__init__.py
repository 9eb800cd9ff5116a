"""The report: tables, figures and records of a study -> one self-contained HTML page.

No figure is drawn here and no statistic computed: batchscope.figures and batchscope.analysis do.

`content` reads what lies on disk, and `study_page` turns it into a page. Figures stand in it as SVG
whose ids are theirs alone; only what draws is kept of them: nothing in one can run or fetch.
The page's own Content-Security-Policy forbids every request.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from batchscope import disk
from batchscope.report import content, study_page

if TYPE_CHECKING:
    from batchscope.study.plan import Study


def write(
    study: Study,
    results: Path | str,
    config_path: Path | str,
    output: Path | str,
    partial: bool = False,
) -> None:
    """Writes a study's report, and its headline into a text file beside it.

    Raises:
        UserError: If a table or a figure is missing and `partial` is False, or one is damaged.
    """
    inputs = content.read(study, results, config_path, partial)
    disk.write_text(output, study_page.build(study, inputs, Path(output).parent))
    disk.write_text(Path(output).with_suffix(".txt"), study_page.headline(study, inputs) + "\n")
