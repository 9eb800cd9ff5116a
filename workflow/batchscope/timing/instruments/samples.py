"""Samples of utilisation and memory, and their summaries.

Every sample represents the time since the sample before: utilisations are averages over that time,
and means and quartiles weight each sample by it. NVML's utilisation is the percentage of a time
window during which a kernel ran on the GPU (`gpu`) or its memory was read or written (`memory`).
The window has 1/6 s to 1 s. A kernel counts no matter how much of the GPU it fills.

Source: NVML API Reference Guide, nvmlUtilization_t, nvmlDeviceGetPowerUsage and
nvmlDeviceGetTotalEnergyConsumption.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

GPU_COLUMNS = (
    *("gpu_percent", "gpu_bandwidth_percent", "gpu_memory_mb"),
    *("gpu_power_watts", "gpu_energy_joules"),
)
UTILISATIONS = ("process_percent", "process_cores", "machine_percent", *GPU_COLUMNS[:2])
COLUMNS = ("seconds", "phase", *UTILISATIONS[:3], "foreign_cores", "memory_mb", *GPU_COLUMNS)
OUTSIDE = -1
# A process that uses less than 1 % of a core is idle, in agreement with NVML's whole percentages.
IDLE_CORES = 0.01
IDLE_PERCENT = 1.0
# NVML's longest window. Before it has passed, the utilisation of a phase is an average that
# includes the work before the phase.
SETTLE_SECONDS = 1.0

Series = Mapping[str, np.ndarray]  # column -> values of shape (samples,), NaN if unknown


def filled(part: dict[str, Any]) -> dict[str, Any]:
    """Return a part of a record, with the summary of its samples for keys that it lacks.

    GPU columns are left out if the samples still include the work before.
    """
    summary = part.get("utilisation") or {}
    if summary.get("gpu_settled") is False:
        unsettled = ("gpu_percent", "gpu_zero_share", "gpu_bandwidth_percent")
        summary = {name: value for name, value in summary.items() if not name.startswith(unsettled)}
    return summary | {name: value for name, value in part.items() if value is not None}


def intervals(series: Series) -> np.ndarray:
    """Return the seconds that each sample represents, shape (samples,); the first is 0."""
    seconds = series["seconds"]
    return np.diff(seconds, prepend=seconds[:1])


def seconds_into_phase(series: Series) -> np.ndarray:
    """Return the seconds from the last entry into a sample's phase, shape (samples,)."""
    seconds, phase = series["seconds"], series["phase"]
    starts = np.flatnonzero(np.diff(phase, prepend=phase[:1]))
    # A phase begins at the sample that ends the phase before.
    entered = np.concatenate([seconds[:1], seconds[starts - 1]])
    return seconds - entered[np.searchsorted(starts, np.arange(len(seconds)), side="right")]


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


def bridged(series: Series, column: str) -> np.ndarray:
    """Return a column with NaN between two values replaced by linear interpolation."""
    seconds, values = series["seconds"], series[column]
    valid = np.isfinite(values)
    if not valid.any():
        return values
    return np.interp(seconds, seconds[valid], values[valid], left=np.nan, right=np.nan)


def energy(series: Series, weights: np.ndarray) -> tuple[float | None, float, str | None]:
    """Return the energy of the GPU in a phase in J, the seconds that it covers, and its source.

    The source is NVML's `counter`, or else the integral of the `power` by the trapezoid rule.
    Failed readings are interpolated.

    Args:
        weights: Seconds that each sample represents; 0 for samples of other phases.
    """
    counter, power = bridged(series, "gpu_energy_joules"), bridged(series, "gpu_power_watts")
    steps = {
        "counter": np.diff(counter, prepend=counter[:1]),
        "power": intervals(series) * (power + np.concatenate([power[:1], power[:-1]])) / 2,
    }
    for source, joules in steps.items():
        valid = np.isfinite(joules) & (weights > 0)
        if valid.any():
            return float(joules[valid].sum()), float(weights[valid].sum()), source
    return None, 0.0, None


def summary(series: Series, phase: int | None = None) -> dict[str, Any]:
    """Summarise the samples of a phase: -1 for samples outside all phases, None for all samples.

    A utilisation X has the weighted median `X`, the quartiles `X_q1` and `X_q3`, and `X_mean`.
    Unknown values are None. `gpu_settled` is true if the GPU's utilisation leaves out the first
    second of the phase, when NVML's average includes earlier work. It is false if the phase is too
    short for that.
    """
    chosen = np.full(len(series["phase"]), phase is None) | (series["phase"] == phase)
    weights = np.where(chosen, intervals(series), 0.0)
    gpu_known = np.isfinite(series["gpu_percent"]) & (weights > 0)
    late = seconds_into_phase(series) >= SETTLE_SECONDS
    settled = bool((late & gpu_known).any()) if gpu_known.any() else None
    gpu_weights = np.where(late, weights, 0.0) if settled else weights

    result: dict[str, Any] = {"samples": int(chosen.sum()), "seconds": float(weights.sum())}
    idle = {"process_cores": IDLE_CORES, "gpu_percent": IDLE_PERCENT}
    zero_shares = {}
    for column in UTILISATIONS:
        used = gpu_weights if column in GPU_COLUMNS else weights
        values = spread(series[column], used, idle.get(column, 0.0))
        result[column], zero_shares[column] = values.pop("median"), values.pop("zero_share")
        result |= {f"{column}_{name}": value for name, value in values.items()}
    foreign = spread(series["foreign_cores"], weights)["mean"]
    joules, seconds, source = energy(series, weights)
    peaks = {}
    for column in ("memory_mb", "gpu_memory_mb"):
        memory = series[column][chosen & np.isfinite(series[column])]
        peaks[column] = float(memory.max()) if len(memory) else None
    return result | {
        "process_zero_share": zero_shares["process_cores"],
        "gpu_zero_share": zero_shares["gpu_percent"],
        "gpu_settled": settled,
        "foreign_cores": None if foreign is None else max(0.0, foreign),
        "memory_peak_mb": peaks["memory_mb"],
        "gpu_memory_peak_mb": peaks["gpu_memory_mb"],
        "gpu_energy_joules": joules,
        "gpu_energy_source": source,
        "gpu_power_watts": None if joules is None else joules / seconds,
    }
