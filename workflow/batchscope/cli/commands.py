"""The commands that users type."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from argparse import Namespace

from batchscope import wording
from batchscope.cli import options, step_times
from batchscope.errors import ConfigError, UserError
from batchscope.host import absence
from batchscope.problems import received


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
    if arguments.submit_cost:
        from batchscope.store import submit_cost

        study = options.study(arguments)
        left = status.overview(study, arguments.results)
        print(submit_cost.cost(study, arguments.results, left).line)
    lines, problems = descriptions.described(options.study(arguments), arguments.results)
    print("\n".join(["", *lines] if lines else []), end="\n" if lines else "", flush=True)
    if problems:
        raise ConfigError(problems)
    if arguments.verify:
        from batchscope.datasets import verification

        print(verification.verify(options.study(arguments), arguments.results))


def watch(arguments: Namespace) -> None:
    """Show how far the running trainings are; ends with Ctrl-C."""
    from batchscope.store import progress

    clear = "\033[H\033[2J" if sys.stdout.isatty() and not arguments.once else ""
    with contextlib.suppress(KeyboardInterrupt):
        while True:
            print(f"{clear}{progress.overview(arguments.results)}", flush=True)
            if arguments.once:
                return
            time.sleep(arguments.seconds)


def log(arguments: Namespace) -> None:
    """Show the logs of a run, of its measures and its bundle, by words of its name."""
    from batchscope.store import job_logs

    found = job_logs.find(arguments.results, arguments.names)
    for path in found:
        print(f"{path}: {job_logs.last_line(path)}")
    if len(found) == 1:
        print(found[0].read_text(encoding="utf-8", errors="replace"), end="")


def advice(arguments: Namespace) -> None:
    """Say which batch sizes to use, from a study's tables."""
    from batchscope.report import decision

    study = options.study(arguments)
    print(decision.text(study, arguments.results, arguments.config, arguments.seeds))


def explain(arguments: Namespace) -> None:
    """Print what a factor, measure, column or figure is."""
    from batchscope.catalogue import reference

    text = reference.one(arguments.name) if arguments.name else reference.whole()
    print(text, end="")


def import_(arguments: Namespace) -> None:
    """Write logs of any kind as the CSV file that `runs:` takes; see docs/own_training.md."""
    from batchscope import logs
    from batchscope.logs.files import escaped
    from batchscope.study import external_runs
    from batchscope.tables import csv_tables, external_tables

    columns = [tuple(each.split("=", 1)) for each in arguments.columns]
    if wrong := [each for each in columns if len(each) != 2 or not all(each)]:
        raise UserError(received(("--columns",), wrong[0][0], "such as batch_size=bs").line)
    given = [escaped(each) if os.path.exists(each) else each for each in arguments.files]
    more = (tuple(columns), arguments.examples_per_epoch, arguments.pattern)
    found = external_runs.read(logs.Source(tuple(given), arguments.format, *more))
    csv_tables.write(external_tables.as_logged(found), arguments.output)
    runs, sizes = found.rows["run"].nunique(), found.rows["batch_size"].nunique()
    print(
        f"{arguments.output}: {wording.count(runs, 'training')} at {sizes} batch sizes, in "
        f"{wording.count(len(found.rows), 'row')} ({found.cells.read_as})."
    )
    for note in found.notes:
        print(f"Note: {note}.")


def critical_batch_size(arguments: Namespace) -> None:
    """Fit the critical batch size to a table of external runs; see docs/own_training.md."""
    from batchscope.report import external_runs

    found = external_runs.read(arguments.file, arguments.target, arguments.step_seconds)
    print(external_runs.text(found, arguments.base))
    if arguments.output:
        written = external_runs.write(found, arguments.output)
        print(f"\nWritten: {', '.join(map(str, written))}")


def merge(arguments: Namespace) -> None:
    """Copy what is missing here of another machine's results, after checks of versions and data."""
    from batchscope.store import merging

    found = merging.merge(arguments.folder, arguments.results)
    counts = (wording.count(count, kind) for kind, count in found.copied.items())
    print(f"Copied from {arguments.folder}: {', '.join(counts)}.")
    for path, reason in found.passed_over:
        print(f"Passed over: {path}: {reason}.")


def results(arguments: Namespace) -> None:
    """Write what became of every document, a page each, and their index."""
    from batchscope.report import results_index
    from batchscope.report.results_page import Chosen

    figures = [Chosen.of(text) for text in arguments.figures]
    results_index.write(arguments.results, arguments.output, arguments.study, figures)
    print(f"Written: {arguments.output}")


def ledger(arguments: Namespace) -> None:
    """Write the verdicts on every study's documents: one page."""
    from batchscope.report import claim_rows

    output = arguments.output or arguments.results / "ledger.html"
    claim_rows.write_ledger(arguments.results, output)
    print(f"Written: {output}")


def schema(arguments: Namespace) -> None:
    """Print the JSON schema of a study, for editors."""
    from batchscope.study import editor_schema

    print(editor_schema.text(), end="")


# Command -> its options, in the order of the help.
OPTIONS = {
    init: ("data", "model", "--label", "--task", "--optimizer", "--output", "--results"),
    plan: ("--results", "--scale", "config", "--gpus", "--verify", "--submit-cost"),
    watch: ("--results", "--once", "--seconds"),
    log: ("names", "--results"),
    advice: ("--results", "--scale", "config", "--seeds"),
    explain: ("name",),
    import_: ("files", "--output", "--columns", "--examples-per-epoch", "--pattern", "--format"),
    critical_batch_size: ("file", "--target", "--step-seconds", "--base", "--output"),
    merge: ("folder", "--results"),
    results: ("--results", "--output", "--study", "--figures"),
    ledger: ("--results", "--output"),
    schema: (),
}
OPTIONAL_OUTPUT = (critical_batch_size, init, ledger)
