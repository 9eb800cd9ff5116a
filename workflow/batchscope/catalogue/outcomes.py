"""What is asked of runs: each outcome with the direction that somebody states for it beforehand.

An outcome is a column of runs.csv with a label; one with a direction is asked about in every study.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from batchscope.catalogue import columns

RISES, FALLS = "rises", "falls"
DIRECTIONS = (RISES, FALLS)
LEVEL = 0.05  # of every test
LEAST_SEEDS = 6  # paired seeds below which no verdict is given


@dataclass(frozen=True)
class Outcome:
    """A column of runs.csv, and what somebody states of it beforehand: its direction."""

    column: str
    label: str
    unit: str
    direction: str
    source: str


def _outcome(column: str) -> Outcome | None:
    found = columns.describe(column)
    if not found or not found.label:
        return None
    return Outcome(column, found.label, found.unit, found.direction, found.source)


def outcome(column: str) -> Outcome | None:
    """Returns what is asked about a column in every study, or None."""
    found = _outcome(column)
    return found if found and found.direction else None


def stated(column: str, direction: str, source: str) -> Outcome | None:
    """Returns what a study states about a column; None for a column that is no outcome.

    Args:
        source: Who states it, where it is not what is asked anyway.
    """
    found = _outcome(column)
    if found is None or found.direction == direction:
        return found
    return replace(found, direction=direction, source=source)


def seeds_needed(batch_sizes: int, tests: int = 1) -> int:
    """Returns the paired seeds below which no trend over these batch sizes can get a verdict.

    Page's test of n seeds and k sizes gives no p below (1 / k!)^n, which Holm's adjustment
    multiplies by the number of tests. The t-test for two sizes has no smallest p.

    Args:
        batch_sizes: How many are compared, at least 2.
        tests: Tests that share the level.
    """
    if batch_sizes < 3:
        return LEAST_SEEDS
    smallest = math.log(max(tests, 1) / LEVEL) / math.lgamma(batch_sizes + 1)
    return max(LEAST_SEEDS, math.floor(smallest) + 1)
