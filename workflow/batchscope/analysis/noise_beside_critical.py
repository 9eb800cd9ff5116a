"""The gradient noise scale of some trainings beside the critical batch size of others."""

from __future__ import annotations

import math

import pandas

from batchscope import wording
from batchscope.analysis import intervals, ratio_intervals, run_series
from batchscope.analysis.updates_to_target import Target

_SAME = ("dataset", "model", "optimizer")


def sentence(runs: pandas.DataFrame, critical: pandas.DataFrame) -> str:
    """Returns how many critical batch sizes the noise scale at the end of trainings is.

    Empty where either is not known, or of several series. Of `critical`, the rows of
    critical_batch_size.csv of other experiments, the last target that was fitted counts.
    """
    if "gradient_variance" not in runs or critical.empty or len(run_series.series(runs)) > 1:
        return ""
    known = critical[critical["points"] > 0]
    for name in _SAME:
        known = known[known[name] == runs[name].iloc[0]]
    if known.empty or known["target"].duplicated().any():
        return ""
    names = [f"critical_batch_size{end}" for end in intervals.ENDS]
    value, low, high = known.iloc[-1][names].astype(float)
    if math.isnan(value):
        return ""
    target = Target(*known.iloc[-1][["target_column", "target_value"]])
    parts = []
    for size, rows in run_series.finished(runs).groupby("batch_size"):
        noise = ratio_intervals.fieller(rows["gradient_variance"], rows["gradient_norm_squared"])
        if noise.resolved and not noise.open:
            ratio = wording.estimate(noise.ratio / value, noise.low / high, noise.high / low)
            what = "" if parts else f" the critical batch size to {target.words}"
            by = "" if parts else " by the ends of both intervals"
            ends = f" ({ratio.low} to {ratio.high}{by})" if ratio.low else ""
            parts.append(f"{ratio.value} times{what} at batch size {size}{ends}")
    text = f"At the end of the training the noise scale is {wording.listed(parts)}."
    return text if parts else ""
