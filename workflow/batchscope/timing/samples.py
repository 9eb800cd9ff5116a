"""CPU time, memory and GPU use: counters of processes, and a thread that samples them (`Sampler`).

Every sample represents the time since the previous sample: utilisations are averages over that
time, which also weights each sample in means and quartiles. Memory is in MB of 10^6 bytes.

NVML's utilisation is the percentage of a time window during which a kernel ran on the GPU (`gpu`)
or its memory was read or written (`memory`). The window has 1/6 s to 1 s. A kernel counts even if
it fills little of the GPU. The energy counter exists since the generation Volta. A new quantity is
a column of `SAMPLE_COLUMNS`, a value in `Sampler.sample`, and its summary in `summarise`.

Source: proc(5), /proc/[pid]/clear_refs and /proc/[pid]/status; NVML API Reference Guide,
nvmlUtilization_t and nvmlDeviceGetTotalEnergyConsumption.
"""

import contextlib
import math
import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
import psutil
import pynvml

MEGABYTE = 10**6
# User and nice contain the time of guests.
_UNCOUNTED_TIMES = {"idle", "iowait", "guest", "guest_nice"}
_CLEAR_REFS = Path("/proc/self/clear_refs")
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
    *("seconds", "process_percent", "process_cores", "machine_percent", "foreign_cores"),
    *("memory_mb", *GPU_COLUMNS),
)
# A process that uses less than 1 % of a core is idle, as NVML reports whole percentages.
IDLE_CORES = 0.01
IDLE_PERCENT = 1.0
# NVML's longest window. Until it has passed, the utilisation in a span is an average that includes
# the work before the span.
SETTLE_SECONDS = 1.0

Series = Mapping[str, np.ndarray]  # column -> values of shape (samples,), NaN if unknown
Summary = dict[str, float | None]  # quantity -> value, None if unknown
Span = tuple[float, float]  # start and end of a time; a sample at the start is no part of it


class CpuReading(NamedTuple):
    """A clock and two counters of CPU time, in seconds; only differences have a meaning."""

    seconds: float  # elapsed time
    process: float  # CPU time of this process without its children
    machine: float  # CPU time of the machine, including time that a hypervisor took


def cpu_times() -> CpuReading:
    """Read the counters of this process and of the machine, in about 50 microseconds.

    The machine's counter may advance in ticks of 10 ms per core. Over a block of a quarter of a
    second, the foreign cores are therefore accurate to a few hundredths.
    """
    times = psutil.cpu_times()._asdict()
    machine = sum(value for name, value in times.items() if name not in _UNCOUNTED_TIMES)
    return CpuReading(time.monotonic(), time.process_time(), machine)


def foreign_cores(before: CpuReading, after: CpuReading) -> float:
    """Return the mean number of cores that other processes used between two readings, at least 0.

    Other processes include the children of this process, and other guests of a virtual machine
    while they delay this machine.
    """
    seconds, process, machine = (end - start for start, end in zip(before, after, strict=True))
    return max(0.0, (machine - process) / seconds) if seconds > 0 else 0.0


def reset_peak_memory() -> bool:
    """Restart the count of `peak_memory`; return whether the system allows that."""
    try:
        _CLEAR_REFS.write_text("5", encoding="ascii")  # 5 restarts the peak
    except OSError:
        return False
    return True


def peak_memory() -> float:
    """Return the peak resident memory of this process; the kernel counts units of 1024 bytes."""
    lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    (number,) = (line.split()[1] for line in lines if line.startswith("VmHWM:"))
    return int(number) * 1024 / MEGABYTE


class ProcessTree:
    """A process and its descendants; empty once the exit status of the process is collected."""

    def __init__(self, pid: int) -> None:
        self._parent = psutil.Process(pid)

    def members(self) -> list[psutil.Process]:
        with contextlib.suppress(psutil.Error):
            if self._parent.is_running():
                return [self._parent, *self._parent.children(recursive=True)]
        return []

    def usage(self) -> tuple[float, float]:
        """Return the total CPU time so far and the resident memory; NaN without processes.

        The CPU time includes descendants that have ended, once their parents waited for them. It
        advances in ticks, mostly of 10 ms. Memory that forked processes share counts once, by their
        proportional shares.
        """
        members = self.members()
        seconds, bytes_used = [], []
        for member in members:
            with contextlib.suppress(psutil.Error):
                seconds.append(sum(member.cpu_times()[:4]))  # including the children's
                # A single process shares no memory, and the kernel needs longer for the shares.
                is_single = len(members) == 1
                used = member.memory_info().rss if is_single else member.memory_full_info().pss
                bytes_used.append(used)
        if not bytes_used:
            return math.nan, math.nan
        return sum(seconds), sum(bytes_used) / MEGABYTE

    def kill(self) -> None:
        for member in self.members():
            with contextlib.suppress(psutil.Error):
                member.kill()


class Sampler:
    """Sample utilisation and memory in a thread while the `with` block runs.

    The CPU time of the sampler counts neither for the process nor for other processes. A quantity
    that cannot be measured is NaN and does not stop the timing. `gpu_device` names the first GPU,
    or the reason why no GPU was sampled.
    """

    def __init__(
        self,
        interval: float = 0.1,  # seconds between two samples
        cores: int = 1,  # number of cores that counts as 100 % for the process
        gpus: int = 0,  # number of GPUs to sample, the first ones that this process sees
        watched: ProcessTree | None = None,  # processes to sample instead of this one
    ) -> None:
        self._interval, self._cores = interval, cores
        self._machine_cores = psutil.cpu_count(logical=True) or 1
        self._process, self._watched = psutil.Process(), watched
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="sampler", daemon=True)
        self._gpus, self.gpu_device = _first_gpus(gpus) if gpus else ([], None)
        self._rows: list[tuple[float, ...]] = []  # an hour at 0.1 s takes some 10 MB
        self._start: float | None = None  # time of the first sample
        self.own_seconds = 0.0
        # Time of the last sample, and core-seconds of process, machine and other processes then.
        self._last_counters = np.full(4, math.nan)

    def __enter__(self) -> Self:
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

    def sample(self) -> float:
        """Take a sample; return its seconds since the first sample, for an end of a `Span`."""
        with self._lock:
            start = time.thread_time()
            reading, own_seconds = cpu_times(), self.own_seconds
            if self._start is None:
                self._start = reading.seconds
            if self._watched is None:
                process = reading.process - own_seconds
                memory = self._process.memory_info().rss / MEGABYTE
            else:
                process, memory = self._watched.usage()
            # The CPU time of taking this sample belongs to the time of the next sample.
            foreign = reading.machine - process - own_seconds
            counters = np.array([reading.seconds, process, reading.machine, foreign])
            (elapsed, *used), self._last_counters = counters - self._last_counters, counters
            cores, machine, foreign = (use / elapsed if elapsed > 0 else math.nan for use in used)
            cores = np.maximum(0.0, cores)
            percent = 100 * cores / self._cores, cores, 100 * machine / self._machine_cores
            seconds = reading.seconds - self._start
            self._rows.append((seconds, *percent, foreign, memory, *_read_gpus(self._gpus)))
            self.own_seconds += time.thread_time() - start
            return seconds

    def series(self) -> dict[str, np.ndarray]:
        """Return the samples so far: column -> values of shape (samples,), NaN if unknown.

        seconds and gpu_energy_joules count from the start. machine_percent refers to all logical
        cores, gpu_memory_mb to all processes. Of several GPUs, it is the largest memory, the sum of
        the energies and the mean utilisation. foreign_cores may be negative, because the machine's
        counter advances in ticks.
        """
        with self._lock:
            rows = np.array(self._rows).reshape(-1, len(SAMPLE_COLUMNS))
        columns: dict[str, np.ndarray] = dict(zip(SAMPLE_COLUMNS, rows.T.copy(), strict=True))
        energy = columns["gpu_energy_joules"]
        energy -= next(iter(energy[np.isfinite(energy)]), 0.0)
        return columns


def _first_gpus(count: int) -> tuple[list[Any], dict[str, str]]:
    """Return NVML's handles of the first GPUs that this process sees, and name and UUID of one.

    Without them, there is no handle and the dictionary has the problem. NVML closes with the
    process. CUDA and NVML order GPUs of different kinds by different rules, unless
    CUDA_DEVICE_ORDER is PCI_BUS_ID (CUDA C++ Programming Guide, CUDA_VISIBLE_DEVICES).
    """
    visible = os.environ.get("CUDA_VISIBLE_DEVICES", ",".join(map(str, range(count)))).split(",")
    handles = []
    try:
        pynvml.nvmlInit()
        for gpu in map(str.strip, visible[:count]):
            if gpu.isdecimal():
                handles.append(pynvml.nvmlDeviceGetHandleByIndex(int(gpu)))
            else:
                handles.append(pynvml.nvmlDeviceGetHandleByUUID(gpu))
        name, uuid = pynvml.nvmlDeviceGetName(handles[0]), pynvml.nvmlDeviceGetUUID(handles[0])
    except pynvml.NVMLError as error:
        return [], {"problem": str(error)}
    return handles, {"name": str(name), "uuid": str(uuid)}


def _read_gpus(handles: list[Any]) -> list[float]:
    """Return the current values of `GPU_COLUMNS`, NaN if a GPU does not support them."""
    readings = [dict.fromkeys(GPU_COLUMNS, math.nan) for _ in handles or [None]]
    for handle, reading in zip(handles, readings, strict=False):
        for name, columns in _GPU_QUERIES.items():
            # An error, such as a timeout, loses one sample and not the timing.
            with contextlib.suppress(pynvml.NVMLError):
                reading |= columns(getattr(pynvml, name)(handle))
    percent, bandwidth, memory, energy = np.array([[*reading.values()] for reading in readings]).T
    return [percent.mean(), bandwidth.mean(), memory.max(), energy.sum()]


def sample_seconds(series: Series) -> np.ndarray:
    """Return the seconds that each sample represents, shape (samples,); the first is 0."""
    seconds = series["seconds"]
    return np.diff(seconds, prepend=seconds[:1])


def spread(values: np.ndarray, weights: np.ndarray, idle: float = 0.0) -> Summary:
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


def in_span(series: Series, span: Span) -> np.ndarray:
    """Return which samples represent a part of a span, shape (samples,)."""
    start, stop = span
    return (series["seconds"] > start) & (series["seconds"] <= stop)


def summarise(series: Series, spans: Sequence[Span] = ((-math.inf, math.inf),)) -> Summary:
    """Summarise the samples of spans of time, by default all.

    A utilisation X has the weighted median `X` and the quartiles `X_q1` and `X_q3`. Unknown values
    are None. So is the GPU's utilisation if each span is shorter than NVML's window.
    """
    inside, has_settled = np.zeros((2, len(series["seconds"])), bool)
    for start, stop in spans:
        in_this_span = in_span(series, (start, stop))
        inside |= in_this_span
        has_settled |= in_this_span & (series["seconds"] >= start + SETTLE_SECONDS)
    weights = np.where(inside, sample_seconds(series), 0.0)
    settled = np.where(has_settled, weights, 0.0)
    result: Summary = {}
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
    """Return the energy of the GPU in J; failed readings of the counter are interpolated."""
    seconds, counter = series["seconds"], series["gpu_energy_joules"]
    valid = np.isfinite(counter)
    if not valid.any():
        return None
    counter = np.interp(seconds, seconds[valid], counter[valid])
    return float(np.diff(counter, prepend=counter[:1])[inside].sum())
