"""Samples of utilisation and memory, and what they say together.

Every sample stands for the time since the one before it: utilisations are averages over that
time, and means and quartiles weigh each sample by it. NVML's utilisation is the percentage of
time, over a window of its own of 1/6 s to 1 s, in which a kernel ran on the GPU (`gpu`) or its
memory was read or written (`memory`); it says nothing of how much of the GPU a kernel fills.

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
# Less than 1 % of a core is no work of the process; NVML's whole percentages draw the same line.
IDLE_CORES = 0.01
IDLE_PERCENT = 1.0
# The longest window that NVML averages over: before it has passed, a phase's utilisation is still
# in part that of what came before.
SETTLE_SECONDS = 1.0

Series = Mapping[str, np.ndarray]  # column -> values of shape (samples,), NaN where unknown


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
    """Returns the seconds that each sample stands for, shape (samples,); the first for none."""
    seconds = series["seconds"]
    return np.diff(seconds, prepend=seconds[:1])


def seconds_into_phase(series: Series) -> np.ndarray:
    """Returns for each sample the seconds since its phase was last entered, shape (samples,)."""
    seconds, phase = series["seconds"], series["phase"]
    starts = np.flatnonzero(np.diff(phase, prepend=phase[:1]))
    # What was sampled as the phase before ended is where this one begins.
    entered = np.concatenate([seconds[:1], seconds[starts - 1]])
    return seconds - entered[np.searchsorted(starts, np.arange(len(seconds)), side="right")]


def spread(values: np.ndarray, weights: np.ndarray, idle: float = 0.0) -> dict[str, float | None]:
    """Returns weighted `median`, `q1`, `q3`, `mean` and `zero_share`, of what is below `idle`.

    Of known values; None without one. A quantile is the least value that so large a share of the
    time does not exceed.
    """
    known = np.isfinite(values) & (weights > 0)
    if not known.any():
        return dict.fromkeys(("median", "q1", "q3", "mean", "zero_share"))
    values, weights = values[known], weights[known]
    order = np.argsort(values, kind="stable")
    reached = np.cumsum(weights[order])  # np.quantile has no weights before NumPy 2
    places = np.searchsorted(reached / reached[-1], (0.5, 0.25, 0.75))
    return {
        **dict(zip(("median", "q1", "q3"), values[order][places].tolist(), strict=True)),
        "mean": float(np.average(values, weights=weights)),
        "zero_share": float(weights[values < idle].sum() / weights.sum()),
    }


def bridged(series: Series, column: str) -> np.ndarray:
    """Returns a column with what is unknown between two known filled in on a straight line."""
    seconds, values = series["seconds"], series[column]
    known = np.isfinite(values)
    if not known.any():
        return values
    return np.interp(seconds, seconds[known], values[known], left=np.nan, right=np.nan)


def energy(series: Series, weights: np.ndarray) -> tuple[float | None, float, str | None]:
    """Returns the joules that the GPU used in a phase, the known seconds, and their source.

    From NVML's `counter` where there is one, otherwise the integral of the `power` by the
    trapezoid rule; where a reading failed, on a straight line between its neighbours. The weights
    are the seconds that each sample stands for, of other phases 0.
    """
    counter, power = bridged(series, "gpu_energy_joules"), bridged(series, "gpu_power_watts")
    steps = {
        "counter": np.diff(counter, prepend=counter[:1]),
        "power": intervals(series) * (power + np.concatenate([power[:1], power[:-1]])) / 2,
    }
    for source, joules in steps.items():
        known = np.isfinite(joules) & (weights > 0)
        if known.any():
            return float(joules[known].sum()), float(weights[known].sum()), source
    return None, 0.0, None


def summary(series: Series, phase: int | None = None) -> dict[str, Any]:
    """Summarises the samples of a phase: -1 for those in none, None for all samples.

    A utilisation X has its weighted median `X`, the quartiles `X_q1` and `X_q3` and `X_mean`; a
    value is None where unknown. gpu_settled is whether the GPU's utilisation leaves out the first
    second of the phase, in which NVML still averages over what came before; False where the phase
    is too short for that.
    """
    chosen = np.full(len(series["phase"]), phase is None) | (series["phase"] == phase)
    weights = np.where(chosen, intervals(series), 0.0)
    gpu_known = np.isfinite(series["gpu_percent"]) & (weights > 0)
    late = seconds_into_phase(series) >= SETTLE_SECONDS
    settled = bool((late & gpu_known).any()) if gpu_known.any() else None
    gpu_weights = np.where(late, weights, 0.0) if settled else weights

    found: dict[str, Any] = {"samples": int(chosen.sum()), "seconds": float(weights.sum())}
    idle = {"process_cores": IDLE_CORES, "gpu_percent": IDLE_PERCENT}
    zero_shares = {}
    for column in UTILISATIONS:
        used = gpu_weights if column in GPU_COLUMNS else weights
        values = spread(series[column], used, idle.get(column, 0.0))
        found[column], zero_shares[column] = values.pop("median"), values.pop("zero_share")
        found |= {f"{column}_{name}": value for name, value in values.items()}
    foreign = spread(series["foreign_cores"], weights)["mean"]
    joules, seconds, source = energy(series, weights)
    peaks = {}
    for column in ("memory_mb", "gpu_memory_mb"):
        held = series[column][chosen & np.isfinite(series[column])]
        peaks[column] = float(held.max()) if len(held) else None
    return found | {
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
