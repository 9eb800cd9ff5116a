"""Other machines of a study, with copies of their results."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from batchscope.problems import Problem, received, unmet
from batchscope.study.model_files import expanded
from batchscope.study.study_file import StudyFile


def read(
    file: StudyFile, problems: list[Problem], warn: Callable[[Problem], None]
) -> dict[str, tuple[str, str]]:
    """Return the results folders of other machines and their names there, by name.

    Report a name or a folder of this machine; warn of a missing folder.
    """
    machines = {}
    for name, machine in file.machines.items():
        place, folder = ("machines", name), expanded(machine.results)
        machines[name] = (os.path.normpath(folder), machine.machine)
        at = (*place, "results")
        if name == file.machine:
            problems.append(received(place, name, "another name than this machine's `machine`"))
        if os.path.realpath(folder) == os.path.realpath("results"):
            why = ", this machine's own"
            problems.append(received(at, folder, "a copy of the other machine's folder", why=why))
        elif (why := unmet(Path(folder), Path.is_dir)) == "":
            text = f"No such folder (received '{folder}'). The report leaves {name} out."
            warn(Problem(at, text))
        elif why:
            problems.append(received(at, folder, "a folder that can be read", why=why))
    return machines
