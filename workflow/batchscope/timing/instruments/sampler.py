"""Sampler of CPU and GPU utilisation and memory during a timing.

A thread takes samples with pauses, or the caller takes them. Every phase begins and ends with a
sample, so that no sample belongs to two phases.
"""

from __future__ import annotations

import array
import contextlib
import math
import threading
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import psutil
import pynvml

from batchscope.timing.instruments import processes, samples
from batchscope.timing.instruments.nvml import Gpu
from batchscope.timing.instruments.samples import COLUMNS, GPU_COLUMNS


class Sampler:
    """Sample utilisation and memory in a thread while the `with` block runs.

    Work with the same name and value is one phase, also if it is interrupted. CPU time of the
    sampler counts neither for the process nor for other processes. A quantity that cannot be
    measured is unknown and does not stop the timing. CUDA orders GPUs of different kinds by another
    rule than NVML unless CUDA_DEVICE_ORDER is PCI_BUS_ID. `gpu_device` names the sampled GPU, or
    the reason why no GPU was sampled.
    """

    def __init__(
        self,
        interval: float | None = 0.1,  # seconds of a pause; None if the caller calls `sample`
        cores: int = 1,  # cores of the process, which are 100 %
        gpu: int | None = None,  # index among the GPUs that the process sees
        watched: processes.Family | None = None,  # sampled instead of this process
    ) -> None:
        self._interval, self._cores = interval, cores
        self._machine_cores = psutil.cpu_count(logical=True) or 1
        self._process, self._watched = psutil.Process(), watched
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._gpu: Gpu | None = None
        self.gpu_device: dict[str, str] | None = None
        if gpu is not None:
            try:
                self._gpu = Gpu(gpu)
                self.gpu_device = self._gpu.device
            except (pynvml.NVMLError, LookupError) as error:
                self.gpu_device = {"problem": str(error)}
        # One flat array of doubles: an hour at 0.1 s is under 4 MB.
        self._rows = array.array("d")
        self._phase = samples.OUTSIDE
        self.phases: list[tuple[str, Any]] = []
        self.own_seconds = 0.0
        # Last sample: its time, and the core-seconds of process, machine and other processes.
        self._before = np.full(4, math.nan)

    def __enter__(self) -> Sampler:
        self.sample()
        if self._interval is not None:
            self._thread = threading.Thread(target=self._run, name="sampler", daemon=True)
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._thread is not None:
            self._stop.set()
            self._thread.join()
        self.sample()

    def _run(self) -> None:
        while not self._stop.wait(self._interval):
            self.sample()

    @contextlib.contextmanager
    def phase(self, name: str, value: Any = None) -> Iterator[int]:
        """Assign the samples of the block to a phase, such as `batch_size`, 32; yield its index.

        The caller may rename the phase in `phases` afterwards.
        """
        if (name, value) not in self.phases:
            self.phases.append((name, value))
        index, outer = self.phases.index((name, value)), self._phase
        self._turn_to(index)
        try:
            yield index
        finally:
            self._turn_to(outer)

    def _turn_to(self, phase: int) -> None:
        with self._lock:
            self._take()
            self._phase = phase

    def sample(self) -> dict[str, float]:
        """Take a sample now; return its values by the columns of `series`."""
        with self._lock:
            return dict(zip(COLUMNS, self._take(), strict=True))

    def _take(self) -> tuple[float, ...]:
        begun = time.thread_time()
        clock, own_seconds = processes.cpu_times(), self.own_seconds
        if self._watched is None:
            process = clock.process - own_seconds
            memory = self._process.memory_info().rss / processes.MEGABYTE
        else:
            process, memory = self._watched.usage()
        # The CPU time of this sample falls into the time of the next one.
        foreign = clock.machine - process - own_seconds
        now = np.array([clock.seconds, process, clock.machine, foreign])
        (seconds, *used), self._before = now - self._before, now
        cores, machine, foreign = (use / seconds if seconds > 0 else math.nan for use in used)
        cores = np.maximum(0.0, cores)
        gpu = self._gpu.read() if self._gpu is not None else [math.nan] * len(GPU_COLUMNS)
        percent = 100 * cores / self._cores, cores, 100 * machine / self._machine_cores
        sample = (clock.seconds, self._phase, *percent, foreign, memory, *gpu)
        self._rows.extend(sample)
        self.own_seconds += time.thread_time() - begun
        return sample

    def series(self) -> dict[str, np.ndarray]:
        """Return the samples so far: column -> values of shape (samples,), NaN if unknown.

        seconds and gpu_energy_joules count from the start. phase is -1 outside all phases.
        machine_percent refers to all logical cores, gpu_memory_mb to all processes. Ticks of the
        machine's clock can make foreign_cores negative.
        """
        with self._lock:
            rows = np.array(self._rows).reshape(-1, len(COLUMNS))
        columns: dict[str, np.ndarray] = dict(zip(COLUMNS, rows.T.copy(), strict=True))
        for name in ("seconds", "gpu_energy_joules"):
            finite = columns[name][np.isfinite(columns[name])]
            columns[name] -= finite[0] if len(finite) else 0.0
        return {**columns, "phase": columns["phase"].astype(np.int64)}

    def summary(self, name: str, value: Any = None) -> dict[str, Any]:
        return samples.summary(self.series(), self.phases.index((name, value)))

    def details(self, column: str = "batch_size") -> dict[str, Any]:
        """Return samples and GPU for a record.

        `samples` has a rounded list for each column with a finite value. The column `column` has
        the values of the phases of that name. If other phases exist, the column `phase` has the
        names of all phases.
        """
        series, names = self.series(), {name for name, _ in self.phases}
        phases = {samples.OUTSIDE: (None, None), **dict(enumerate(self.phases))}
        labels = [phases[index] for index in series.pop("phase")]
        columns: dict[str, list[Any]] = {}
        if column in names:
            columns[column] = [value if name == column else None for name, value in labels]
        columns["seconds"] = series.pop("seconds").round(3).tolist()
        if names - {column}:
            columns["phase"] = [name for name, _ in labels]
        for name, values in series.items():
            if np.isfinite(values).any():
                columns[name] = [float(f"{value:.4g}") for value in values]
        return {"samples": columns, "gpu_device": self.gpu_device}
