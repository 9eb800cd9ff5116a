"""The commands that users type."""

from __future__ import annotations

import os
import sys
import time
from argparse import Namespace
from pathlib import Path

from batchscope import wording
from batchscope.cli import options, step_times
from batchscope.errors import ConfigError
from batchscope.host import absence

_MOST_LOGS = 20  # a screen of them


def init(arguments: Namespace) -> None:
    """Write a study for your data or logs; print a first guess of the batch size, and the time."""
    from batchscope.cli import init as starting

    print(starting.write(arguments))


def plan(arguments: Namespace) -> None:
    """Show what a study would run, what exists, time and disk, and what its own data hold."""
    from batchscope.datasets import descriptions
    from batchscope.store import status

    if arguments.gpus:
        os.environ[absence.VARIABLE] = "true"
    step_times.note(options.study(arguments), arguments.results)
    print(status.main(arguments.config, arguments.scale, arguments.results))
    lines, problems = descriptions.described(options.study(arguments), arguments.results)
    print("\n".join(["", *lines] if lines else []), end="\n" if lines else "", flush=True)
    if problems:
        raise ConfigError(problems)
    if arguments.verify:
        from batchscope.datasets import verification

        print(verification.verify(options.study(arguments), arguments.results))


def watch(arguments: Namespace) -> None:
    """Show what runs, what is left and the best run of the last study; ends with Ctrl-C."""
    from batchscope.store import progress, watch

    clear = "\033[H\033[2J" if sys.stdout.isatty() and not arguments.once else ""
    while True:
        if study := options.last_study(arguments.results):
            text = watch.text(watch.snapshot(study, arguments.results, absence.cores()))
        else:
            text = watch.running_text(progress.running_jobs(arguments.results))
        print(f"{clear}{text}", flush=True)
        if arguments.once:
            return
        time.sleep(arguments.seconds)


def log(arguments: Namespace) -> None:
    """Show logs of the last study, or of another by its name, and by words of a run's name."""
    from batchscope.store import job_logs, paths

    results, names = arguments.results, arguments.names
    folders = [name for name in names if paths.study_folder(results, name).is_dir()]
    study = options.last_study(results, folders)
    words = [name for name in names if name not in folders]
    found = job_logs.find(results, words, job_logs.names(study, results))
    if not words:  # most jobs print nothing
        found = [path for path in found if path.stat().st_size] or found
    if more := len(found[:-_MOST_LOGS]):
        print(f"{wording.count(more, 'older log')} not shown: add words of a run's name.")
    for path in found[-_MOST_LOGS:]:
        print(f"{path}: {job_logs.last_line(path)}")
    if len(found) == 1:
        print(found[0].read_text(encoding="utf-8", errors="replace"), end="")


def advice(arguments: Namespace) -> None:
    """Say which batch sizes to use, from a study's tables."""
    from batchscope.report import decision

    study = options.study(arguments)
    print(decision.text(study, arguments.results, arguments.config, arguments.seeds))


def explain(arguments: Namespace) -> None:
    """Explain a factor, measure, column, figure, or a word of the report such as provisional."""
    from batchscope.cli import reference

    text = reference.one(" ".join(arguments.words)) if arguments.words else reference.whole()
    print(text, end="")


def import_(arguments: Namespace) -> None:
    """Write logs of any kind as the CSV file that `runs:` takes; see docs/own_training.md."""
    from batchscope.external import external_runs
    from batchscope.tables import csv_tables

    keys = options.logs(arguments)
    logged = external_runs.read(keys)
    csv_tables.write(external_runs.as_logged(logged), arguments.output)
    runs, sizes = logged.rows["run"].nunique(), logged.rows["batch_size"].nunique()
    print(
        f"{arguments.output}: {wording.count(runs, 'training')} at {sizes} batch sizes, in "
        f"{wording.count(len(logged.rows), 'row')} ({logged.table.read_as})."
    )
    for note in logged.table.notes:
        print(f"Note: {note}.")


def results(arguments: Namespace) -> None:
    """Write docs/results.md: every document's claims with their verdicts, and a picture each."""
    from batchscope.report import results_page

    output = arguments.output or Path("docs/results.md")
    results_page.write(arguments.results, output, arguments.study)
    print(f"Written: {output}")


def schema(arguments: Namespace) -> None:
    """Print the JSON schema of a study, for editors."""
    from batchscope.study import editor_schema

    print(editor_schema.text(), end="")


_LOGS = ("--columns", "--factors", "--lines", "--pattern", "--examples-per-epoch", "--rows")
# Command -> its options, in the order of the help.
OPTIONS = {
    init: ("data", "model", "--label", "--task", "--optimizer", "--output", "--results"),
    plan: ("--results", "--scale", "config", "--gpus", "--verify"),
    watch: ("--results", "--once", "--seconds"),
    log: ("names", "--results"),
    advice: ("--results", "--scale", "config", "--seeds"),
    explain: ("words",),
    import_: ("files", "--output", *_LOGS),
    results: ("--results", "--output", "--study"),
    schema: (),
}
OPTIONAL_OUTPUT = (init, results)
