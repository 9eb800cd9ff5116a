"""The answer of a timing experiment: what each configuration does on each machine."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import pandas

from batchscope import wording
from batchscope.analysis import intervals, run_series, step_cost
from batchscope.catalogue import value_ranges
from batchscope.host import absence
from batchscope.report.text import format_interval

READING = (
    "Throughput is the median of timed blocks, alone on the machine, in turns over all batch "
    "sizes. The time of a step is fitted as fixed cost + cost per example \N{MULTIPLICATION SIGN} "
    "batch size, by relative errors; intervals are 95 % (Student's t over batch sizes, joined with "
    "that over rounds of turns) and say how well the line fits these sizes on this machine, not "
    "how another machine would do. The plateau is what throughput tends to: one over the cost per "
    "example where the line fits, or else the median of the largest sizes. The knee is where it "
    "reaches 90 % of that: 9 times fixed cost over cost per example by the fit (interval: delta "
    "method for its logarithm), and the smallest timed size after which no upper quartile of the "
    "blocks falls short. The ceiling is the peak of a matrix product over the operations that the "
    "model takes per example. It is a bound, and every job measures it once: the highest of the "
    "experiment on the same machine, device, threads and type counts. A difference below the noise "
    "floor, by which a batch size differs from itself, means nothing; above a noise floor of "
    f"{wording.percent(step_cost.MOST_NOISE - 1, 0)} no plateau, knee, ceiling or batch size of "
    "half a step is stated."
)

_SHARE_OF = step_cost.PLATEAU_SHARE
_SHARE = wording.percent(_SHARE_OF, 0)
_MOST_SIZES = 5  # batch sizes whose throughput is listed

Row = dict[str, Any]


def build(frame: pandas.DataFrame, throughput: pandas.DataFrame) -> dict[str, Any] | None:
    """Returns the answer as a table, one column per configuration; None where nothing is timed.

    A configuration that waits for what is not here has no column; `left_out` says so.
    """
    if frame.empty:
        return None
    titles: list[str] = []
    columns: list[Row] = []
    left_out: list[str] = []
    for group in run_series.series(frame.assign(batch_size=0, seed=0)):
        for row in group.frame.to_dict("records"):
            title = group.label or f"{row['model']} on {row['dataset']}"
            column = {key: value for key, value in row.items() if not pandas.isna(value)}
            column["by_size"] = _by_size(throughput, row)
            waits_for = absence.WORDS.get(column.get("status"))
            if waits_for and not any(cell(column) for _, cell in _ROWS):
                left_out.append(f"{title} ({waits_for})")
                continue
            titles.append(title)
            columns.append(column)
    rows = []
    for label, cell in _ROWS:
        cells = [cell(column) for column in columns]
        if any(cells):
            rows.append((label, [text or "not measured" for text in cells]))
    if not rows:
        return None
    waiting = f"Left out: {'; '.join(left_out)}." if left_out else ""
    return {"titles": titles, "rows": rows, "left_out": waiting, "reading": READING}


def _by_size(throughput: pandas.DataFrame, row: Row) -> dict[int, float]:
    """Returns batch size -> examples/s of a configuration, where it was timed, in order of size."""
    same = throughput["machine"].eq(row["machine"]) & throughput["sweep"].eq(row["sweep"])
    known = throughput[same].set_index("batch_size")["images_per_second"]
    return known.dropna().sort_index().to_dict()


def _throughput(row: Row) -> str:
    """Returns the throughput of the smallest and the largest size and of some between them."""
    sizes = list(row["by_size"])
    if not sizes:
        return ""
    last, parts = len(sizes) - 1, _MOST_SIZES - 1
    places = dict.fromkeys(round(last * part / parts) for part in range(parts + 1))
    entries = [
        f"{sizes[place]}: {wording.number(row['by_size'][sizes[place]])}" for place in places
    ]
    return f"{', '.join(entries)} examples/s"


def _highest(row: Row) -> str:
    highest = row.get("highest_images_per_second")
    return "" if highest is None else f"{wording.number(highest)} examples/s"


def _plateau(row: Row) -> str:
    plateau = row.get("plateau_images_per_second")
    if plateau is None:
        return _noisy(row)
    knee = wording.number(_SHARE_OF * plateau)
    share = f"{wording.number(plateau)} examples/s; {_SHARE} of it: {knee}"
    return f"{share}, beyond the sizes by the fit" if _rises(row) else share


def _rises(row: Row) -> bool:
    return str(row.get("still_rising")) == "True"


def _noisy(row: Row) -> str:
    """Returns the text in place of a plateau where noise hides it, or an empty string."""
    return step_cost.TOO_NOISY if step_cost.too_noisy(row.get("noise_floor")) else ""


def _knee(row: Row) -> str:
    if _noisy(row):
        return _noisy(row)
    if _rises(row):
        return "not reached: still rising at the largest batch size"
    ends = (row.get(f"knee_fitted{end}", math.nan) for end in intervals.ENDS)
    fitted = format_interval(*ends)
    timed = row.get("knee_batch_size")
    parts = []
    if fitted is not None:
        parts.append(f"{fitted.bracketed} by the fit")
    if timed is not None:
        parts.append(f"{wording.batch_size(timed)} of the sizes timed")
    elif row.get("plateau_images_per_second") is not None:
        parts.append("not resolved among the timed sizes: none reaches it and holds it")
    return "; ".join(parts)


def _estimate(row: Row, name: str) -> str:
    values = (float(row.get(f"{name}{end}", math.nan)) for end in intervals.ENDS)
    value, low, high = value_ranges.clipped(name, values)
    return "" if math.isnan(value) else wording.cost(value, low, high)


def _half(row: Row) -> str:
    half = row.get("half_batch")
    if half is not None:
        return wording.batch_size(half)
    if _noisy(row):
        return _noisy(row)
    costs = [row.get(name, math.nan) for name in ("fixed_seconds", "seconds_per_image")]
    return "none: a cost of the fit is not positive" if any(cost <= 0 for cost in costs) else ""


def _noise(row: Row) -> str:
    factor = row.get("noise_floor")
    return "" if factor is None else wording.percent(factor - 1)


def _disturbed(row: Row) -> str:
    if row.get("blocks") is None:
        return ""
    disturbed, blocks = int(row["disturbed_blocks"]), int(row["blocks"])
    if not disturbed:
        return f"none of {blocks}"
    text = f"{disturbed} of {blocks}, disturbed again when repeated"
    return f"{text}: the machine was not alone" if disturbed > blocks / 4 else text


def _ceiling(row: Row) -> str:
    if left_out := row.get("flops_not_counted"):
        return f"none: the operations of {left_out} are not counted"
    ceiling = row.get("ceiling_images_per_second")
    peak, flops = row.get("matmul_flops_per_second"), row.get("flops_per_image")
    if ceiling is None or peak is None or flops is None:
        return _noisy(row) if peak and flops else ""
    share = row.get("share_of_ceiling")
    reached = "" if share is None else f"; {wording.percent(share)} of it reached"
    if share is not None and share > 1:
        reached += ", so it is no ceiling"
    lowest = row.get("matmul_flops_per_second_lowest", peak)
    low = wording.number(lowest / 1e9)
    others = f" (the highest measured; the lowest: {low})" if lowest < peak else ""
    return (
        f"{wording.number(ceiling)} examples/s ({wording.number(peak / 1e9)} GFLOP/s{others} over "
        f"{wording.number(flops / 1e6)} MFLOP per example){reached}"
    )


def _memory(row: Row) -> str:
    per_image = row.get("memory_mb_per_image")
    if per_image is None:
        return ""
    fixed = wording.number(row["memory_fixed_mb"])
    return f"{wording.number(per_image)} MB per example, beside {fixed} MB"


def _largest(row: Row) -> str:
    largest = row.get("max_batch_size")
    if largest is None:
        return ""
    limit = row.get("memory_limit_mb")
    within = "" if limit is None else f" within {wording.cell(limit)} MB"
    if row.get("max_batch_size_bound") == "most_fits":
        return f"at least {wording.batch_size(largest)}, the largest that was tried{within}"
    return f"{wording.batch_size(largest)}{within}"


_ROWS: tuple[tuple[str, Callable[[Row], str]], ...] = (
    ("Throughput by batch size", _throughput),
    ("Highest throughput", _highest),
    ("Plateau", _plateau),
    (f"Knee: batch size of {_SHARE} of the plateau", _knee),
    ("Fixed cost of a step", functools.partial(_estimate, name="fixed_seconds")),
    ("Cost per example", functools.partial(_estimate, name="seconds_per_image")),
    ("Half of a step is fixed cost at batch size", _half),
    ("Ceiling", _ceiling),
    ("Noise floor", _noise),
    ("Blocks that other processes disturbed", _disturbed),
    ("Memory", _memory),
    ("Largest batch size", _largest),
)
