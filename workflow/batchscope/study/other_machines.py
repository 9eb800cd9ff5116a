"""The other machines of a study, whose results are copied beside its own."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from batchscope.catalogue.coercion import as_map
from batchscope.problems import Findings, Problem, received, unmet
from batchscope.study.model_files import expanded


def read(config: dict[str, Any]) -> dict[str, tuple[str, str]]:
    """Returns their results folders and what they call themselves, by name."""
    return {
        name: (os.path.normpath(expanded(body["results"])), body.get("machine", "local"))
        for name, body in as_map(config.get("machines")).items()
    }


def check(findings: Findings, config: dict[str, Any]) -> None:
    """Reports a name or a folder that is this machine's, and warns of one that is not there."""
    own = config.get("machine", "local")
    for name, body in as_map(config.get("machines")).items():
        place = ("machines", name)
        if name == own:
            text = "received the name of this machine; a name of its own is expected: "
            findings.report(Problem(place, f"{text}`machine` names this one."))
        folder = expanded(as_map(body).get("results"))
        if not isinstance(folder, str):
            continue
        if os.path.realpath(folder) == os.path.realpath("results"):
            expected, why = "a copy of the other's", ", this machine's own"
            findings.report(received((*place, "results"), folder, expected, why=why))
        elif (why := unmet(Path(folder), Path.is_dir)) == "":
            text = f"received '{folder}', which is not there: nothing of {name} is shown."
            findings.warn(Problem((*place, "results"), text))
        elif why:
            expected = "a folder that can be read"
            findings.report(received((*place, "results"), folder, expected, why=why))
