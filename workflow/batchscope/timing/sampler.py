"""How busy the CPU and the GPU are, and what memory is held, while something else is timed.

A thread takes samples at a fixed interval. Every sample stands for the time since the one before
it: utilisations are averages over that time, and means and quartiles weigh each sample by it.
A sample is also taken where a phase begins and ends, so that none is part of two phases.

What NVML calls utilisation is the percentage of time, over a window of its own of 1/6 s to 1 s,
in which a kernel ran on the GPU (`gpu`) or its memory was read or written (`memory`); it says
nothing of how much of the GPU a kernel fills.

Source: NVML API Reference Guide, nvmlUtilization_t, nvmlDeviceGetPowerUsage and
nvmlDeviceGetTotalEnergyConsumption; CUDA C++ Programming Guide, CUDA_VISIBLE_DEVICES;
proc(5), /proc/[pid]/clear_refs and /proc/[pid]/status.
"""

from __future__ import annotations

import array
import contextlib
import math
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import psutil

MEGABYTE = 10**6
KIBIBYTE = 2**10

GPU_COLUMNS = (
    "gpu_percent",
    "gpu_bandwidth_percent",
    "gpu_memory_mb",
    "gpu_power_watts",
    "gpu_energy_joules",
)
COLUMNS = (
    "seconds",
    "phase",
    "process_percent",
    "process_cores",
    "machine_percent",
    "foreign_cores",
    "memory_mb",
    *GPU_COLUMNS,
)
UTILISATIONS = (
    "process_percent",
    "process_cores",
    "machine_percent",
    "gpu_percent",
    "gpu_bandwidth_percent",
)
OUTSIDE = -1

# Less than 1 % of a core is no work of the process; NVML's whole percentages draw the same line.
IDLE_CORES = 0.01
IDLE_PERCENT = 1.0
# The longest window that NVML averages over: before it has passed, a phase's utilisation is still
# in part that of what came before.
SETTLE_SECONDS = 1.0

_NOT_BUSY = {"idle", "iowait", "guest", "guest_nice"}  # user and nice contain the guests' time
_STATUS = Path("/proc/self/status")
_CLEAR_REFS = Path("/proc/self/clear_refs")
_RESET_PEAK = "5"


class Clock(NamedTuple):
    """Time that has passed and CPU time that was used, at one moment.

    Args:
        seconds: Monotonic clock.
        process: Core-seconds of all threads of this process so far; of its children, none.
        machine: Core-seconds of the whole machine so far, what a hypervisor took included.
    """

    seconds: float
    process: float
    machine: float


def cpu_times() -> Clock:
    """Returns the clocks now, in some 50 microseconds.

    The machine's clock may advance in ticks of 10 ms per core, so that a block of a quarter of a
    second has others' cores to within a few hundredths.
    """
    times = psutil.cpu_times()._asdict()
    machine = sum(value for name, value in times.items() if name not in _NOT_BUSY)
    return Clock(time.monotonic(), time.process_time(), machine)


def foreign_cores(before: Clock, after: Clock) -> float:
    """Returns how many cores others kept busy, on average, between two readings.

    Others are all processes but this one, its children among them, and, on a virtual machine,
    the machine's other guests as far as they held up this one.

    Args:
        before: The clocks at the beginning.
        after: The clocks at the end.

    Returns:
        The machine's core-seconds less this process's, over the seconds; at least 0.
    """
    seconds = after.seconds - before.seconds
    if seconds <= 0:
        return 0.0
    foreign = (after.machine - before.machine) - (after.process - before.process)
    return max(0.0, foreign / seconds)


def intervals(series: Mapping[str, np.ndarray]) -> np.ndarray:
    """Returns the seconds that each sample stands for, shape (samples,); the first for none."""
    seconds = series["seconds"]
    return np.diff(seconds, prepend=seconds[:1])


def in_phase(series: Mapping[str, np.ndarray], phase: int | None) -> np.ndarray:
    """Returns which samples belong to a phase, or to any where it is None; bool (samples,)."""
    if phase is None:
        return np.ones(len(series["phase"]), bool)
    return series["phase"] == phase


def seconds_into_phase(series: Mapping[str, np.ndarray]) -> np.ndarray:
    """Returns for each sample the seconds since its phase was last entered, shape (samples,)."""
    seconds, phase = series["seconds"], series["phase"]
    starts = np.flatnonzero(np.diff(phase, prepend=phase[:1]))
    # What was sampled as the phase before ended is where this one begins.
    entered = np.concatenate([seconds[:1], seconds[starts - 1]])
    return seconds - entered[np.searchsorted(starts, np.arange(len(seconds)), side="right")]


def share_at_zero(values: np.ndarray, weights: np.ndarray, threshold: float) -> float | None:
    """Returns the share of the known values below a threshold; None where none is known.

    Args:
        values: Shape (samples,), NaN where unknown.
        weights: Seconds that each stands for, shape (samples,).
        threshold: Least value that counts as more than zero.
    """
    known = np.isfinite(values) & (weights > 0)
    if not known.any():
        return None
    return float(weights[known & (values < threshold)].sum() / weights[known].sum())


def spread(values: np.ndarray, weights: np.ndarray) -> dict[str, float | None]:
    """Returns the weighted median, quartiles and mean of the known values.

    Args:
        values: Shape (samples,), NaN where unknown.
        weights: Seconds that each stands for, shape (samples,).

    Returns:
        `median`, `q1`, `q3`, `mean`; None where no value is known. A quantile is the least value
        that so large a share of the time does not exceed.
    """
    known = np.isfinite(values) & (weights > 0)
    if not known.any():
        return dict.fromkeys(("median", "q1", "q3", "mean"))
    low, median, high = _quantiles(values[known], weights[known], (0.25, 0.5, 0.75))
    mean = float(np.average(values[known], weights=weights[known]))
    return {"median": median, "q1": low, "q3": high, "mean": mean}


def _quantiles(
    values: np.ndarray, weights: np.ndarray, shares: tuple[float, ...]
) -> Iterator[float]:
    """Yields weighted quantiles, as NumPy's `inverted_cdf` does, for NumPy before 2 too.

    Args:
        values: Shape (samples,).
        weights: Positive, shape (samples,).
        shares: Between 0 and 1.
    """
    order = np.argsort(values, kind="stable")
    reached = np.cumsum(weights[order])
    for share in shares:
        yield float(values[order][np.searchsorted(reached / reached[-1], share)])


def bridged(seconds: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Returns values with the unknown ones between two known filled in on a straight line.

    Args:
        seconds: Shape (samples,), rising.
        values: Shape (samples,), NaN where unknown; before the first and after the last known
            they stay so.
    """
    known = np.isfinite(values)
    if not known.any():
        return values
    return np.interp(seconds, seconds[known], values[known], left=np.nan, right=np.nan)


def energy(
    series: Mapping[str, np.ndarray], phase: int | None
) -> tuple[float | None, float, str | None]:
    """Returns the energy that the GPU used during a phase.

    From NVML's counter where there is one, otherwise the integral of the power by the trapezoid
    rule; where a reading failed, on a straight line between its neighbours.

    Args:
        series: Column -> values, as `Sampler.series` gives it.
        phase: Index of the phase; None for all of the samples.

    Returns:
        Joules, the seconds of the phase that they were used in, and `counter` or `power`; None,
        0 and None where neither is known.
    """
    weights = np.where(in_phase(series, phase), intervals(series), 0.0)
    counter = bridged(series["seconds"], series["gpu_energy_joules"])
    power = bridged(series["seconds"], series["gpu_power_watts"])
    steps = {
        "counter": np.diff(counter, prepend=counter[:1]),
        "power": intervals(series) * (power + np.concatenate([power[:1], power[:-1]])) / 2,
    }
    for source, joules in steps.items():
        known = np.isfinite(joules) & (weights > 0)
        if known.any():
            return float(joules[known].sum()), float(weights[known].sum()), source
    return None, 0.0, None


def summary(series: Mapping[str, np.ndarray], phase: int | None = None) -> dict[str, Any]:
    """Summarises the samples of a phase.

    Args:
        series: Column -> values, as `Sampler.series` gives it.
        phase: Index of the phase, -1 for what is in none; None for all of the samples.

    Returns:
        samples, seconds; for each utilisation X the weighted median `X`, the quartiles `X_q1` and
        `X_q3` and `X_mean`; process_zero_share and gpu_zero_share, the share of the time at zero
        (below 1 % of a core, and below 1 %); foreign_cores, the cores that others kept busy on
        average; memory_peak_mb and gpu_memory_peak_mb, the largest sampled; gpu_energy_joules,
        gpu_energy_source and the mean gpu_power_watts. None where unknown.
        gpu_settled is whether the GPU's utilisation leaves out the first second of the phase,
        in which NVML still averages over what came before; False where the phase is too short
        for that, None where no utilisation is known.
    """
    chosen = in_phase(series, phase)
    weights = np.where(chosen, intervals(series), 0.0)
    gpu_known = np.isfinite(series["gpu_percent"]) & (weights > 0)
    late = seconds_into_phase(series) >= SETTLE_SECONDS
    settled = bool((late & gpu_known).any()) if gpu_known.any() else None
    gpu_weights = np.where(late, weights, 0.0) if settled else weights

    found: dict[str, Any] = {"samples": int(chosen.sum()), "seconds": float(weights.sum())}
    for column in UTILISATIONS:
        used = gpu_weights if column in GPU_COLUMNS else weights
        values = spread(series[column], used)
        found[column] = values.pop("median")
        found.update({f"{column}_{name}": value for name, value in values.items()})
    found["process_zero_share"] = share_at_zero(series["process_cores"], weights, IDLE_CORES)
    found["gpu_zero_share"] = share_at_zero(series["gpu_percent"], gpu_weights, IDLE_PERCENT)
    found["gpu_settled"] = settled
    foreign = spread(series["foreign_cores"], weights)["mean"]
    found["foreign_cores"] = None if foreign is None else max(0.0, foreign)
    found["memory_peak_mb"] = _largest(series["memory_mb"][chosen])
    found["gpu_memory_peak_mb"] = _largest(series["gpu_memory_mb"][chosen])
    joules, seconds, source = energy(series, phase)
    found["gpu_energy_joules"], found["gpu_energy_source"] = joules, source
    found["gpu_power_watts"] = None if joules is None else joules / seconds
    return found


def _largest(values: np.ndarray) -> float | None:
    known = values[np.isfinite(values)]
    return float(known.max()) if len(known) else None


def physical_gpu(visible: str | None, gpu: int, uuids: list[str]) -> int | str | None:
    """Returns which of the machine's GPUs a process sees under an index.

    Args:
        visible: CUDA_VISIBLE_DEVICES: indices, or UUIDs or their unambiguous beginnings, up to
            the first that is none; None where it is not set.
        gpu: Index among the GPUs that the process sees.
        uuids: UUID of each GPU of the machine.

    Returns:
        Index of the GPU on the machine; the UUID of a MIG device where that is what is named;
        None where the process sees no such GPU.
    """
    if visible is None:
        return gpu if gpu < len(uuids) else None
    seen: list[int | str] = []
    for entry in (part.strip() for part in visible.split(",")):
        if entry.startswith("MIG-"):
            seen.append(entry)
            continue
        if entry.isdecimal():
            matches = [int(entry)] if int(entry) < len(uuids) else []
        else:
            begins = [uuid.startswith(entry) for uuid in uuids]
            matches = [index for index, found in enumerate(begins) if found and entry]
        if len(matches) != 1:
            break
        seen.append(matches[0])
    return seen[gpu] if gpu < len(seen) else None


class _Gpu:
    """One GPU through NVML; what it does not support is NaN and not asked for again."""

    def __init__(self, gpu: int) -> None:
        import pynvml

        self._nvml = pynvml
        pynvml.nvmlInit()
        try:
            self._handle, self.name, self.uuid = self._find(gpu)
        except BaseException:
            pynvml.nvmlShutdown()
            raise
        self._queries: dict[tuple[str, ...], Callable[[], tuple[float, ...]]] = {
            ("gpu_percent", "gpu_bandwidth_percent"): self._utilisation,
            ("gpu_memory_mb",): self._memory,
            ("gpu_power_watts",): self._power,
            ("gpu_energy_joules",): self._energy,
        }

    def _find(self, gpu: int) -> tuple[Any, str, str]:
        nvml = self._nvml
        handles = [nvml.nvmlDeviceGetHandleByIndex(i) for i in range(nvml.nvmlDeviceGetCount())]
        uuids = [str(nvml.nvmlDeviceGetUUID(handle)) for handle in handles]
        visible = os.environ.get("CUDA_VISIBLE_DEVICES")
        found = physical_gpu(visible, gpu, uuids)
        if found is None:
            raise LookupError(
                f"gpu: received {gpu}; an index of the GPUs that this process sees is expected: "
                f"CUDA_VISIBLE_DEVICES is {visible!r}, and the machine has {len(uuids)}."
            )
        if isinstance(found, str):
            handle = nvml.nvmlDeviceGetHandleByUUID(found)
            return handle, str(nvml.nvmlDeviceGetName(handle)), found
        return handles[found], str(nvml.nvmlDeviceGetName(handles[found])), uuids[found]

    def read(self) -> list[float]:
        found = dict.fromkeys(GPU_COLUMNS, math.nan)
        for columns, query in list(self._queries.items()):
            try:
                found.update(zip(columns, query(), strict=True))
            except (self._nvml.NVMLError_NotSupported, self._nvml.NVMLError_FunctionNotFound):
                del self._queries[columns]
            except self._nvml.NVMLError:
                # A passing refusal, such as a timeout, costs one sample and not the training.
                continue
        return list(found.values())

    def _utilisation(self) -> tuple[float, ...]:
        rates = self._nvml.nvmlDeviceGetUtilizationRates(self._handle)
        return float(rates.gpu), float(rates.memory)

    def _memory(self) -> tuple[float, ...]:
        return (self._nvml.nvmlDeviceGetMemoryInfo(self._handle).used / MEGABYTE,)

    def _power(self) -> tuple[float, ...]:
        return (self._nvml.nvmlDeviceGetPowerUsage(self._handle) / 1000,)

    def _energy(self) -> tuple[float, ...]:
        return (self._nvml.nvmlDeviceGetTotalEnergyConsumption(self._handle) / 1000,)

    def close(self) -> None:
        with contextlib.suppress(self._nvml.NVMLError):
            self._nvml.nvmlShutdown()


def _open_gpu(gpu: int) -> tuple[_Gpu | None, dict[str, str]]:
    """Returns the GPU, or None, and its name and UUID, or why there is none."""
    import pynvml

    try:
        opened = _Gpu(gpu)
    except (pynvml.NVMLError, LookupError) as error:
        return None, {"problem": str(error)}
    return opened, {"name": opened.name, "uuid": opened.uuid}


class Sampler:
    """Samples utilisation and memory in a thread while the block runs.

    ::

        with Sampler(cores=2) as sampler:
            with sampler.phase("batch_size", 32):
                work()
        summary(sampler.series(), 0)

    Work under one name and value is one phase, however often it is entered. The sampling's own
    CPU time is not counted as the process's. Whatever cannot be measured is unknown and stops
    nothing. CUDA counts GPUs of different kinds in another order than NVML unless
    CUDA_DEVICE_ORDER is PCI_BUS_ID; `gpu_device` says which one was sampled.

    Args:
        interval: Seconds between samples.
        cores: Cores that the process was given: all of them busy is 100 %.
        gpu: Index among the GPUs that the process sees, which CUDA_VISIBLE_DEVICES decides; None
            where none is used.

    Attributes:
        phases: Name and value of each phase; a sample's phase is an index into it.
        gpu_device: `name` and `uuid` of the GPU, or the `problem` why it cannot be sampled; None
            where none is asked for.
        own_seconds: CPU time of the sampling itself.

    Raises:
        ValueError: If the interval or the cores are not positive, or the index is negative.
    """

    def __init__(self, interval: float = 0.1, cores: int = 1, gpu: int | None = None) -> None:
        if interval <= 0:
            raise ValueError(f"interval: received {interval}; a positive number is expected.")
        if cores <= 0:
            raise ValueError(f"cores: received {cores}; a positive number is expected.")
        if gpu is not None and gpu < 0:
            raise ValueError(f"gpu: received {gpu}; None or an index from 0 is expected.")
        self._interval, self._cores, self._gpu_index = interval, cores, gpu
        self._machine_cores = psutil.cpu_count(logical=True) or 1
        self._process = psutil.Process()
        self._lock = threading.Lock()
        self._gpu: _Gpu | None = None
        self.gpu_device: dict[str, str] | None = None
        self._clear()

    def _clear(self) -> None:
        # One flat array of doubles: an hour at 0.1 s is under 4 MB.
        self._rows = array.array("d")
        self._phase = OUTSIDE
        self.phases: list[tuple[str, Any]] = []
        self.own_seconds = self._own_before = 0.0
        self._before: Clock | None = None

    def __enter__(self) -> Sampler:
        """Starts sampling."""
        self._clear()
        if self._gpu_index is not None:
            self._gpu, self.gpu_device = _open_gpu(self._gpu_index)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="sampler", daemon=True)
        self.sample()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Ends sampling; the samples stay."""
        self._stop.set()
        self._thread.join()
        self.sample()
        if self._gpu is not None:
            self._gpu.close()
            self._gpu = None

    def _run(self) -> None:
        begun = time.monotonic()
        tick = 1
        # Each wait ends at a multiple of the interval, so that lateness does not add up.
        while not self._stop.wait(max(0.0, begun + tick * self._interval - time.monotonic())):
            self.sample()
            tick = max(tick + 1, math.ceil((time.monotonic() - begun) / self._interval))

    @contextlib.contextmanager
    def phase(self, name: str, value: Any = None) -> Iterator[int]:
        """Gives the samples of the block to a phase.

        Args:
            name: What tells phases apart, such as `batch_size`.
            value: Its value.

        Yields:
            Index of the phase.
        """
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

    def sample(self) -> None:
        """Takes a sample now."""
        with self._lock:
            self._take()

    def _take(self) -> None:
        own = time.thread_time()
        now, before = cpu_times(), self._before
        process = machine = foreign = math.nan
        if before is not None and now.seconds > before.seconds:
            seconds = now.seconds - before.seconds
            all_of_process = (now.process - before.process) / seconds
            machine = (now.machine - before.machine) / seconds
            foreign = machine - all_of_process
            process = max(0.0, all_of_process - (self.own_seconds - self._own_before) / seconds)
        # What this sample itself uses falls into the next one's time.
        self._own_before, self._before = self.own_seconds, now
        memory = self._process.memory_info().rss / MEGABYTE
        gpu = self._gpu.read() if self._gpu is not None else [math.nan] * len(GPU_COLUMNS)
        self._rows.extend(
            (
                now.seconds,
                self._phase,
                100 * process / self._cores,
                process,
                100 * machine / self._machine_cores,
                foreign,
                memory,
                *gpu,
            )
        )
        self.own_seconds += time.thread_time() - own

    def series(self) -> dict[str, np.ndarray]:
        """Returns the samples so far.

        Returns:
            Column -> values of shape (samples,), float64, NaN where unknown: seconds since the
            start; phase, int64, -1 outside of all; process_percent of the cores given;
            process_cores; machine_percent of all logical cores; foreign_cores, which ticks of
            the machine's clock can make negative; resident memory_mb (10^6 bytes); gpu_percent,
            gpu_bandwidth_percent, gpu_memory_mb (of all processes), gpu_power_watts,
            gpu_energy_joules since the start.
        """
        with self._lock:
            rows = np.array(self._rows).reshape(-1, len(COLUMNS))
        columns: dict[str, np.ndarray] = dict(zip(COLUMNS, rows.T.copy(), strict=True))
        for name in ("seconds", "gpu_energy_joules"):
            known = columns[name][np.isfinite(columns[name])]
            columns[name] -= known[0] if len(known) else 0.0
        return {**columns, "phase": columns["phase"].astype(np.int64)}


def as_lists(sampler: Sampler, column: str | None = None) -> dict[str, list[Any]]:
    """Returns a sampler's series for a record: lists, each sample with its phase's value.

    Columns that are unknown throughout are left out; four digits are kept, of the seconds
    three decimals.

    Args:
        sampler: The sampler.
        column: Name of the phases whose values are kept, in a column of that name that is None
            outside of them; None for the first phase's. Where there are phases of other names,
            the column `phase` has the names of all.
    """
    series = sampler.series()
    column = column or (sampler.phases[0][0] if sampler.phases else "phase")
    labels = [
        sampler.phases[index] if index != OUTSIDE else (None, None) for index in series.pop("phase")
    ]
    found: dict[str, list[Any]] = {
        column: [value if name == column else None for name, value in labels],
        "seconds": [round(float(value), 3) for value in series.pop("seconds")],
    }
    if any(name != column for name, _ in sampler.phases):
        found["phase"] = [name for name, _ in labels]
    for column, samples in series.items():
        if np.isfinite(samples).any():
            found[column] = [float(f"{value:.4g}") for value in samples]
    return found


class PeakMemory(NamedTuple):
    """Peak resident memory of this process.

    Args:
        megabytes: 10^6 bytes.
        source: `VmHWM` or `ru_maxrss`.
        since: `reset` or `start`, of the process.
    """

    megabytes: float
    source: str
    since: str


_was_reset = False


def reset_peak_memory() -> bool:
    """Lets `peak_memory` count from now on.

    Returns:
        Whether the system allows it; if not, the peak stays that of the whole process.
    """
    global _was_reset
    try:
        _CLEAR_REFS.write_text(_RESET_PEAK, encoding="ascii")
    except OSError:
        return False
    _was_reset = True
    return True


def peak_memory() -> PeakMemory:
    """Returns the peak resident memory since the last reset, as the kernel has kept it.

    A peak between two samples is part of it. From /proc/self/status on Linux; elsewhere from
    getrusage, which knows no reset.
    """
    try:
        lines = _STATUS.read_text(encoding="utf-8").splitlines()
        kibibytes = next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:"))
    except (OSError, StopIteration):
        import resource

        largest = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        unit = 1 if sys.platform == "darwin" else KIBIBYTE
        return PeakMemory(largest * unit / MEGABYTE, "ru_maxrss", "start")
    since = "reset" if _was_reset else "start"
    return PeakMemory(kibibytes * KIBIBYTE / MEGABYTE, "VmHWM", since)


def reset_tensorflow_peak_memory(device: str) -> bool:
    """Lets `tensorflow_peak_memory` count from now on.

    Args:
        device: `cpu`, `gpu`, or one of several, such as `GPU:1`.

    Returns:
        Whether TensorFlow keeps count on the device.
    """
    import tensorflow as tf

    try:
        tf.config.experimental.reset_memory_stats(_tensorflow_name(device))
    except ValueError:
        return False
    return True


def tensorflow_peak_memory(device: str) -> float | None:
    """Returns the most that TensorFlow's tensors held at once on a device, since the last reset.

    It is what TensorFlow's allocator gave out, in blocks of up to twice a tensor's size, not what
    the allocator has taken from the system. TensorFlow's documentation promises it for GPUs and
    TPUs alone; 2.21 counts on the CPU too.

    Args:
        device: `cpu`, `gpu`, or one of several, such as `GPU:1`.

    Returns:
        10^6 bytes; None where TensorFlow does not tell.
    """
    import tensorflow as tf

    try:
        peak = tf.config.experimental.get_memory_info(_tensorflow_name(device))["peak"]
    except ValueError:
        return None
    # An allocator that keeps no count says 0.
    return peak / MEGABYTE if peak else None


def _tensorflow_name(device: str) -> str:
    name = device.upper()
    return name if ":" in name else f"{name}:0"
