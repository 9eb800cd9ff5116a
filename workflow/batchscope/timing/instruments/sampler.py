"""How busy the CPU and the GPU are, and what memory is held, while something else is timed.

A thread takes samples at a fixed interval, or whoever times takes them. A sample is also taken
where a phase begins and ends, so that none is part of two phases.
"""

from __future__ import annotations

import array
import contextlib
import functools
import math
import threading
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import psutil

from batchscope.timing.instruments import processes
from batchscope.timing.instruments.nvml import Gpu, open_gpu
from batchscope.timing.instruments.samples import COLUMNS, GPU_COLUMNS, OUTSIDE


class Sampler:
    """Samples utilisation and memory in a thread while the block runs.

    Work under one name and value is one phase, however often it is entered. The sampling's own
    CPU time is counted neither as the process's nor as others'. Whatever cannot be measured is
    unknown and stops nothing. CUDA counts GPUs of different kinds in another order than NVML
    unless CUDA_DEVICE_ORDER is PCI_BUS_ID; `gpu_device` says which one was sampled, or why none.
    """

    def __init__(
        self,
        interval: float | None = 0.1,  # seconds; None where whoever times calls `sample`
        cores: int = 1,  # that the process was given: all of them busy is 100 %
        gpu: int | None = None,  # index among those that the process sees
        watched: processes.Family | None = None,  # sampled in place of this process
    ) -> None:
        self._interval, self._cores, self._gpu_index = interval, cores, gpu
        self._machine_cores = psutil.cpu_count(logical=True) or 1
        self._process, self._watched = psutil.Process(), watched
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._gpu: Gpu | None = None
        self.gpu_device: dict[str, str] | None = None
        # One flat array of doubles: an hour at 0.1 s is under 4 MB.
        self._rows = array.array("d")
        self._phase = OUTSIDE
        self.phases: list[tuple[str, Any]] = []
        self.own_seconds = self._own_before = 0.0
        self._before: processes.Clock | None = None

    def __enter__(self) -> Sampler:
        """Starts sampling, once."""
        if self._gpu_index is not None:
            self._gpu, self.gpu_device = open_gpu(self._gpu_index)
        try:
            self.sample()
        except BaseException:
            self._close()
            raise
        if self._interval is not None:
            run = functools.partial(self._run, self._interval)
            self._thread = threading.Thread(target=run, name="sampler", daemon=True)
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Ends sampling; the samples stay."""
        if self._thread is not None:
            self._stop.set()
            self._thread.join()
        try:
            self.sample()
        finally:
            self._close()

    def _close(self) -> None:
        if self._gpu is not None:
            self._gpu.close()

    def _run(self, interval: float) -> None:
        begun = time.monotonic()
        tick = 1
        # Each wait ends at a multiple of the interval, so that lateness does not add up.
        while not self._stop.wait(max(0.0, begun + tick * interval - time.monotonic())):
            self.sample()
            tick = max(tick + 1, math.ceil((time.monotonic() - begun) / interval))

    @contextlib.contextmanager
    def phase(self, name: str, value: Any = None) -> Iterator[int]:
        """Gives the samples of the block to a phase, such as `batch_size`, 32; yields its index."""
        label = (name, value)
        if label not in self.phases:
            self.phases.append(label)
        index, outer = self.phases.index(label), self._phase
        self._turn_to(index)
        try:
            yield index
        finally:
            self._turn_to(outer)

    def rename(self, index: int, name: str, value: Any = None) -> None:
        """Gives a phase that has ended another name and value: its old ones start a new phase."""
        self.phases[index] = (name, value)

    def _turn_to(self, phase: int) -> None:
        with self._lock:
            self._take()
            self._phase = phase

    def sample(self) -> dict[str, float]:
        """Takes a sample now; returns it, by the columns of `series`."""
        with self._lock:
            return dict(zip(COLUMNS, self._take(), strict=True))

    def _take(self) -> tuple[float, ...]:
        begun = time.thread_time()
        (now, memory), before = self._read(), self._before
        process = machine = foreign = math.nan
        if before is not None and now.seconds > before.seconds:
            seconds = now.seconds - before.seconds
            own = (self.own_seconds - self._own_before) / seconds
            process = (now.process - before.process) / seconds
            if self._watched is None:
                process -= own
            machine = (now.machine - before.machine) / seconds
            foreign = machine - process - own
            process = process if math.isnan(process) else max(0.0, process)
        # What this sample itself uses falls into the next one's time.
        self._own_before, self._before = self.own_seconds, now
        gpu = self._gpu.read() if self._gpu is not None else [math.nan] * len(GPU_COLUMNS)
        percent = 100 * process / self._cores, process, 100 * machine / self._machine_cores
        sample = (now.seconds, self._phase, *percent, foreign, memory, *gpu)
        self._rows.extend(sample)
        self.own_seconds += time.thread_time() - begun
        return sample

    def _read(self) -> tuple[processes.Clock, float]:
        """Returns the clocks, with the CPU time of what is sampled, and its memory in MB."""
        now = processes.cpu_times()
        if self._watched is None:
            return now, self._process.memory_info().rss / processes.MEGABYTE
        used = self._watched.usage()
        return now._replace(process=used.cpu_seconds), used.memory_mb

    def series(self) -> dict[str, np.ndarray]:
        """Returns the samples so far: column -> values of shape (samples,), NaN where unknown.

        Seconds and gpu_energy_joules are since the start; phase is -1 outside of all;
        machine_percent is of all logical cores; gpu_memory_mb is of all processes. Ticks of the
        machine's clock can make foreign_cores negative.
        """
        with self._lock:
            rows = np.array(self._rows).reshape(-1, len(COLUMNS))
        columns: dict[str, np.ndarray] = dict(zip(COLUMNS, rows.T.copy(), strict=True))
        for name in ("seconds", "gpu_energy_joules"):
            known = columns[name][np.isfinite(columns[name])]
            columns[name] -= known[0] if len(known) else 0.0
        return {**columns, "phase": columns["phase"].astype(np.int64)}


def as_lists(sampler: Sampler, column: str = "batch_size") -> dict[str, list[Any]]:
    """Returns a sampler's series for a record: lists of the columns that are known, rounded.

    The values of phases of the name `column` stand in a column of that name; where there are
    phases of other names, the column `phase` has the names of all.
    """
    series = sampler.series()
    labels = [
        sampler.phases[index] if index != OUTSIDE else (None, None) for index in series.pop("phase")
    ]
    names = {name for name, _ in sampler.phases}
    found: dict[str, list[Any]] = {}
    if column in names:
        found[column] = [value if name == column else None for name, value in labels]
    found["seconds"] = [round(float(value), 3) for value in series.pop("seconds")]
    if names - {column}:
        found["phase"] = [name for name, _ in labels]
    for name, values in series.items():
        if np.isfinite(values).any():
            found[name] = [float(f"{value:.4g}") for value in values]
    return found
