"""The one door to every step: arguments, threads, error text; imports the step after that.

Each job of the workflow is one call of this script, and its logged line can be pasted into a
shell to repeat the job by hand. `python workflow/run.py plan` shows what a study would run.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

from batchscope import environments, measure_settings, names, sweeps, warm
from batchscope.errors import UserError

INTERRUPTED = 85  # exit status of a training that was told to stop and wrote its checkpoint


def prepare_data(arguments: argparse.Namespace) -> None:
    from batchscope import datasets

    definition = json.loads(arguments.definition)
    for warning in datasets.prepare(arguments.dataset, definition, arguments.results):
        print(f"Warning: {warning}")


def train(arguments: argparse.Namespace) -> None:
    _start(names.parse_run(arguments.run))
    from batchscope import training

    limits = training.Limits(
        arguments.chunk_seconds, arguments.chunk_steps, arguments.checkpoint_seconds
    )
    try:
        status = training.train(arguments.run, arguments.results, arguments.model_file, limits)
    except training.Interrupted:
        print("Stopped by a signal; goes on from its checkpoint when started again.")
        sys.exit(INTERRUPTED)
    print(f"{arguments.run}: {status}")


def measure(arguments: argparse.Namespace) -> None:
    if arguments.step in NEED_TENSORFLOW:
        factors = names.parse_run(arguments.run)
        # One thread: a sum's order, and so its last bits, must not depend on the machine.
        _start({"threads": 1, "device": factors["device"]})
    from batchscope import measures

    rest = (arguments.settings, arguments.output, arguments.model_file)
    if arguments.step in measure_settings.PAIR_MEASURES:
        module = measures.module(arguments.step)
        module.write(arguments.results, arguments.run, arguments.other, *rest)
    else:
        measures.write(arguments.step, arguments.results, arguments.run, *rest)


def time_epoch(arguments: argparse.Namespace) -> None:
    _start(names.parse_timing(arguments.timing))
    from batchscope.timing import epoch

    epoch.write(
        arguments.results,
        arguments.machine,
        arguments.timing,
        arguments.settings,
        arguments.output,
        arguments.model_file,
    )


def timing(arguments: argparse.Namespace) -> None:
    sweep = sweeps.parse(arguments.sweep)
    framework = sweep.factors["framework"]
    if framework != environments.OWN:
        _hand_over(framework)
    elif arguments.step != "max_batch_size":  # its children start TensorFlow, each for itself
        _start(sweep.factors)
    from batchscope import timing as timings

    timings.write(
        arguments.step,
        arguments.results,
        arguments.machine,
        sweep,
        arguments.settings,
        arguments.output,
        arguments.model_file,
    )


def try_batch(arguments: argparse.Namespace) -> None:
    from batchscope.timing import attempt_child

    factors = sweeps.parse(arguments.sweep).factors
    attempt_child.run(
        arguments.results, factors, arguments.batch_size, arguments.memory_mb, arguments.model_file
    )


def install_framework(arguments: argparse.Namespace) -> None:
    from batchscope import installation

    if arguments.output.resolve() != environments.record(arguments.framework).resolve():
        raise UserError(
            f"--output: received {arguments.output}; {environments.record(arguments.framework)} "
            f"is expected, as {environments.VARIABLE} has it."
        )
    installation.install(arguments.framework)


def tabulate(arguments: argparse.Namespace) -> None:
    from batchscope import config, tables

    study = config.study(arguments.config, arguments.scale)
    tables.write(arguments.results, study, arguments.experiment, arguments.output)


def draw(arguments: argparse.Namespace) -> None:
    from batchscope import config, figures

    study = config.study(arguments.config, arguments.scale)
    experiment = study.experiments[arguments.experiment]
    varied = [factor for factor, values in experiment.vary.items() if len(values) > 1]
    measured = {**experiment.measures, **experiment.timings}
    wanted = experiment.figures or figures.available(
        measured, varied, experiment.at_epochs, experiment.margins
    )
    figures.write(arguments.tables, wanted, arguments.output)


def report(arguments: argparse.Namespace) -> None:
    from batchscope import config, report

    study = config.study(arguments.config, arguments.scale)
    report.write(study, arguments.results, arguments.config, arguments.output, arguments.partial)


def plan(arguments: argparse.Namespace) -> None:
    from batchscope import absence, status

    if arguments.gpus:
        os.environ[absence.VARIABLE] = "true"
    print(status.main(arguments.config, arguments.scale, arguments.results))
    if arguments.verify:
        from batchscope import config, verification

        study = config.study(arguments.config, arguments.scale)
        print(verification.verify(study, arguments.results))


# Measures of runs; times are taken of configurations, by a step of their own.
MEASURES = tuple(name for name in measure_settings.MEASURES if name != "time_epoch")
NEED_TENSORFLOW = tuple(name for name in MEASURES if name not in measure_settings.LIGHT_MEASURES)
WARM = ("train", *NEED_TENSORFLOW)
# Measures and timings -> the option that says what they are of.
OF = {
    **dict.fromkeys(MEASURES, "run"),
    "time_epoch": "timing",
    **dict.fromkeys(measure_settings.TIMINGS, "sweep"),
}


def _start(factors: dict) -> None:
    from batchscope import backend

    backend.start(factors["threads"], factors["device"], factors.get("replicas", 1))


def _hand_over(framework: str) -> None:
    """Goes on with this command in a framework's own environment, unless it runs there."""
    python = environments.python(framework)
    if os.path.realpath(sys.prefix) == os.path.realpath(python.parents[1]):
        return
    if not environments.installed(framework):
        raise UserError(
            f"framework: received {framework!r}, which is not installed; "
            f"{environments.command(framework)} is expected to be run first."
        )
    sys.stdout.flush()
    os.execv(python, [str(python), *sys.argv])


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python workflow/run.py", description=__doc__)
    steps = parser.add_subparsers(dest="step", required=True, metavar="STEP")

    def step(name: str, call: Callable, text: str) -> argparse.ArgumentParser:
        found = steps.add_parser(name, help=text, description=text)
        found.set_defaults(call=call)
        found.add_argument("--results", type=Path, default=Path("results"), help="the results")
        return found

    def study(name: str, call: Callable, text: str) -> argparse.ArgumentParser:
        found = step(name, call, text)
        found.add_argument("--scale", choices=("full", "reduced"), default="full")
        return found

    def experiment(name: str, call: Callable, text: str) -> argparse.ArgumentParser:
        found = study(name, call, text)
        found.add_argument("--config", required=True, help="the configuration file")
        found.add_argument("--output", type=Path, required=True)
        return found

    found = study("plan", plan, "Show what a study would run, what exists, time and disk.")
    found.add_argument("config", nargs="?", default="config.yaml", help="the configuration file")
    found.add_argument("--gpus", action="store_true", help="jobs go where GPUs are: to a cluster")
    found.add_argument("--verify", action="store_true", help="check every recorded SHA-256")
    found = step("prepare_data", prepare_data, "Prepare a data set.")
    found.add_argument("--dataset", required=True, help="its token, name-1f0a93c2")
    found.add_argument("--definition", required=True, help="its definition, as JSON")
    found = step("install_framework", install_framework, "Install a framework beside TensorFlow.")
    found.add_argument("--framework", required=True, choices=tuple(environments.FRAMEWORKS))
    found.add_argument("--output", type=Path, required=True, help="its record")
    found = step("train", train, "Train one run.")
    found.add_argument("--run", required=True)
    found.add_argument("--chunk-seconds", type=float, default=5.0, help="most in one call")
    found.add_argument("--chunk-steps", type=int, help="most steps in one call")
    found.add_argument("--checkpoint-seconds", type=float, default=30.0, help="between two")
    _model_file(found)
    for name in MEASURES:
        whom = "two runs" if name in measure_settings.PAIR_MEASURES else "one run"
        found = step(name, measure, f"Measure {name} of {whom}.")
        found.add_argument("--run", required=True)
        if name in measure_settings.PAIR_MEASURES:
            found.add_argument("--other", required=True, help="the second run")
        _settings(found)
    found = step("time_epoch", time_epoch, "Time the epochs of one configuration.")
    found.add_argument("--machine", default="local")
    found.add_argument("--timing", required=True)
    _settings(found)
    for name in measure_settings.TIMINGS:
        found = step(name, timing, f"Measure {name} of one configuration, alone on the machine.")
        found.add_argument("--machine", default="local")
        found.add_argument("--sweep", required=True, help="what is timed, as in paths")
        _settings(found)
    found = step("try_batch", try_batch, "Try whether one batch fits into memory.")
    found.add_argument("--sweep", required=True, help="the configuration, as in paths")
    found.add_argument("--batch-size", type=int, required=True)
    found.add_argument("--memory-mb", type=float, help="the limit")
    _model_file(found)
    found = experiment("tabulate", tabulate, "Write the tables of one experiment.")
    found.add_argument("--experiment", required=True)
    found = experiment("figures", draw, "Draw the figures of one experiment.")
    found.add_argument("--experiment", required=True)
    found.add_argument("--tables", type=Path, required=True)
    found = experiment("report", report, "Build the report of a study.")
    found.add_argument("--partial", action="store_true", help="from whatever exists")
    return parser


def _settings(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--settings", default="default", help="their name in paths")
    parser.add_argument("--output", type=Path, required=True)
    _model_file(parser)


def _model_file(parser: argparse.ArgumentParser) -> None:
    # The workflow writes the option without a value for a built-in model.
    parser.add_argument("--model-file", nargs="?", help="the user's model file")


def main(words: list[str]) -> None:
    """Runs one step; a problem that the user can mend ends in its message alone."""
    arguments = _parser().parse_args(words)
    started = time.monotonic()
    try:
        arguments.call(arguments)
    except UserError as error:
        sys.exit(str(error))
    if arguments.step in OF:
        from batchscope import estimates

        name = getattr(arguments, OF[arguments.step])
        seconds = time.monotonic() - started
        estimates.note(arguments.results, arguments.step, name, arguments.output, seconds)


def _alone(words: list[str]) -> bool:
    """Whether a step must have a process of its own: what is timed, a GPU, several threads."""
    run = words[words.index("--run") + 1] if "--run" in words[:-1] else ""
    try:
        factors = names.parse_run(run)
    except ValueError:
        return True
    wide = factors["threads"] > 1 or factors["device"] != "cpu"
    return words[0] not in WARM or wide or (words[0] == "train" and factors["replicas"] > 1)


if __name__ == "__main__":
    status = None if _alone(sys.argv[1:]) else warm.ask(sys.argv[1:])
    sys.exit(main(sys.argv[1:]) if status is None else status)
