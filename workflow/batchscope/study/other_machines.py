"""The other machines of a study, whose results are copied beside its own."""

from __future__ import annotations

import os
from pathlib import Path

from batchscope.problems import Findings, Problem, received, unmet
from batchscope.study.document import StudyFile
from batchscope.study.model_files import expanded


def read(document: StudyFile) -> dict[str, tuple[str, str]]:
    """Returns their results folders and what they call themselves, by name."""
    return {
        name: (os.path.normpath(expanded(one.results)), one.machine)
        for name, one in document.machines.items()
    }


def check(findings: Findings, document: StudyFile) -> None:
    """Reports a name or a folder that is this machine's, and warns of one that is not there."""
    for name, one in document.machines.items():
        place, folder = ("machines", name), expanded(one.results)
        if name == document.machine:
            text = "received the name of this machine; a name of its own is expected: "
            findings.report(Problem(place, f"{text}`machine` names this one."))
        if os.path.realpath(folder) == os.path.realpath("results"):
            wanted, why = "a copy of the other's", ", this machine's own"
            findings.report(received((*place, "results"), folder, wanted, why=why))
        elif (why := unmet(Path(folder), Path.is_dir)) == "":
            text = f"received '{folder}', which is not there: nothing of {name} is shown."
            findings.warn(Problem((*place, "results"), text))
        elif why:
            wanted = "a folder that can be read"
            findings.report(received((*place, "results"), folder, wanted, why=why))
