"""Samples of CPU and GPU utilisation and memory, and their summaries.

Every sample represents the time since the sample before: utilisations are averages over that time,
and means and quartiles weight each sample by it. NVML's utilisation is the percentage of a time
window during which a kernel ran on the GPU (`gpu`) or its memory was read or written (`memory`).
The window has 1/6 s to 1 s. A kernel counts no matter how much of the GPU it fills. The energy
counter exists since the generation Volta.

Source: NVML API Reference Guide, nvmlUtilization_t and nvmlDeviceGetTotalEnergyConsumption; CUDA
C++ Programming Guide, CUDA_VISIBLE_DEVICES.
"""

from __future__ import annotations

import array
import contextlib
import math
import os
import threading
import time
from collections.abc import Callable, Hashable, Iterator, Mapping
from typing import Any

import numpy as np
import psutil
import pynvml

from batchscope.timing import processes
from batchscope.timing.processes import MEGABYTE

# Function of NVML -> conversion of its result to columns.
_READINGS: dict[str, Callable[[Any], dict[str, float]]] = {
    "nvmlDeviceGetUtilizationRates": lambda rates: {
        "gpu_percent": float(rates.gpu),
        "gpu_bandwidth_percent": float(rates.memory),
    },
    "nvmlDeviceGetMemoryInfo": lambda memory: {"gpu_memory_mb": memory.used / MEGABYTE},
    "nvmlDeviceGetTotalEnergyConsumption": lambda mj: {"gpu_energy_joules": mj / 1000},
}
GPU_COLUMNS = ("gpu_percent", "gpu_bandwidth_percent", "gpu_memory_mb", "gpu_energy_joules")
COLUMNS = (
    *("seconds", "phase", "process_percent", "process_cores", "machine_percent"),
    *("foreign_cores", "memory_mb", *GPU_COLUMNS),
)
OUTSIDE = -1  # no phase
# A process that uses less than 1 % of a core is idle, in agreement with NVML's whole percentages.
IDLE_CORES = 0.01
IDLE_PERCENT = 1.0
# NVML's longest window. Before it has passed, the utilisation of a phase is an average that
# includes the work before the phase.
SETTLE_SECONDS = 1.0

Series = Mapping[str, np.ndarray]  # column -> values of shape (samples,), NaN if unknown


def first_gpu() -> Any:
    """Return NVML's handle of the first GPU that this process sees; NVML closes with the process.

    Raises:
        pynvml.NVMLError: If NVML does not work, or the process sees no GPU.
    """
    pynvml.nvmlInit()
    first = os.environ.get("CUDA_VISIBLE_DEVICES", "0").partition(",")[0].strip()
    if first.isdecimal():
        return pynvml.nvmlDeviceGetHandleByIndex(int(first))
    return pynvml.nvmlDeviceGetHandleByUUID(first)


def read_gpu(handle: Any) -> list[float]:
    """Return the values of `GPU_COLUMNS` now, NaN if the GPU does not support them."""
    readings = dict.fromkeys(GPU_COLUMNS, math.nan)
    for name, columns in _READINGS.items() if handle is not None else ():
        # An error, such as a timeout, costs one sample and not the timing.
        with contextlib.suppress(pynvml.NVMLError):
            readings |= columns(getattr(pynvml, name)(handle))
    return list(readings.values())


class Sampler:
    """Sample utilisation and memory in a thread while the `with` block runs.

    Every phase begins and ends with a sample, so that no sample belongs to two phases. CPU time of
    the sampler counts neither for the process nor for other processes. A quantity that cannot be
    measured is unknown and does not stop the timing. CUDA orders GPUs of different kinds by another
    rule than NVML unless CUDA_DEVICE_ORDER is PCI_BUS_ID. `gpu_device` names the sampled GPU, or
    the reason why no GPU was sampled.
    """

    def __init__(
        self,
        interval: float = 0.1,  # seconds of a pause
        cores: int = 1,  # cores of the process, which are 100 %
        gpu: bool = False,  # whether to sample the first GPU that the process sees
        watched: processes.Family | None = None,  # sampled instead of this process
    ) -> None:
        self._interval, self._cores = interval, cores
        self._machine_cores = psutil.cpu_count(logical=True) or 1
        self._process, self._watched = psutil.Process(), watched
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="sampler", daemon=True)
        self._gpu: Any = None  # NVML's handle
        self.gpu_device: dict[str, str] | None = None
        if gpu:
            try:
                self._gpu = handle = first_gpu()
                name, uuid = pynvml.nvmlDeviceGetName(handle), pynvml.nvmlDeviceGetUUID(handle)
                self.gpu_device = {"name": str(name), "uuid": str(uuid)}
            except pynvml.NVMLError as error:
                self.gpu_device = {"problem": str(error)}
        # One flat array of doubles: an hour at 0.1 s is under 4 MB.
        self._rows = array.array("d")
        self._phase = OUTSIDE
        self.phases: list[Hashable] = []
        self.own_seconds = 0.0
        # Last sample: its time, and the core-seconds of process, machine and other processes.
        self._before = np.full(4, math.nan)

    def __enter__(self) -> Sampler:
        self.sample()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        self.sample()

    def _run(self) -> None:
        while not self._stop.wait(self._interval):
            self.sample()

    @contextlib.contextmanager
    def phase(self, label: Hashable) -> Iterator[None]:
        """Assign the samples of the block to a phase. Blocks with equal labels are one phase."""
        if label not in self.phases:
            self.phases.append(label)
        index, outer = self.phases.index(label), self._phase
        self.sample(index)
        try:
            yield
        finally:
            self.sample(outer)

    def sample(self, next_phase: int | None = None) -> None:
        """Take a sample; the following ones belong to the next phase, if there is one."""
        with self._lock:
            begun = time.thread_time()
            clock, own_seconds = processes.cpu_times(), self.own_seconds
            if self._watched is None:
                process = clock.process - own_seconds
                memory = self._process.memory_info().rss / MEGABYTE
            else:
                process, memory = self._watched.usage()
            # The CPU time of this sample falls into the time of the next one.
            foreign = clock.machine - process - own_seconds
            now = np.array([clock.seconds, process, clock.machine, foreign])
            (seconds, *used), self._before = now - self._before, now
            cores, machine, foreign = (use / seconds if seconds > 0 else math.nan for use in used)
            cores = np.maximum(0.0, cores)
            percent = 100 * cores / self._cores, cores, 100 * machine / self._machine_cores
            gpu = read_gpu(self._gpu)
            self._rows.extend((clock.seconds, self._phase, *percent, foreign, memory, *gpu))
            self.own_seconds += time.thread_time() - begun
            if next_phase is not None:
                self._phase = next_phase

    def series(self) -> dict[str, np.ndarray]:
        """Return the samples so far: column -> values of shape (samples,), NaN if unknown.

        seconds and gpu_energy_joules count from the start. phase is the index in `phases`.
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

    def summary(self, label: Hashable) -> dict[str, float | None]:
        return summary(self.series(), self.phases.index(label))


def intervals(series: Series) -> np.ndarray:
    """Return the seconds that each sample represents, shape (samples,); the first is 0."""
    seconds = series["seconds"]
    return np.diff(seconds, prepend=seconds[:1])


def seconds_into_phase(series: Series) -> np.ndarray:
    """Return the seconds from the last entry into a sample's phase, shape (samples,)."""
    seconds, phase = series["seconds"], series["phase"]
    # A phase begins at the sample that ends the phase before.
    begun = np.where(np.diff(phase, prepend=phase[:1]) != 0, np.roll(seconds, 1), seconds[:1])
    return seconds - np.maximum.accumulate(begun)


def spread(values: np.ndarray, weights: np.ndarray, idle: float = 0.0) -> dict[str, float | None]:
    """Return weighted `median`, `q1`, `q3`, `mean`, and `zero_share`, the share below `idle`.

    NaN values do not count. Without other values, the results are None. The quantile q is the
    smallest value that is not exceeded during a share q of the time.
    """
    valid = np.isfinite(values) & (weights > 0)
    if not valid.any():
        return dict.fromkeys(("median", "q1", "q3", "mean", "zero_share"))
    values, weights = values[valid], weights[valid]
    quantiles = np.quantile(values, (0.5, 0.25, 0.75), weights=weights, method="inverted_cdf")
    return {
        **dict(zip(("median", "q1", "q3"), quantiles.tolist(), strict=True)),
        "mean": float(np.average(values, weights=weights)),
        "zero_share": float(weights[values < idle].sum() / weights.sum()),
    }


def summary(series: Series, phase: int | None = None) -> dict[str, float | None]:
    """Summarise the samples of a phase: -1 for samples outside all phases, None for all samples.

    A utilisation X has the weighted median `X` and the quartiles `X_q1` and `X_q3`. Unknown values
    are None, and the GPU's utilisation in a phase that is shorter than NVML's window.
    """
    inside = np.full(len(series["phase"]), phase is None) | (series["phase"] == phase)
    weights = np.where(inside, intervals(series), 0.0)
    settled = np.where(seconds_into_phase(series) >= SETTLE_SECONDS, weights, 0.0)
    result: dict[str, float | None] = {}
    for column in ("process_percent", "gpu_percent", "gpu_bandwidth_percent"):
        values = spread(series[column], settled if column in GPU_COLUMNS else weights)
        result[column] = values["median"]
        result |= {f"{column}_{quartile}": values[quartile] for quartile in ("q1", "q3")}
    foreign = spread(series["foreign_cores"], weights)["mean"]
    return result | {
        "process_zero_share": spread(series["process_cores"], weights, IDLE_CORES)["zero_share"],
        "gpu_zero_share": spread(series["gpu_percent"], settled, IDLE_PERCENT)["zero_share"],
        "foreign_cores": None if foreign is None else max(0.0, foreign),
        "memory_peak_mb": _peak(series["memory_mb"][inside]),
        "gpu_memory_peak_mb": _peak(series["gpu_memory_mb"][inside]),
        "gpu_energy_joules": _energy(series, inside),
    }


def _peak(values: np.ndarray) -> float | None:
    return float(np.nanmax(values)) if np.isfinite(values).any() else None


def _energy(series: Series, inside: np.ndarray) -> float | None:
    """Return the energy of the GPU in J; readings that failed are interpolated."""
    seconds, counter = series["seconds"], series["gpu_energy_joules"]
    valid = np.isfinite(counter)
    if not valid.any():
        return None
    counter = np.interp(seconds, seconds[valid], counter[valid])
    return float(np.diff(counter, prepend=counter[:1])[inside].sum())
