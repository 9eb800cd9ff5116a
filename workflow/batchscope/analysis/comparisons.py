"""Each batch size of a reading against the best of the others, as the rows of comparisons.csv.

What was taken to a target is compared by its logarithm, so that differences are ratios. Rows have
the outcome's own direction: below 0 is a lower accuracy, and a loss that is lower.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import pandas

from batchscope.analysis import best_of_others, chosen_rates, contrasts, intervals, run_series
from batchscope.analysis.best_of_others import Compared
from batchscope.analysis.intervals import Interval
from batchscope.analysis.readings import Reading
from batchscope.catalogue.decision_columns import COMPARISONS
from batchscope.catalogue.outcomes import Reason, Verdict


def table(runs: pandas.DataFrame, readings: Iterable[Reading]) -> pandas.DataFrame:
    """Returns one row per reading and batch size; see `COMPARISONS`."""
    factors = [name for name in run_series.factor_columns(runs) if name != chosen_rates.RATE]
    rows = [row for reading in readings for row in _rows(reading, factors)]
    return run_series.table(rows, COMPARISONS, factors)


def _compare(reading: Reading) -> list[Compared]:
    """Compares every batch size of a reading, estimates in the outcome's own direction."""
    values, margin = reading.values if reading.rises else -reading.values, reading.margin
    whole = np.ones(len(values), bool)
    if reading.taken:
        whole = ~(reading.values <= 0).any(axis=1)  # there is no ratio to nothing
        with np.errstate(divide="ignore", invalid="ignore"):
            values = np.where(whole[:, None], -np.log(reading.values), math.inf)
        margin = math.log1p(margin)
    found = best_of_others.compare(values, margin, reading.chosen.tuned, reading.at_first)
    return [
        _own_direction(each, reading, kept, ended)
        for each, kept, ended in zip(found, whole, reading.ended, strict=True)
    ]


def _own_direction(found: Compared, reading: Reading, positive: bool, ended: bool) -> Compared:
    ends = found.estimate[:3]
    if not reading.rises:
        mean, low, high = (-end for end in ends)
        ends = (mean, high, low)
    if reading.taken:
        ends = tuple(map(contrasts.exponential, ends))
    reason, open_end = found.reason, any(map(math.isnan, ends))
    if not positive:
        reason = Reason.NOT_POSITIVE
    elif reason == Reason.NO_VALUE and ended:
        reason = Reason.NO_BUDGET
    elif found.verdict == Verdict.NOT_RESOLVED and open_end:  # which no number of seeds closes
        reason = Reason.AT_FIRST_EVALUATION
        found = found._replace(seeds_to_resolve=None, seeds_to_resolve_high=None)
    return found._replace(reason=reason, estimate=Interval(*ends, found.estimate.n))


def _rows(reading: Reading, factors: list[str]) -> Iterator[dict[str, Any]]:
    """Yields the rows of a reading, one per batch size."""
    bound = -reading.margin if reading.rises else reading.margin
    if reading.taken:
        bound = contrasts.exponential(math.log1p(reading.margin))
    marks = {"on_edge": reading.chosen.on_edge, "still_falling": reading.falling}
    marks["at_first"] = reading.at_first
    firsts = reading.trainings.runs.drop_duplicates("batch_size").set_index("batch_size")[factors]
    found = zip(reading.batch_sizes, _compare(reading), reading.means(), strict=True)
    for at, (size, compared, mean) in enumerate(found):
        against, seeds = compared.against, int(reading.ran[at].sum())
        row = {
            **firsts.loc[size].to_dict(),
            **reading.held_equal,
            "margin": reading.margin,
            "bound": bound,
            "batch_size": size,
            "learning_rate": reading.chosen.rates[at],
            **{name: int(each[at]) for name, each in marks.items()},
            "seeds": seeds,
            **intervals.columns("mean", mean[:3]),
            **compared._asdict(),
            "against": None if against is None else reading.batch_sizes[against],
            **dict(zip(("estimate", "low", "high", "n"), compared.estimate, strict=True)),
        }
        if compared.reason != Reason.NO_VALUE and seeds:
            count = int(np.isfinite(reading.values[at]).sum())
            row |= intervals.columns("reached", (count, *intervals.share(count, seeds)))
        yield row
