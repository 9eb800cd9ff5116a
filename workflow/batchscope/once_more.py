"""What a command of Snakemake leaves of a study, and the same command once more, which makes it.

Snakemake looks at no job behind a data set that it makes anew, for runs take it whatever its age:
where they are missing, it ends as if they were there. Tables follow what bundles made, and these
may have left some. And a look may have given more seeds: then there is a new stage of the study.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Collection, Sequence
from pathlib import Path

from batchscope.host import supervisor
from batchscope.snakefile import Jobs, missing
from batchscope.store import paths

SECOND = "BATCHSCOPE_ONCE_MORE"  # in the environment of a command that makes what is left


def go_on(study: Jobs, made: Sequence[str], rules: Collection[str]) -> None:
    """Makes what a command has left until nothing is; ends the process where that fails.

    Args:
        study: As it was before the command.
        made: Files that the command was to make.
        rules: Whose jobs it was to run; with `all` it was to make the whole study.
    """
    before, now = study, study.planned_anew()
    while left := _left(now, made, rules, before):
        if os.environ.get(SECOND):
            if _stage(now) != _stage(study):
                return  # the command that this one is of goes on
            sys.exit(f"Not made, though no job failed: {', '.join(left)}.")
        command = [sys.executable, "-m", "snakemake", *sys.argv[1:], "--nolock"]
        environment = {**os.environ, SECOND: "true"}
        # Ctrl-C reaches the child too. This process would kill it; it waits for its end instead.
        stop = signal.signal(signal.SIGINT, lambda signum, frame: None)
        done = subprocess.run(
            command, env=environment, preexec_fn=supervisor.set_parent_death_signal
        )
        signal.signal(signal.SIGINT, stop)
        if done.returncode:
            sys.exit(done.returncode)
        before, now = now, study.planned_anew()
        if _stage(now) == _stage(before):
            return


def _stage(study: Jobs) -> tuple[int, int, frozenset[str]]:
    return study.look, len(study.study.runs) + len(study.study.commands), study.bundles.files


def _left(study: Jobs, made: Sequence[str], rules: Collection[str], before: Jobs) -> list[str]:
    """Returns what a command was to make and has not made.

    Args:
        before: The study as it was before the last command.
    """
    bundled = {path for path in made if Path(path).name == paths.BUNDLE_MADE}
    files = [path for path in made if path not in bundled]
    if "all" in rules:
        # What is there may be older than what bundles made again.
        tables = [study.report] if before.bundles else []
        return [*tables, *missing([*files, *study.targets()]), *sorted(study.damaged())]
    if "bundle" in rules:  # of `runs`, or of a file behind some
        files += study.bundles.trained if bundled else study.bundles.made
    return missing(files)
