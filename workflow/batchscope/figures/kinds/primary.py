"""The outcome that decides between batch sizes, by batch size; sizes of the headline are shaded.

A row has the value of one seed and the mean of its batch size, at the learning rate and the budget
of the comparison.
"""

from dataclasses import replace

import numpy as np
import pandas
from matplotlib.figure import Figure

from batchscope.analysis import advice_series, run_series
from batchscope.analysis.advice import Item, listed_sizes
from batchscope.analysis.chosen_rates import RATE
from batchscope.analysis.targets import Target
from batchscope.analysis.trainings import RUN_LOSS
from batchscope.core import display
from batchscope.figures import FigureTables, canvas, figure_rows
from batchscope.figures.kinds import by_batch_size
from batchscope.store import records
from batchscope.study import outcomes, specifications, tasks
from batchscope.study.figures import PRIMARY
from batchscope.study.outcomes import COSTS, TARGET
from batchscope.study.specifications import Panel, Scale
from batchscope.study.table_entries import value_range

TARGET_COLUMNS = ["target_column", "target_value"]
_MEAN_ENDS = ("mean_low", "mean_high")
_COLUMNS = ["outcome", *TARGET_COLUMNS, "batch_size", "seeds", "seed", "value", "mean", *_MEAN_ENDS]
_COLUMNS.append("recommended")
_RECOMMENDED = {"color": "#009E73", "alpha": 0.18, "lw": 0, "zorder": 0}


def deciding_outcomes(advice: pandas.DataFrame) -> list[str]:
    limits = advice["item"].eq("limit") & advice["batch_size"].notna()
    return list(dict.fromkeys(advice.loc[limits, "name"]))


def outcome_words(row: pandas.Series) -> str:
    """Return the outcome of a row in words: `seconds to validation loss 0.1`."""
    if row["outcome"] == RUN_LOSS:
        return "lowest validation loss"
    if row["outcome"] not in COSTS or pandas.isna(row["target_value"]):
        return tasks.column_words(row["outcome"])
    return f"{row['outcome']} to {target_words(row)}"


def target_words(row: pandas.Series) -> str:
    column, value = row[TARGET_COLUMNS]
    has_target = pandas.notna(column) and column
    return f"{tasks.column_words(column)} {display.number(value)}" if has_target else "the target"


def with_title_and_caption(
    spec: specifications.Figure, frame: pandas.DataFrame
) -> specifications.Figure:
    """Return the figure with the outcome in its title, and with shaded sizes in its caption.

    The outcome is that of all its series, if they have the same.
    """
    words = {outcome_words(row) for _, row in frame.iterrows()}
    outcome = words.pop() if len(words) == 1 else "deciding outcome"
    is_shaded = spec.kind == "primary" and frame["recommended"].eq(1).any()
    shaded = " Shaded: the batch sizes of the headline." if is_shaded else ""
    title = display.capital(spec.title.format(outcome=outcome))
    return replace(spec, title=title, caption=spec.caption + shaded)


def select(tables: FigureTables, spec: specifications.Figure) -> pandas.DataFrame:
    """Return a row per series, batch size and seed, with the mean of the size.

    The figure `primary` has the outcome that decides; `primary_outcome` has the first other one
    that is no cost.
    """
    frames = []
    for _, factors, series in tables.by_series("comparisons", "runs", "trajectories"):
        names = deciding_outcomes(series.advice)
        if spec.name != PRIMARY:
            names = [name for name in names[1:] if name not in COSTS]
        frames += [_outcome_rows(series, name).assign(**factors) for name in names[:1]]
    frames = [frame for frame in frames if frame["batch_size"].nunique() > 1]
    return pandas.concat(frames, ignore_index=True) if frames else pandas.DataFrame()


def _outcome_rows(series: FigureTables, outcome: str) -> pandas.DataFrame:
    advice, compared = series.advice, advice_series.limit_rows(series.comparisons, outcome)
    compared = compared[compared["mean"].notna()].drop_duplicates("batch_size")
    if compared.empty:
        return pandas.DataFrame(columns=_COLUMNS)
    recommended = advice[advice["item"].eq(Item.RECOMMENDATION) & advice["batch_size"].notna()]
    sizes = [size for cell in recommended["sizes"] for size in listed_sizes(cell)]
    is_recommended = compared["batch_size"].isin(sizes).astype(int)
    frame = compared.assign(outcome=outcome, recommended=is_recommended)
    frame = frame.merge(_seed_values(outcome, compared, series), on="batch_size", how="left")
    return frame.sort_values(["batch_size", "seed"]).reindex(columns=_COLUMNS)


def _seed_values(
    outcome: str, compared: pandas.DataFrame, series: FigureTables
) -> pandas.DataFrame:
    """Return the value of each seed, at the learning rate of the comparison if it has one."""
    keys, rates = ["batch_size", "seed"], ["batch_size"]
    rates += [RATE] if compared[RATE].notna().all() else []
    rows, evaluations = run_series.finished_runs(series.runs), series.trajectories
    if compared["budget"].iloc[0] == TARGET:
        target = Target(*compared[["budget_column", "budget_value"]].iloc[0])
        chosen_evaluations = evaluations.merge(compared[rates], on=rates)
        costs = target.crossings(chosen_evaluations, outcome, keys, series.metrics)
        costs = costs.where(np.isfinite(costs)).rename_axis(keys).rename("value")
        return costs.reset_index().assign(target_column=target.column, target_value=target.value)
    if compared["budget"].iloc[0] == outcomes.CONVERGENCE and outcome in evaluations:
        evaluations = run_series.finished_runs(evaluations.dropna(subset="validation_loss"))
        if evaluations[outcome].notna().all():
            run_keys = [name for name in figure_rows.RUN_KEYS if name in evaluations]
            rows = evaluations.loc[evaluations.groupby(run_keys)["validation_loss"].idxmin()]
    values = rows.merge(compared[rates], on=rates).rename(columns={outcome: "value"})
    return values.reindex(columns=[*keys, "value"]).dropna(subset="value")


def draw(frame: pandas.DataFrame, spec: specifications.Figure) -> Figure:
    """Return a panel for each of the first series.

    Intervals of few seeds are left out, and others end at the possible values of the outcome. A
    mean without values of seeds becomes a point.
    """
    few = frame["seeds"] < outcomes.MIN_SEEDS_FOR_INTERVAL
    least, largest = np.array([value_range(outcome) for outcome in frame["outcome"]]).T
    ends = {name: frame[name].clip(least, largest).mask(few) for name in _MEAN_ENDS}
    value, seed = frame["value"].fillna(frame["mean"]), frame["seed"].fillna(0)
    frame = frame.assign(**ends, value=value, seed=seed, status=records.FINISHED)
    contents = [_content(group) for group in run_series.split_series(frame)[: canvas.MAX_SERIES]]
    figure, grid = by_batch_size.draw_contents(frame, contents, min(2, len(contents)))
    for axes, content in zip(grid, contents, strict=True):
        recommended = content.frame.loc[content.frame["recommended"].eq(1), "batch_size"]
        half = canvas.min_doublings(content.frame["batch_size"].tolist()) / 2
        for position in np.log2(recommended.unique()):
            axes.axvspan(position - half, position + half, **_RECOMMENDED)
    return figure


def _content(group: run_series.Series) -> by_batch_size.PanelContent:
    row = group.frame.iloc[0]
    words = outcome_words(row)
    scale = Scale.LOG if row["outcome"] in COSTS else Scale.AUTO
    panel = Panel("value", words, display.lower(words), scale, ends=_MEAN_ENDS)
    heading = display.titled(display.capital(words), group.label)
    return by_batch_size.PanelContent(panel, heading, [replace(group, label="")])
