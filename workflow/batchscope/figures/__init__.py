"""Figures of an experiment: tidy tables in, SVG, PNG and CSV out.

A specification names a table, panels, and a kind: a module of batchscope.figures.kinds with

- `draw(frame, spec) -> matplotlib.figure.Figure`, with the rows of published.csv as a third
  argument if a document has values of the figure;
- `select(tables, spec) -> DataFrame`, which returns the rows and columns of the CSV file. Without
  it, `figure_rows.select` does. A figure without rows is not drawn.

batchscope.analysis computes statistics, except for the interval of a mean, which depends on the
scale of the axis (`canvas.mean_intervals`). This module imports pandas and matplotlib only inside
functions, so that the workflow can list figures quickly.
"""

from __future__ import annotations

import functools
import importlib
import json
import os
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from batchscope.study import figure_checks, table_entries, tasks
from batchscope.study.figures import FIGURES, LEADING_FIGURES, for_tasks
from batchscope.study.outcomes import MIN_FIT_SIZES
from batchscope.study.specifications import Figure, FigureRequirement

if TYPE_CHECKING:
    import pandas
    from matplotlib.figure import Figure as Drawing

    from batchscope.study.plan import PlannedExperiment

SUFFIXES = (".svg", ".png", ".csv")
LISTING = "figures.json"


def select(tables: FigureTables, figure: Figure) -> pandas.DataFrame:
    from batchscope.figures import figure_rows

    return getattr(_kind(figure), "select", figure_rows.select)(tables, figure)


def draw(
    frame: pandas.DataFrame, figure: Figure, published_rows: pandas.DataFrame | None = None
) -> Drawing:
    """Draw the frame that `select` returned, with rows of published.csv if there are any."""
    from batchscope.figures import canvas

    optional = () if published_rows is None or published_rows.empty else (published_rows,)
    with canvas.style():
        return _kind(figure).draw(frame, figure, *optional)


def _kind(figure: Figure) -> Any:
    return importlib.import_module(f"{__name__}.kinds.{figure.kind}")


class FigureTables:
    """Tidy tables of one experiment, read from {name}.csv in a folder at first use.

    `metrics` are the user-defined metrics of the experiment.
    """

    def __init__(
        self,
        folder: Path | str | None = None,
        metrics: tasks.Metrics = (),
        **frames: pandas.DataFrame,
    ) -> None:
        vars(self).update(frames, _folder=folder, metrics=metrics)

    def __getattr__(self, name: str) -> pandas.DataFrame:
        """Read a table once; tables of timings are combined over repeated jobs."""
        import pandas

        from batchscope.analysis import timing_rows
        from batchscope.tables import csv_tables

        if name not in table_entries.TABLES:
            raise AttributeError(name)
        vars(self)[name] = pandas.DataFrame()
        if folder := self._folder:
            vars(self)[name] = timing_rows.table_over_jobs(
                name, lambda table: csv_tables.read(Path(folder, f"{table}.csv"))
            )
        return vars(self)[name]

    @property
    def tasks(self) -> tuple[str, ...]:
        return tasks.from_columns(self.history)

    def by_series(
        self, *names: str
    ) -> Iterator[tuple[dict[str, Any], dict[str, Any], FigureTables]]:
        """Yield each series with advice: its factors, the distinguishing ones, and its tables.

        Args:
            names: Tables of the series, besides its advice.
        """
        from batchscope.analysis import advice_series, run_series
        from batchscope.analysis.chosen_rates import RATE

        advice = self.advice
        factor_names = [name for name in run_series.factor_columns(advice) if name != RATE]
        varying = run_series.varying_factors(advice, factor_names)
        for factors in advice[factor_names].drop_duplicates().to_dict("records"):
            frames = {"advice": run_series.rows_with_factors(advice, factors)}
            for name in names:
                frames[name] = advice_series.select_factors(getattr(self, name), factors)
            series = FigureTables(metrics=self.metrics, **frames)
            yield factors, {name: factors[name] for name in varying}, series


def figure_names(experiment: PlannedExperiment) -> list[str]:
    """Return the names of the figures that an experiment asks for, or of all that it allows.

    Figures over epochs are followed by their variants over the other budgets.
    """
    batch_sizes = experiment.batch_sizes
    is_met = {
        FigureRequirement.AT_EPOCHS: experiment.at_epochs,
        FigureRequirement.PREFIXES: not experiment.horizon_schedule,
        FigureRequirement.EVALUATIONS: experiment.has_evaluations,
        FigureRequirement.SECONDS: experiment.timed,
        FigureRequirement.BATCH_SIZES: len(batch_sizes) >= MIN_FIT_SIZES,
        FigureRequirement.COMMAND: experiment.commands,
        FigureRequirement.LEARNING_RATES: len(experiment.vary.get("learning_rate", ())) > 1,
    }
    available = figure_checks.default_figures(
        {*experiment.measures, *experiment.timings},
        [requirement for requirement in is_met if is_met[requirement]],
        {*experiment.columns, *experiment.vary} if experiment.columns else None,
    )
    # With one batch size, epochs are proportional to updates.
    axes = ("updates", *(["seconds"] if experiment.timed else [])) if len(batch_sizes) > 1 else ()
    # The figures next to the recommendation are drawn even if a study names other figures.
    lead_figures = [name for name in LEADING_FIGURES if name in available]
    names: dict[str, None] = {}
    for name in [*lead_figures, *(experiment.keys.figures or available)]:
        variants = (figure for figure in FIGURES[name].variants() if figure.variant_axis in axes)
        names |= dict.fromkeys([name, *(figure.name for figure in variants)])
    return list(names)


def write(
    tables: Path | str,
    names: Collection[str],
    folder: Path | str,
    processes: int = 1,
    metrics: tasks.Metrics = (),
) -> None:
    """Draw figures from the tables in one folder into another, which is replaced as a whole.

    A figure with something to show is written as {name}.svg, {name}.png and the {name}.csv that it
    shows. `figures.json` lists these figures in order.

    Args:
        metrics: User-defined metrics of the experiment.
    """
    import multiprocessing
    from concurrent.futures import ProcessPoolExecutor

    from batchscope.core import disk
    from batchscope.host import supervisor

    _read_once.cache_clear()  # the tables may have changed
    with disk.atomic_folder(folder) as new_folder:
        write_figure = functools.partial(_write_figure, tables, new_folder, metrics)
        if (workers := min(processes, len(names))) > 1:
            fork = multiprocessing.get_context("fork")
            with ProcessPoolExecutor(
                workers, fork, supervisor.set_parent_death_signal, (os.getpid(),)
            ) as pool:
                entries = list(pool.map(write_figure, names))
        else:
            entries = list(map(write_figure, names))
        lines = json.dumps(list(filter(None, entries)), indent=1)
        (new_folder / LISTING).write_text(lines + "\n", encoding="utf-8")


_read_once = functools.cache(FigureTables)  # once per process


def _write_figure(
    tables: Path | str, folder: Path, metrics: tasks.Metrics, name: str
) -> dict[str, Any] | None:
    """Write the files of a figure; return its entry of the list, or None without content."""
    from batchscope.figures import canvas, figure_rows
    from batchscope.figures.kinds import primary

    read = _read_once(tables, metrics)
    figure = for_tasks(name, read.tasks)
    frame = select(read, figure)
    if frame.empty:
        return None
    if figure.table == "comparisons":
        figure = primary.with_title_and_caption(figure, frame)
    published_rows = read.published[read.published["figure"] == name]
    svg, png = canvas.svg_and_png(draw(frame, figure, published_rows), figure.title)
    frame.to_csv(folder / f"{name}.csv", index=False, lineterminator="\n")
    (folder / f"{name}.png").write_bytes(png)
    (folder / f"{name}.svg").write_text(svg, encoding="utf-8")
    keys = ("name", "title", "category", "caption", "table")
    return {
        **{key: getattr(figure, key) for key in keys},
        "columns": [panel.column for panel in figure_rows.panels_of_columns(frame, figure)],
        "of": figure.variant_of or figure.name,
        "axis": figure.variant_axis,
    }
