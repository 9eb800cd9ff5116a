"""The gradient noise scale over seeds: along a training, and beside critical batch sizes."""

from __future__ import annotations

import math
from itertools import chain
from typing import NamedTuple

import numpy as np
import pandas

from batchscope import wording
from batchscope.analysis import (
    chosen_rates,
    intervals,
    ratio_intervals,
    run_series,
    to_target_tables,
)
from batchscope.analysis.ratio_intervals import Ratio
from batchscope.analysis.updates_to_target import Scaling, Target

START, EARLY, END = "start", "epoch", "end"  # places in a training
ENDINGS = {START: "_start", END: ""}  # place -> how the columns of runs.csv end that are of it
# Place -> the columns of a noise scale and its interval beside a critical batch size.
BESIDE = {place: [f"noise_scale_{place}{end}" for end in intervals.ENDS] for place in ENDINGS}
_COLUMNS = ["noise_batch_size", *chain(*BESIDE.values())]
_SAME = ("dataset", "model", "optimizer")


class Point(NamedTuple):
    """What all seeds of one batch size say of one place in the training."""

    place: str
    epoch: float
    found: Ratio
    runs: pandas.DataFrame

    @property
    def ends(self) -> tuple[float, float]:
        """The ends of its bar, which may be NaN: of a single run the jackknife's error."""
        if len(self.runs) > 1:
            return self.found.low, self.found.high
        error = float(self.runs["gradient_noise_scale_error"].iloc[0])
        return self.found.ratio - error, self.found.ratio + error


def points(rows: pandas.DataFrame, size: int) -> list[Point]:
    """Returns what the finished runs of a batch size say, in order of their training."""
    chosen = run_series.finished(rows[rows["batch_size"] == size])
    chosen = chosen[chosen["gradient_variance"].notna()]
    # Trainings that stopped by patience end at epochs of their own.
    place = chosen["place"].where(chosen["place"] != EARLY, chosen["epoch"].map("{:08.0f}".format))
    return [
        Point(group["place"].iloc[0], float(group["epoch"].mean()), _of(group), group)
        for _, group in chosen.groupby(place, sort=False)
    ]


def beside(frame: pandas.DataFrame, runs: pandas.DataFrame) -> pandas.DataFrame:
    """Returns critical batch sizes with the noise scales of the same trainings.

    Of `to_target_tables.joined`, those of the finished runs at the batch size nearest to the
    critical one, at its learning rate. An end that is open is infinite.
    """
    noise = [_nearest(scaling, runs) for scaling in to_target_tables.restored(frame)]
    keys = to_target_tables.distinguishing(frame)
    groups = frame.groupby(keys, sort=False, dropna=False).ngroup() if len(frame) else []
    return frame.assign(**{name: [noise[group][name] for group in groups] for name in _COLUMNS})


def _nearest(scaling: Scaling, runs: pandas.DataFrame) -> dict[str, float]:
    """Returns the noise scale beside a critical batch size; NaN where it is not measured."""
    values = dict.fromkeys(_COLUMNS, math.nan)
    if scaling.fit is None or "gradient_variance" not in runs:
        return values
    sizes = np.array(scaling.batch_sizes)[scaling.fitted]
    centre = scaling.fit.critical_batch_size
    centre = centre if math.isfinite(centre) else float(np.median(sizes))
    size = int(sizes[np.abs(np.log(sizes / centre)).argmin()])
    own = run_series.finished(runs[runs["batch_size"] == size])
    for name, value in scaling.factors.items():
        own = own[own[name] == value]
    if scaling.rates:
        rate = scaling.rates["updates"].chosen[scaling.batch_sizes.index(size)]
        own = own[own[chosen_rates.RATE] == rate]
    for place, ending in ENDINGS.items():
        ratio = _of(own, ending)
        if ratio.resolved:
            found = (math.nan if ratio.open else ratio.ratio, ratio.low, ratio.high)
            values |= dict(zip(BESIDE[place], found, strict=True), noise_batch_size=size)
    return values


def _of(runs: pandas.DataFrame, ending: str = "") -> Ratio:
    parts = (runs[f"gradient_{name}{ending}"] for name in ("variance", "norm_squared"))
    return ratio_intervals.fieller(*parts)


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
        noise = _of(rows)
        if noise.resolved and not noise.open:
            ratio = wording.estimate(noise.ratio / value, noise.low / high, noise.high / low)
            what = "" if parts else f" the critical batch size to {target.words}"
            by = "" if parts else " by the ends of both intervals"
            ends = f" ({ratio.low} to {ratio.high}{by})" if ratio.low else ""
            parts.append(f"{ratio.value} times{what} at batch size {size}{ends}")
    text = f"At the end of the training the noise scale is {wording.listed(parts)}."
    return text if parts else ""
