"""Train one run, epoch by epoch, from its last checkpoint to its end. `trainer` writes files.

A new number per epoch is a key of the row in `_end_epoch`.
"""

import bisect
import contextlib
import functools
import math
import shutil
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

import numpy as np
import tensorflow as tf

from batchscope.core.errors import Interrupted
from batchscope.store import jobs, paths, records, weights
from batchscope.store.progress import Reporter
from batchscope.study import batch_phases, incompatible_factors, snapshot_epochs
from batchscope.study.batch_phases import Course
from batchscope.study.registry import VERSIONS
from batchscope.training import checkpoint, inputs, losses, models, optimizers, replicas
from batchscope.training.checkpoint import Progress
from batchscope.training.runs import TrainingRun
from batchscope.training.step_loop import Totals, UpdateSettings, epoch_order

# An evaluation is cheap: it uses at most this number of training examples, the same in all runs.
MAX_EVALUATED_EXAMPLES = 512


@dataclass(frozen=True)
class FitLimits:
    """Limits of calls into the graph. They change no result."""

    chunk_seconds: float = 5.0  # longest call; signals are handled between two calls
    chunk_steps: int | None = None  # largest number of steps in a call; None for no limit
    checkpoint_seconds: float = 30.0  # shortest time between two checkpoints


@dataclass(frozen=True)
class TrainingEnd:
    """The end of a training, for its record."""

    status: str  # one of the statuses in `records`
    reason: str  # the record's `stop_reason`
    message: str  # the reason in words


def evaluation_steps(interval: int, epoch: int, course: Course) -> list[int]:
    """Return the steps of an epoch, counted from 1, after which the run is evaluated.

    They are the first updates at or after k * `interval` examples of the training, k = 1, 2, ...
    An evaluation is late by less than a batch. An interval of 0 has no evaluations.
    """
    if not interval:
        return []
    used = epoch * course.examples + np.array(course.example_positions(epoch), np.int64)
    return (np.flatnonzero(np.diff(used // interval)) + 1).tolist()


def fixed_subset(examples: int) -> np.ndarray:
    """Return the indices of the training examples of an evaluation, ascending."""
    return np.sort(np.random.default_rng(0).permutation(examples)[:MAX_EVALUATED_EXAMPLES])


class Training:
    """A training of a run: its model, optimizer, data and progress; `fit` trains it.

    Its files are in `folder`, or else in the run's folder. `visit` is called after each of the
    `visited_updates`.
    """

    def __init__(
        self, run: TrainingRun, limits: FitLimits = FitLimits(), folder: Path | None = None
    ) -> None:
        self.run, self.limits = run, limits
        self.folder = folder or run.folder
        self.epochs_read = () if folder else jobs.noted_epochs(run.results, run.name)
        factors = self.factors = run.factors
        self.model = run.network()
        self.initial_weights = models.weights(self.model)
        train = run.data.examples("train")
        self.training_set = inputs.extended_examples(factors["augmentation"], train)
        self.examples = len(self.training_set.labels)
        for size in batch_phases.batch_sizes(factors):
            incompatible_factors.check_batch_size(factors, size, self.examples)
        self.course = Course(factors, self.examples)
        self.progress = Progress()
        self.reporter = Reporter(run.results, run.name, factors["epochs"])
        self.stopping = False
        # Number of updates, and the validation metrics after them, as a cache for one update.
        self._validation_metrics: tuple[int, dict[str, float]] = (-1, {})
        self._steps_per_call = 1  # It grows when the seconds of a step are known.
        self.checkpoint_path = self.folder / paths.CHECKPOINT
        self.snapshots_folder = self.folder / "epochs"
        self.visited_updates: tuple[int, ...] = ()
        # Two versions of a library must not share a training.
        libraries = records.package_versions()
        versions = f"{libraries['tensorflow']} {libraries['keras']}"
        self._run_key = f"{run.name} {VERSIONS['train']} {versions}"
        self._checkpoint_time = time.monotonic()

    def _build_graphs(self) -> None:
        """Put the data on the device and build the graphs. This may exceed the memory."""
        factors, data = self.factors, self.run.data
        self.schedule = optimizers.make_schedule(factors, self.course)
        with replicas.scope(factors):
            self.optimizer = optimizers.make_optimizer(factors, self.schedule)
        size, offset = factors["batch_size"], 0
        if self.course.varies:
            size, offset = (tf.Variable(value, False, dtype=tf.int32) for value in (size, offset))
        settings = self.update_settings = UpdateSettings.from_factors(factors, size, offset=offset)
        arguments = self.model, self.optimizer, self.training_set, settings
        self.loop = replicas.make_loop(factors, *arguments, factors["update_norms"])
        self.validation_loss = losses.Objective(self.model, data.examples("validation"))
        if factors["evaluate_every"]:
            train, test = data.examples("train"), data.examples("test")
            subset = fixed_subset(len(train.labels))
            self.subset_loss = self.validation_loss.with_examples(train.rows(subset))
            self.test_loss = self.validation_loss.with_examples(test)
        # `model.variables` includes the generators of dropout. `model.weights` leaves them out.
        variables = self.model.variables, settings.augment.variables if settings.augment else []
        self.variables_without_optimizer = [*variables[0], *variables[1]]
        self.variables = [*variables[0], *self.optimizer.variables, *variables[1]]

    def stop_on_signals(self) -> None:
        """Let SIGTERM and SIGINT stop the training at its next checkpoint."""

        def stop(signum: int, frame: FrameType | None) -> None:
            self.stopping = True

        for signum in (signal.SIGTERM, signal.SIGINT):
            signal.signal(signum, stop)

    def fit(self, epochs: int | None = None) -> TrainingEnd:
        """Train to the end or for some epochs. Continue from a checkpoint if it exists."""
        self._build_graphs()
        self._load_checkpoint()
        end = self._train_epochs(epochs or self.factors["epochs"])
        if end.status == records.FINISHED:
            self._add_to_trajectory()
        return end

    def visit(self) -> None:
        """Hook called after each of the `visited_updates`. It must not change any variable."""

    def _train_epochs(self, epochs: int) -> TrainingEnd:
        while self.progress.epoch < epochs:
            if not self._train_epoch() or not self._end_epoch():
                place = f"epoch {self.progress.epoch + 1}, step {self.progress.step}"
                message = f"The loss was no longer finite at {place}."
                return TrainingEnd(records.DIVERGED, "diverged", message)
            if (loss := self._loss_at_target()) is not None:
                message = f"The training loss is {loss:.6g}."
                return TrainingEnd(records.FINISHED, "train_loss", message)
            epochs_waited = self.progress.epoch - self.progress.best_epoch
            if 0 < self.factors["patience"] <= epochs_waited:
                message = f"No lower validation loss for {epochs_waited} epochs."
                return TrainingEnd(records.FINISHED, "patience", message)
            self._pause()
        return TrainingEnd(records.FINISHED, "epochs", "All epochs were trained.")

    def _loss_at_target(self) -> float | None:
        """Return the training loss without dropout if it has reached its target, else None.

        The epoch's mean loss over its updates must have reached the target too. It is not enough
        alone, because the last update may have moved the weights far.
        """
        target = self.factors["target_train_loss"]
        if not target or self.progress.history[-1]["train_loss"] > target:
            return None
        with self._timed_evaluation():
            loss = self._training_loss.evaluate()[0]
        return loss if loss <= target else None

    @functools.cached_property
    def _training_loss(self) -> losses.Objective:
        return losses.Objective(self.model, self.run.data.examples("train"))

    def _load_checkpoint(self) -> None:
        """Restore variables and progress from the checkpoint, or start at the initial weights."""
        loaded = checkpoint.load(self.checkpoint_path, self._run_key, self.variables)
        if loaded is None:  # Snapshots without their checkpoint are of no use.
            shutil.rmtree(self.snapshots_folder, ignore_errors=True)
            self.progress.epoch_start = self.initial_weights[0]
        else:
            self.progress = loaded
            loaded.resumed += 1

    def load_progress(self) -> None:
        """Load the progress of the checkpoint, without its variables, if it exists."""
        self.progress = checkpoint.load(self.checkpoint_path, self._run_key, []) or self.progress

    def _train_epoch(self) -> bool:
        """Run the remaining steps of an epoch; return whether every loss was finite."""
        progress = self.progress
        order = epoch_order(self.factors["seed"], progress.epoch, self.examples)
        interval, segments = self.factors["evaluate_every"], self.course.segments(progress.epoch)
        evaluated_steps = evaluation_steps(interval, progress.epoch, self.course)
        first_update = self.course.updates(progress.epoch)
        visited_steps = [update - first_update for update in self.visited_updates]
        stops = sorted({*evaluated_steps, *visited_steps})
        while progress.step < segments[-1].stop:
            start = progress.step
            next_stops = stops[bisect.bisect_right(stops, start) :][:1]
            segment = next(segment for segment in segments if start < segment.stop)
            self.update_settings.set_segment(segment)
            stop = min(start + self._steps_per_call, segment.stop, *next_stops)
            totals = Totals(progress.loss, progress.scores)
            progress.step, totals, seconds, norms = self.loop.run(order, start, stop, totals)
            progress.loss, progress.scores = totals
            progress.norms.append(norms)
            progress.epoch_seconds += seconds
            progress.contended_seconds += seconds
            if not math.isfinite(progress.loss):
                return False
            if progress.step in evaluated_steps:
                self._add_to_trajectory()
            if progress.step in visited_steps:
                self.visit()
            # The next call gets half of the limit, because steps take longer when other jobs join.
            steps = int((stop - start) / seconds * self.limits.chunk_seconds / 2)
            self._steps_per_call = max(1, min(steps, self.limits.chunk_steps or steps))
            if progress.step < segments[-1].stop:
                self._pause()
        return True

    def _end_epoch(self) -> bool:
        """Record a completed epoch; return whether weights and losses are finite."""
        progress = self.progress
        trainable, state = models.weights(self.model)
        validation = self._validate()
        numbers = validation["validation_loss"], *trainable.values()
        if not all(np.isfinite(value).all() for value in numbers):
            return False
        steps = self.course.updates(progress.epoch + 1)
        rate = self.schedule(steps - 1) if self.schedule else self.optimizer.learning_rate
        trained = self.loop.scoring.metrics(progress.scores, self.training_set.labels)
        row = {
            "epoch": progress.epoch + 1,
            "step": steps,
            "learning_rate": float(rate.numpy()),  # of the last update
            "train_loss": progress.loss / self.examples,
            **{f"train_{name}": value for name, value in trained.items()},
            **validation,
            "seconds": progress.epoch_seconds,
            "epoch_distance": weights.distance(progress.epoch_start, trainable),
            "weight_distance": weights.distance(self.initial_weights[0], trainable),
        }
        progress.end_epoch(row, trainable)
        best, loss = progress.best_value, row["validation_loss"]
        if loss < best or math.isnan(best):
            progress.best_value, progress.best_epoch = loss, progress.epoch
            progress.best = records.weight_members(trainable, state)
        if progress.epoch in self.delete_unread_snapshots(has_ended=False):
            path = self.snapshots_folder / f"{progress.epoch}.npz"
            records.write_weights(path, trainable, state)
        return True

    def delete_unread_snapshots(self, has_ended: bool) -> set[int]:
        """Delete the snapshots that no measure reads; return the epochs that measures read."""
        epochs = snapshot_epochs.epochs_to_keep(self.epochs_read, self.progress.epoch, has_ended)
        for path in self.snapshots_folder.glob("*.npz"):
            if path.stem.isdigit() and int(path.stem) not in epochs:
                path.unlink()
        return epochs

    @property
    def updates(self) -> int:
        return self.course.updates(self.progress.epoch) + self.progress.step

    @property
    def examples_used(self) -> int:
        return self.progress.epoch * self.examples + self.examples_of_epoch

    @property
    def examples_of_epoch(self) -> int:
        step = self.progress.step  # It is 0 after the last epoch too.
        return self.course.examples_after(self.progress.epoch, step) if step else 0

    def _validate(self) -> dict[str, float]:
        """Return loss and metrics on the validation data. They are computed once per update."""
        if self._validation_metrics[0] != self.updates:
            with self._timed_evaluation():
                metrics = self.validation_loss.evaluate_split("validation")
            self._validation_metrics = (self.updates, metrics)
        return self._validation_metrics[1]

    def _add_to_trajectory(self) -> None:
        """Evaluate the run and add a row for this update, if the run has a trajectory."""
        rows = self.progress.trajectory
        if not self.factors["evaluate_every"] or (rows and rows[-1]["updates"] == self.updates):
            return
        examples = self.examples_used
        with self._timed_evaluation():
            test, train_loss = self.test_loss.evaluate_split("test"), self.subset_loss.evaluate()[0]
        used = {"examples": examples, "updates": self.updates, "epoch": examples / self.examples}
        rows.append({**used, "train_loss": train_loss, **self._validate(), **test})

    @contextlib.contextmanager
    def _timed_evaluation(self) -> Iterator[None]:
        start = time.monotonic()
        yield
        self.progress.evaluation_seconds += time.monotonic() - start

    def _pause(self) -> None:
        """Report the progress, write a due checkpoint, and raise `Interrupted` after a signal."""
        progress = self.progress
        share = self.examples_of_epoch / self.examples
        self.reporter.report(progress.epoch, share, progress.history)
        due = time.monotonic() - self._checkpoint_time >= self.limits.checkpoint_seconds
        if due or self.stopping:
            checkpoint.save(self.checkpoint_path, self._run_key, self.progress, self.variables)
            self._checkpoint_time = time.monotonic()
        if self.stopping:
            raise Interrupted
