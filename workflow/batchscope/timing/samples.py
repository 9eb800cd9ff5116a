"""Sample CPU and GPU utilisation and memory in a thread (`Sampler`), and summarise the samples.

Every sample represents the time since the previous sample: utilisations are averages over that
time, which also weights each sample in means and quartiles. NVML's utilisation is the percentage of
a time window during which a kernel ran on the GPU (`gpu`) or its memory was read or written
(`memory`). The window has 1/6 s to 1 s. A kernel counts even if it fills little of the GPU. The
energy counter exists since the generation Volta. A new quantity is a column of `SAMPLE_COLUMNS`, a
value in `Sampler.sample`, and its summary in `summarise`.

Source: NVML API Reference Guide, nvmlUtilization_t and nvmlDeviceGetTotalEnergyConsumption; CUDA
C++ Programming Guide, CUDA_VISIBLE_DEVICES.
"""

from __future__ import annotations

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

# Function of NVML -> conversion of its result to columns of `GPU_COLUMNS`.
_GPU_QUERIES: dict[str, Callable[[Any], dict[str, float]]] = {
    "nvmlDeviceGetUtilizationRates": lambda rates: {
        "gpu_percent": float(rates.gpu),
        "gpu_bandwidth_percent": float(rates.memory),
    },
    "nvmlDeviceGetMemoryInfo": lambda memory: {"gpu_memory_mb": memory.used / MEGABYTE},
    "nvmlDeviceGetTotalEnergyConsumption": lambda mj: {"gpu_energy_joules": mj / 1000},
}
GPU_COLUMNS = ("gpu_percent", "gpu_bandwidth_percent", "gpu_memory_mb", "gpu_energy_joules")
SAMPLE_COLUMNS = (
    *("seconds", "phase", "process_percent", "process_cores", "machine_percent"),
    *("foreign_cores", "memory_mb", *GPU_COLUMNS),
)
NO_PHASE = -1  # index of the phase of samples outside all phases
# A process that uses less than 1 % of a core is idle, as NVML reports whole percentages.
IDLE_CORES = 0.01
IDLE_PERCENT = 1.0
# NVML's longest window. Until it has passed, the utilisation in a phase is an average that includes
# the work before the phase.
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
    """Return the current values of `GPU_COLUMNS`, NaN if the GPU does not support them."""
    readings = dict.fromkeys(GPU_COLUMNS, math.nan)
    for name, columns in _GPU_QUERIES.items() if handle is not None else ():
        # An error, such as a timeout, loses one sample and not the timing.
        with contextlib.suppress(pynvml.NVMLError):
            readings |= columns(getattr(pynvml, name)(handle))
    return list(readings.values())


class Sampler:
    """Sample utilisation and memory in a thread while the `with` block runs.

    Every phase begins and ends with a sample, so that no sample belongs to two phases. The CPU time
    of the sampler counts neither for the process nor for other processes. A quantity that cannot be
    measured is NaN and does not stop the timing. `gpu_device` names the sampled GPU, or the reason
    why no GPU was sampled. CUDA and NVML order GPUs of different kinds by different rules, unless
    CUDA_DEVICE_ORDER is PCI_BUS_ID.
    """

    def __init__(
        self,
        interval: float = 0.1,  # seconds between two samples
        cores: int = 1,  # number of cores that counts as 100 % for the process
        gpu: bool = False,  # whether to sample the first GPU that this process sees
        watched: processes.ProcessTree | None = None,  # processes to sample instead of this one
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
        self._rows: list[tuple[float, ...]] = []  # an hour at 0.1 s takes some 10 MB
        self._phase = NO_PHASE
        self.phases: list[Hashable] = []
        self.own_seconds = 0.0
        # Time of the last sample, and core-seconds of process, machine and other processes then.
        self._last_counters = np.full(4, math.nan)

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
        """Take a sample; later samples belong to the next phase, if that is given."""
        with self._lock:
            start = time.thread_time()
            reading, own_seconds = processes.cpu_times(), self.own_seconds
            if self._watched is None:
                process = reading.process - own_seconds
                memory = self._process.memory_info().rss / MEGABYTE
            else:
                process, memory = self._watched.usage()
            # The CPU time of taking this sample belongs to the time of the next sample.
            foreign = reading.machine - process - own_seconds
            counters = np.array([reading.seconds, process, reading.machine, foreign])
            (seconds, *used), self._last_counters = counters - self._last_counters, counters
            cores, machine, foreign = (use / seconds if seconds > 0 else math.nan for use in used)
            cores = np.maximum(0.0, cores)
            percent = 100 * cores / self._cores, cores, 100 * machine / self._machine_cores
            gpu = read_gpu(self._gpu)
            self._rows.append((reading.seconds, self._phase, *percent, foreign, memory, *gpu))
            self.own_seconds += time.thread_time() - start
            if next_phase is not None:
                self._phase = next_phase

    def series(self) -> dict[str, np.ndarray]:
        """Return the samples so far: column -> values of shape (samples,), NaN if unknown.

        seconds and gpu_energy_joules count from the start. phase is an index of `phases`.
        machine_percent refers to all logical cores, gpu_memory_mb to all processes. foreign_cores
        may be negative, because the machine's counter advances in ticks.
        """
        with self._lock:
            rows = np.array(self._rows).reshape(-1, len(SAMPLE_COLUMNS))
        columns: dict[str, np.ndarray] = dict(zip(SAMPLE_COLUMNS, rows.T.copy(), strict=True))
        for name in ("seconds", "gpu_energy_joules"):
            finite = columns[name][np.isfinite(columns[name])]
            columns[name] -= finite[0] if len(finite) else 0.0
        return {**columns, "phase": columns["phase"].astype(np.int64)}

    def summary(self, label: Hashable) -> dict[str, float | None]:
        return summarise(self.series(), self.phases.index(label))


def sample_seconds(series: Series) -> np.ndarray:
    """Return the seconds that each sample represents, shape (samples,); the first is 0."""
    seconds = series["seconds"]
    return np.diff(seconds, prepend=seconds[:1])


def seconds_into_phase(series: Series) -> np.ndarray:
    """Return the seconds from the last entry into a sample's phase, shape (samples,)."""
    seconds, phase = series["seconds"], series["phase"]
    # A phase begins at the last sample of the previous phase.
    starts = np.where(np.diff(phase, prepend=phase[:1]) != 0, np.roll(seconds, 1), seconds[:1])
    return seconds - np.maximum.accumulate(starts)


def spread(values: np.ndarray, weights: np.ndarray, idle: float = 0.0) -> dict[str, float | None]:
    """Return weighted `median`, `q1`, `q3`, `mean`, and `zero_share`, the share below `idle`.

    NaN values do not count; without other values, the results are None. The quantile q is the
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


def summarise(series: Series, phase: int | None = None) -> dict[str, float | None]:
    """Summarise the samples of a phase: `NO_PHASE` for samples outside all phases, None for all.

    A utilisation X has the weighted median `X` and the quartiles `X_q1` and `X_q3`. Unknown values
    are None. So is the GPU's utilisation in a phase that is shorter than NVML's window.
    """
    inside = np.full(len(series["phase"]), phase is None) | (series["phase"] == phase)
    weights = np.where(inside, sample_seconds(series), 0.0)
    settled = np.where(seconds_into_phase(series) >= SETTLE_SECONDS, weights, 0.0)
    result: dict[str, float | None] = {}
    for column in ("process_percent", "gpu_percent", "gpu_bandwidth_percent"):
        values = spread(series[column], settled if column in GPU_COLUMNS else weights)
        result[column] = values["median"]
        result |= {f"{column}_{quartile}": values[quartile] for quartile in ("q1", "q3")}
    process = spread(series["process_cores"], weights, IDLE_CORES)
    gpu = spread(series["gpu_percent"], settled, IDLE_PERCENT)
    foreign = spread(series["foreign_cores"], weights)["mean"]
    return result | {
        "process_zero_share": process["zero_share"],
        "gpu_zero_share": gpu["zero_share"],
        "foreign_cores": None if foreign is None else max(0.0, foreign),
        "memory_peak_mb": _peak(series["memory_mb"][inside]),
        "gpu_memory_peak_mb": _peak(series["gpu_memory_mb"][inside]),
        "gpu_energy_joules": _energy(series, inside),
    }


def _peak(values: np.ndarray) -> float | None:
    return float(np.nanmax(values)) if np.isfinite(values).any() else None


def _energy(series: Series, inside: np.ndarray) -> float | None:
    """Return the energy of the GPU in J; failed readings of the counter are interpolated."""
    seconds, counter = series["seconds"], series["gpu_energy_joules"]
    valid = np.isfinite(counter)
    if not valid.any():
        return None
    counter = np.interp(seconds, seconds[valid], counter[valid])
    return float(np.diff(counter, prepend=counter[:1])[inside].sum())
