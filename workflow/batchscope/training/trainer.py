"""One training run, epoch by epoch: factors in; weights, history and record out.

What it takes up again after a stop lives in `resumption`, what it writes in the end in `run_files`.
"""

from __future__ import annotations

import bisect
import contextlib
import functools
import math
import shutil
import signal
import time
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

import numpy as np
import tensorflow as tf

from batchscope.catalogue import incompatible_factors
from batchscope.catalogue.versions import VERSIONS
from batchscope.errors import Interrupted
from batchscope.host import locks
from batchscope.store import job_files, records
from batchscope.store.progress import Reporter
from batchscope.training import (
    augmentations,
    checkpoint,
    distances,
    losses,
    models,
    optimizers,
    replicas,
    run_files,
    trajectory,
)
from batchscope.training.resumption import Carried, Progress
from batchscope.training.runs import Run
from batchscope.training.step_loop import Batches, Totals, epoch_order, steps_per_epoch
from batchscope.training.update_methods import Method


@dataclass(frozen=True)
class Limits:
    """How a training is cut into calls; none of it changes a number."""

    chunk_seconds: float = 5.0  # of a call into the graph; only between two is a signal handled
    chunk_steps: int | None = None  # the most in one call; None for no such limit
    checkpoint_seconds: float = 30.0  # between two checkpoints


class Training:
    """A run's model, optimizer, data and progress.

    Args:
        folder: Where its files lie, where that is not the run's own folder.

    Raises:
        UserError: If the data are missing, or are fewer than a batch.
    """

    def __init__(self, run: Run, limits: Limits = Limits(), folder: Path | None = None) -> None:
        self.run, self.limits = run, limits
        self.folder = folder or run.folder
        self.read = () if folder else job_files.noted_epochs(run.results, run.name)
        factors = self.factors = run.factors
        self.model = run.network()
        self.initial = models.weights(self.model)
        train = run.data.examples("train")
        self.training_set = augmentations.extended(factors["augmentation"], train)
        self.examples = len(self.training_set.labels)
        incompatible_factors.check_batch_size(factors, factors["batch_size"], self.examples)
        self.steps = steps_per_epoch(self.examples, factors["batch_size"])
        self.progress = Progress()
        self.reporter = Reporter(self.folder, factors["epochs"], self.steps)
        self.carried = Carried(self.initial[0])
        self.stopping = False
        self._validated = (-1, (math.nan, math.nan))  # updates, and loss and accuracy after them
        self._chunk = 1  # steps per call, until it is known how long they take
        self.checkpoint = self.folder / "checkpoint.npz"
        self.epochs = self.folder / "epochs"  # weights after epochs before the last
        self._key = f"{VERSIONS['train']} {run.name}"
        self._checkpointed = time.monotonic()

    def _place(self) -> None:
        """Puts the data on the device and builds the graphs: here memory may be refused."""
        factors, data = self.factors, self.run.data
        self.schedule = optimizers.schedule(factors, self.steps)
        with replicas.scope(factors):
            self.optimizer = optimizers.make_optimizer(factors, self.schedule)
        augment = augmentations.layer(factors["augmentation"], factors["seed"])
        method, piece = Method.of(factors), factors["micro_batch_size"]
        batches = Batches(factors["batch_size"], augment=augment, method=method, piece=piece)
        given = self.model, self.optimizer, self.training_set, batches, factors["update_norms"]
        self.loop = replicas.make_loop(factors, *given)
        evaluated = bool(factors["evaluate_every"])
        validation = data.examples("validation")
        self.validation = losses.Objective(self.model, validation, whole=evaluated)
        self.evaluator = trajectory.Evaluator(self.validation, data) if evaluated else None
        # `model.variables` has the generators of dropout, which `model.weights` leaves out.
        self.variables = [*self.model.variables, *self.optimizer.variables]
        self.variables += augment.variables if augment else []
        self.loop.compile()

    def stop_on_signals(self) -> None:
        """Lets SIGTERM and SIGINT stop the training at its next checkpoint."""
        for signum in (signal.SIGTERM, signal.SIGINT):
            signal.signal(signum, self.stop)

    def stop(self, signum: int, frame: FrameType | None) -> None:
        """Signal handler: stops the training after the current call into the graph."""
        self.stopping = True

    def fit(self, epochs: int | None = None) -> tuple[str, str, str]:
        """Trains to the end, or so many epochs, from the last checkpoint where there is one.

        Returns:
            Status, the reason for the end, and a sentence for people.

        Raises:
            Interrupted: If a signal stopped it; the checkpoint is written.
        """
        self._place()
        self._resume()
        ended = self._train_epochs(epochs or self.factors["epochs"])
        if ended[0] == records.FINISHED:
            self._evaluate()
        return ended

    def _train_epochs(self, epochs: int) -> tuple[str, str, str]:
        """Trains epoch by epoch; returns what `fit` does."""
        while self.progress.epoch < epochs:
            if not self._train_epoch() or not self._end_epoch():
                where = f"epoch {self.progress.epoch + 1}, step {self.progress.step}"
                return records.DIVERGED, "diverged", f"The loss was no longer finite at {where}."
            if (loss := self._target_loss()) is not None:
                return records.FINISHED, "train_loss", f"The training loss is {loss:.6g}."
            waited = self.progress.epoch - self.progress.best_epoch
            if 0 < self.factors["patience"] <= waited:
                sentence = f"No better {self.factors['monitor']} for {waited} epochs."
                return records.FINISHED, "patience", sentence
            self._pause()
        return records.FINISHED, "epochs", "All epochs were trained."

    def _target_loss(self) -> float | None:
        """Returns the training loss, dropout off, where it is at its target; else None.

        The epoch's mean over its updates must be there as well as the weights at its end: an
        update may have thrown these far from the mean.
        """
        target = self.factors["target_train_loss"]
        if not target or self.progress.history[-1]["train_loss"] > target:
            return None
        loss = self._training_loss.loss_and_accuracy()[0]
        return loss if loss <= target else None

    @functools.cached_property
    def _training_loss(self) -> losses.Objective:
        """The loss over the training set as it is; built where a target asks for it."""
        return losses.Objective(self.model, self.run.data.examples("train"))

    def _resume(self) -> None:
        loaded = self.carried.load(self.checkpoint, self._key, self.model, self.variables)
        if loaded is None:  # what an older version left is not this training's
            shutil.rmtree(self.epochs, ignore_errors=True)
        else:
            self.progress = loaded
            self.progress.resumed += 1

    def resume_progress(self) -> None:
        """Takes up how far the last checkpoint came, without its weights."""
        if loaded := checkpoint.load(self.checkpoint, self._key, []):
            self.progress = Progress(**loaded[0])

    def _train_epoch(self) -> bool:
        """Runs the rest of an epoch; returns whether every loss was finite."""
        progress = self.progress
        order = epoch_order(self.factors["seed"], progress.epoch, self.examples)
        every, size = self.factors["evaluate_every"], self.factors["batch_size"]
        due = trajectory.evaluation_steps(every, progress.epoch, self.examples, size)
        while progress.step < self.steps:
            start = progress.step
            coming = due[bisect.bisect_right(due, start) :][:1]
            stop = min(start + self._chunk, self.steps, *coming)
            totals = Totals(progress.loss, progress.hits)
            progress.step, totals, seconds, norms = self.loop.run(order, start, stop, totals)
            progress.loss, progress.hits = totals
            self.carried.norms.append(norms)
            progress.epoch_seconds += seconds
            progress.contended_seconds += seconds
            if not math.isfinite(progress.loss):
                return False
            if [progress.step] == coming:
                self._evaluate()
            # Half of the limit: steps take longer when other jobs join.
            fitting = int((stop - start) / seconds * self.limits.chunk_seconds / 2)
            self._chunk = max(1, min(fitting, self.limits.chunk_steps or fitting))
            if progress.step < self.steps:
                self._pause()
        return True

    def _end_epoch(self) -> bool:
        """Records a completed epoch; returns whether weights and losses are finite."""
        progress = self.progress
        trainable, state = models.weights(self.model)
        loss, accuracy = self._validate()
        if not all(np.isfinite(value).all() for value in (loss, *trainable.values())):
            return False
        steps = (progress.epoch + 1) * self.steps
        row = {
            "epoch": progress.epoch + 1,
            "step": steps,
            "learning_rate": self._learning_rate(steps - 1),
            "train_loss": progress.loss / self.examples,
            "train_accuracy": progress.hits / self.training_set.labels.size,
            "validation_loss": loss,
            "validation_accuracy": accuracy,
            "seconds": progress.epoch_seconds,
            "epoch_distance": distances.distances(self.carried.epoch_start, trainable)["distance"],
            "weight_distance": distances.distances(self.initial[0], trainable)["distance"],
        }
        self.carried.epoch_start = trainable
        progress.history.append(row)
        progress.epoch += 1
        progress.step, progress.loss, progress.hits, progress.epoch_seconds = 0, 0.0, 0, 0.0
        monitor = self.factors["monitor"]
        if _better(row[monitor], progress.best_value, monitor):
            progress.best_value, progress.best_epoch = row[monitor], progress.epoch
            self.carried.best = records.weight_members(trainable, state)
        if progress.epoch in run_files.keep_wanted(self, over=False):
            path = self.epochs / f"{progress.epoch}.npz"
            records.write_weights(path, trainable, state)
        return True

    @property
    def _updates(self) -> int:
        return self.progress.epoch * self.steps + self.progress.step

    def _validate(self) -> tuple[float, float]:
        """Returns loss and accuracy on the validation data, computed once after an update."""
        if self._validated[0] != self._updates:
            self._validated = (self._updates, self.validation.loss_and_accuracy())
        return self._validated[1]

    def _evaluate(self) -> None:
        """Appends a row to the trajectory, where one is asked for and this update has none."""
        progress = self.progress
        rows = progress.trajectory
        if self.evaluator is None or (rows and rows[-1]["updates"] == self._updates):
            return
        used = min(progress.step * self.factors["batch_size"], self.examples)
        examples = progress.epoch * self.examples + used
        found = self.evaluator.evaluate()
        # The history's row of this update, where it ends an epoch.
        self._validated = self._updates, (found["validation_loss"], found["validation_accuracy"])
        place = {"updates": self._updates, "epoch": examples / self.examples}
        rows.append({"examples": examples, **place, **found})

    def _learning_rate(self, update: int) -> float:
        """Returns the rate that an update was made with."""
        rate = self.schedule(update) if self.schedule else self.optimizer.learning_rate
        return float(rate.numpy())

    def _pause(self) -> None:
        """Says how far it is, writes a checkpoint if one is due; a signal raises `Interrupted`."""
        self.reporter.report(self.progress.epoch, self.progress.step, self.progress.history)
        due = time.monotonic() - self._checkpointed >= self.limits.checkpoint_seconds
        if due or self.stopping:
            self.carried.save(self.checkpoint, self._key, self.progress, self.variables)
            self._checkpointed = time.monotonic()
        if self.stopping:
            raise Interrupted


def train(run: Run, limits: Limits = Limits()) -> str:
    """Trains one run and writes its folder; returns its status.

    A loss that is not finite and an allocator's refusal are results: they are recorded and
    nothing is raised.

    Raises:
        Interrupted: If SIGTERM or SIGINT stopped the training; it goes on from its checkpoint
            when it is started again.
        UserError: If another process is training the run.
    """
    with _alone(run):
        for left in (*run.folder.glob(".*.tmp"), *run.folder.glob("epochs/.*.tmp")):
            left.unlink(missing_ok=True)  # half a file, of a training that was killed
        training = Training(run, limits)
        training.stop_on_signals()
        try:
            with training.reporter.running():
                status, reason, message = training.fit()
        except (tf.errors.ResourceExhaustedError, MemoryError) as error:
            status, reason, message = records.OUT_OF_MEMORY, "out_of_memory", _refusal(error)
        run_files.write(training, status, reason, message)
    return status


def record_kill(run: Run, message: str) -> str:
    """Records a run whose training the kernel killed for memory; returns its status."""
    with _alone(run):
        training = Training(run)
        with training.reporter.running():  # takes over what the killed one reported of its progress
            training.resume_progress()
            run_files.write(training, records.OUT_OF_MEMORY, "out_of_memory", message)
    return records.OUT_OF_MEMORY


def _alone(run: Run) -> contextlib.AbstractContextManager[None]:
    return locks.held(run.folder / "training.lock", "train this run")


def _refusal(error: Exception) -> str:
    """Returns what an allocator says of the limit it met, without TensorFlow's trace."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return next((line for line in lines if "OOM" in line), (lines or ["Out of memory."])[0])


def _better(value: float, best: float, monitor: str) -> bool:
    if math.isnan(best):
        return True
    return value > best if monitor.endswith("accuracy") else value < best
