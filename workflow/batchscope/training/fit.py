"""One training, epoch by epoch: graphs, progress and its end; `trainer` writes its files."""

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
from batchscope.host import description
from batchscope.store import jobs, paths, records, weights
from batchscope.store.progress import Reporter
from batchscope.study import batch_phases, incompatible_factors, snapshot_epochs, tasks
from batchscope.study.batch_phases import Course
from batchscope.study.versions import VERSIONS
from batchscope.training import (
    augmentations,
    checkpoint,
    losses,
    models,
    optimizers,
    replicas,
    trajectory,
)
from batchscope.training.checkpoint import Progress
from batchscope.training.runs import TrainingRun
from batchscope.training.step_loop import Batches, Totals, epoch_order


@dataclass(frozen=True)
class FitLimits:
    """Limits of calls into the graph, which change no number."""

    chunk_seconds: float = 5.0  # of a call; signals are handled between two calls
    chunk_steps: int | None = None  # largest number of steps in a call; None for no limit
    checkpoint_seconds: float = 30.0  # between two checkpoints


@dataclass(frozen=True)
class End:
    """End of a training."""

    status: str
    reason: str
    message: str  # for people


class Training:
    """Model, optimizer, data and progress of a run, with files in `folder` or in the run's own."""

    def __init__(
        self, run: TrainingRun, limits: FitLimits = FitLimits(), folder: Path | None = None
    ) -> None:
        self.run, self.limits = run, limits
        self.folder = folder or run.folder
        self.read = () if folder else jobs.noted_epochs(run.results, run.name)
        factors = self.factors = run.factors
        self.model = run.network()
        self.initial = models.weights(self.model)
        train = run.data.examples("train")
        self.training_set = augmentations.extended(factors["augmentation"], train)
        self.examples = len(self.training_set.labels)
        for size in batch_phases.batch_sizes(factors):
            incompatible_factors.check_batch_size(factors, size, self.examples)
        self.course = Course(factors, self.examples)
        self.progress = Progress()
        self.reporter = Reporter(run.results, run.name, factors["epochs"])
        self.stopping = False
        self._validated: tuple[int, dict[str, float]] = (-1, {})  # updates, and the metrics then
        self._chunk = 1  # steps per call, until it is known how long they take
        self.checkpoint = self.folder / paths.CHECKPOINT
        self.snapshots = self.folder / "epochs"  # weights after epochs before the last
        self.visits: tuple[int, ...] = ()  # updates after which `visit` is called
        # Two versions of a library must not share a training.
        libraries = description.versions()
        versions = f"{libraries['tensorflow']} {libraries['keras']}"
        self._key = f"{VERSIONS['train']} {run.name} {versions}"
        self._checkpointed = time.monotonic()

    def _place(self) -> None:
        """Put the data on the device and build the graphs, which may exceed the memory."""
        factors, data = self.factors, self.run.data
        self.schedule = optimizers.schedule(factors, self.course)
        with replicas.scope(factors):
            self.optimizer = optimizers.make_optimizer(factors, self.schedule)
        augment = augmentations.layer(factors["augmentation"], factors["seed"])
        size, offset = factors["batch_size"], 0
        if self.course.varies:
            size, offset = (tf.Variable(value, False, dtype=tf.int32) for value in (size, offset))
        self.batches = Batches.from_factors(factors, size, augment, offset=offset)
        arguments = (
            self.model,
            self.optimizer,
            self.training_set,
            self.batches,
            factors["update_norms"],
        )
        self.loop = replicas.make_loop(factors, *arguments)
        evaluated = bool(factors["evaluate_every"])
        validation = data.examples("validation")
        self.validation = losses.Objective(self.model, validation, noinline=evaluated)
        self.evaluate = trajectory.evaluator(self.validation, data) if evaluated else None
        # `model.variables` has the generators of dropout, which `model.weights` leaves out.
        self.variables = [*self.model.variables, *self.optimizer.variables]
        self.variables += augment.variables if augment else []

    def stop_on_signals(self) -> None:
        """Let SIGTERM and SIGINT stop the training at its next checkpoint."""

        def stop(signum: int, frame: FrameType | None) -> None:
            self.stopping = True

        for signum in (signal.SIGTERM, signal.SIGINT):
            signal.signal(signum, stop)

    def fit(self, epochs: int | None = None) -> End:
        """Train to the end, or for some epochs, from the last checkpoint if there is one."""
        self._place()
        self._resume()
        end = self._train_epochs(epochs or self.factors["epochs"])
        if end.status == records.FINISHED:
            self._add_to_trajectory()
        return end

    def visit(self) -> None:
        """Hook called after each update in `visits`. It must not change any variable."""

    def _train_epochs(self, epochs: int) -> End:
        while self.progress.epoch < epochs:
            if not self._train_epoch() or not self._end_epoch():
                place = f"epoch {self.progress.epoch + 1}, step {self.progress.step}"
                message = f"The loss was no longer finite at {place}."
                return End(records.DIVERGED, "diverged", message)
            if (loss := self._target_loss()) is not None:
                return End(records.FINISHED, "train_loss", f"The training loss is {loss:.6g}.")
            waited = self.progress.epoch - self.progress.best_epoch
            if 0 < self.factors["patience"] <= waited:
                message = f"No lower validation loss for {waited} epochs."
                return End(records.FINISHED, "patience", message)
            self._pause()
        return End(records.FINISHED, "epochs", "All epochs were trained.")

    def _target_loss(self) -> float | None:
        """Return the training loss, without dropout, if it is at its target; else None.

        The epoch's mean over its updates must be there too: an update may have thrown the weights
        far from the mean.
        """
        target = self.factors["target_train_loss"]
        if not target or self.progress.history[-1]["train_loss"] > target:
            return None
        with self._evaluating():
            loss = self._training_loss.evaluate()[0]
        return loss if loss <= target else None

    @functools.cached_property
    def _training_loss(self) -> losses.Objective:
        return losses.Objective(self.model, self.run.data.examples("train"))

    def _resume(self) -> None:
        loaded = checkpoint.load(self.checkpoint, self._key, self.variables)
        if loaded is None:  # snapshots without their checkpoint
            shutil.rmtree(self.snapshots, ignore_errors=True)
        else:
            self.progress = loaded
            loaded.resumed += 1
        if not self.progress.epoch_start:
            now = self.initial if self.progress.step else models.weights(self.model)
            self.progress.epoch_start = now[0]

    def resume_progress(self) -> None:
        self.progress = checkpoint.load(self.checkpoint, self._key, []) or self.progress

    def _train_epoch(self) -> bool:
        """Run the rest of an epoch; return whether every loss was finite."""
        progress = self.progress
        order = epoch_order(self.factors["seed"], progress.epoch, self.examples)
        interval, segments = self.factors["evaluate_every"], self.course.segments(progress.epoch)
        due = trajectory.evaluation_steps(interval, progress.epoch, self.course)
        visits = [update - self.course.updates(progress.epoch) for update in self.visits]
        halts = sorted({*due, *visits})
        while progress.step < segments[-1].stop:
            start = progress.step
            coming = halts[bisect.bisect_right(halts, start) :][:1]
            segment = next(segment for segment in segments if start < segment.stop)
            self.batches.follow(segment)
            stop = min(start + self._chunk, segment.stop, *coming)
            totals = Totals(progress.loss, progress.scores)
            progress.step, totals, seconds, norms = self.loop.run(order, start, stop, totals)
            progress.loss, progress.scores = totals
            progress.norms.append(norms)
            progress.epoch_seconds += seconds
            progress.contended_seconds += seconds
            if not math.isfinite(progress.loss):
                return False
            if progress.step in due:
                self._add_to_trajectory()
            if progress.step in visits:
                self.visit()
            # Half of the limit: steps take longer when other jobs join.
            fitting = int((stop - start) / seconds * self.limits.chunk_seconds / 2)
            self._chunk = max(1, min(fitting, self.limits.chunk_steps or fitting))
            if progress.step < segments[-1].stop:
                self._pause()
        return True

    def _end_epoch(self) -> bool:
        """Record a completed epoch; return whether weights and losses are finite."""
        progress = self.progress
        trainable, state = models.weights(self.model)
        validated = self._validate()
        numbers = validated["validation_loss"], *trainable.values()
        if not all(np.isfinite(value).all() for value in numbers):
            return False
        steps = self.course.updates(progress.epoch + 1)
        rate = self.schedule(steps - 1) if self.schedule else self.optimizer.learning_rate
        trained = self.loop.scoring.metrics(progress.scores, self.training_set.labels)
        row = {
            "epoch": progress.epoch + 1,
            "step": steps,
            "learning_rate": float(rate.numpy()),  # that the last update was made with
            "train_loss": progress.loss / self.examples,
            **{f"train_{name}": value for name, value in trained.items()},
            **validated,
            "seconds": progress.epoch_seconds,
            "epoch_distance": weights.distance(progress.epoch_start, trainable),
            "weight_distance": weights.distance(self.initial[0], trainable),
        }
        progress.end_epoch(row, trainable)
        best, loss = progress.best_value, row["validation_loss"]
        if loss < best or math.isnan(best):
            progress.best_value, progress.best_epoch = loss, progress.epoch
            progress.best = records.weight_members(trainable, state)
        if progress.epoch in self.keep_wanted(over=False):
            path = self.snapshots / f"{progress.epoch}.npz"
            records.write_weights(path, trainable, state)
        return True

    def keep_wanted(self, over: bool) -> set[int]:
        """Delete the snapshots that nothing reads; return the epochs that are read."""
        epochs = snapshot_epochs.epochs_to_keep(self.read, self.progress.epoch, over)
        for path in self.snapshots.glob("*.npz"):
            if path.stem.isdigit() and int(path.stem) not in epochs:
                path.unlink()
        return epochs

    @property
    def updates(self) -> int:
        return self.course.updates(self.progress.epoch) + self.progress.step

    @property
    def used(self) -> int:
        step = self.progress.step  # 0 after the last epoch too
        return self.course.used_by(self.progress.epoch, step) if step else 0

    def _validate(self) -> dict[str, float]:
        """Return loss and metrics on the validation data, computed once after an update."""
        if self._validated[0] != self.updates:
            with self._evaluating():
                metrics = trajectory.named("validation", self.validation.evaluate())
            self._validated = (self.updates, metrics)
        return self._validated[1]

    def _add_to_trajectory(self) -> None:
        """Add a row for this update, if the run has a trajectory."""
        progress = self.progress
        rows = progress.trajectory
        if self.evaluate is None or (rows and rows[-1]["updates"] == self.updates):
            return
        examples = progress.epoch * self.examples + self.used
        with self._evaluating():
            metrics = self.evaluate()
        # The row of the history, if this update ends an epoch.
        columns = tasks.columns(self.run.data.task, "validation")
        self._validated = self.updates, {name: metrics[name] for name in columns}
        place = {"updates": self.updates, "epoch": examples / self.examples}
        rows.append({"examples": examples, **place, **metrics})

    @contextlib.contextmanager
    def _evaluating(self) -> Iterator[None]:
        begun = time.monotonic()
        yield
        self.progress.evaluation_seconds += time.monotonic() - begun

    def _pause(self) -> None:
        """Report the progress, write a due checkpoint, and raise `Interrupted` after a signal."""
        progress = self.progress
        self.reporter.report(progress.epoch, self.used / self.examples, progress.history)
        due = time.monotonic() - self._checkpointed >= self.limits.checkpoint_seconds
        if due or self.stopping:
            checkpoint.save(self.checkpoint, self._key, self.progress, self.variables)
            self._checkpointed = time.monotonic()
        if self.stopping:
            raise Interrupted
