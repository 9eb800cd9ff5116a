"""The figures of an experiment: tidy tables in, SVG, PNG and CSV out.

A figure is a specification: a table, its panels, and the kind of figure that they make.
Each kind is a module of batchscope.figures.kinds, under its name:

- `draw(frame, spec) -> matplotlib.figure.Figure`: the figure, from that frame alone, and from the
  rows of published.csv as a third argument where a document has numbers of it;
- `select(tables, spec) -> DataFrame`, where `rows.select` will not do: the rows and columns that
  the figure shows, its CSV. Where they are none, there is nothing to show, and no figure.

No figure fits, tests, pairs seeds or makes an interval: batchscope.analysis does. That of a mean
follows the axis that the mean is drawn on (`drawing.canvas.mean_intervals`). This module imports no
more than the standard library, so that the workflow lists figures without paying for matplotlib.
"""

from __future__ import annotations

import functools
import importlib
import json
import os
from collections.abc import Collection, Iterable
from itertools import repeat
from pathlib import Path
from typing import TYPE_CHECKING, Any

from batchscope.study import figure_names, own_columns, tasks
from batchscope.study import tables as table_entries
from batchscope.study.figures import FIGURES, LEAD, learned
from batchscope.study.specifications import Figure, FigureRequirement

if TYPE_CHECKING:
    import pandas
    from matplotlib.figure import Figure as Drawing

    from batchscope.study.plan import PlannedExperiment
    from batchscope.study.study_file import FigureFormat

SUFFIXES = (".svg", ".png", ".csv")
LISTING = "figures.json"


def select(tables: FigureTables, figure: Figure) -> pandas.DataFrame:
    """Return the rows and columns that a figure shows; none where there is nothing."""
    from batchscope.figures import rows

    return getattr(_kind(figure), "select", rows.select)(tables, figure)


def draw(
    frame: pandas.DataFrame, figure: Figure, numbers: pandas.DataFrame | None = None
) -> Drawing:
    """Return a figure, drawn from the frame that `select` returned.

    Args:
        numbers: Rows of published.csv, which figures with a document's numbers show.
    """
    from batchscope.figures.drawing import canvas

    optional = () if numbers is None or numbers.empty else (numbers,)
    with canvas.style():
        return _kind(figure).draw(frame, figure, *optional)


def _kind(figure: Figure) -> Any:
    return importlib.import_module(f"{__name__}.kinds.{figure.kind}")


class FigureTables:
    """The tidy tables of one experiment, one {name}.csv each; empty where not given.

    Those in a folder are read when they are asked for: a figure waits for no other than it shows.
    `metrics` are the user-defined metrics of the experiment.
    """

    def __init__(
        self, folder: Path | None = None, metrics: tasks.Metrics = (), **given: pandas.DataFrame
    ) -> None:
        if unknown := given.keys() - table_entries.TABLES.keys():
            raise TypeError(f"Expected known tables. Received: {unknown}")
        vars(self).update(given, _folder=folder, metrics=metrics)

    def __getattr__(self, name: str) -> pandas.DataFrame:
        """Reads a table, once; one of timings over all timing jobs of a configuration."""
        import pandas

        from batchscope.analysis import timing_repeats
        from batchscope.tables import csv_tables

        if name not in table_entries.TABLES:
            raise AttributeError(name)
        found = pandas.DataFrame()
        if folder := self._folder:
            found = timing_repeats.over_jobs(
                name, lambda each: csv_tables.read(folder / f"{each}.csv")
            )
        vars(self)[name] = found
        return found

    @property
    def tasks(self) -> tuple[str, ...]:
        return tasks.of_columns(self.history)


def drawn(experiment: PlannedExperiment) -> list[str]:
    """Returns the figures of an experiment: those that it names, or all that it allows.

    With one over epochs comes the same over the other budgets at which batch sizes are compared:
    the report switches between them.
    """
    batch_sizes = experiment.batch_sizes
    met = {
        FigureRequirement.AT_EPOCHS: experiment.at_epochs,
        FigureRequirement.MARGINS: experiment.keys.margins,
        FigureRequirement.PREFIXES: not experiment.by_horizon,
        FigureRequirement.EVALUATIONS: experiment.has_evaluations,
        FigureRequirement.SECONDS: experiment.timed,
        FigureRequirement.BATCH_SIZES: len(batch_sizes) >= own_columns.LEAST_SIZES,
        FigureRequirement.COMMAND: experiment.commands,
    }
    given = figure_names.Given(
        measures={**experiment.measures, **experiment.timings},
        varied=[factor for factor, values in experiment.vary.items() if len(values) > 1],
        needs=[need for need, found in met.items() if found],
        own=experiment.columns,
    )
    # One batch size makes as many updates in every epoch.
    axes = ("updates", *(["seconds"] if experiment.timed else [])) if len(batch_sizes) > 1 else ()
    names, found = figure_names.available(given), []
    # The figures beside the recommendation are drawn regardless of the figures that a study names.
    first = [name for name in LEAD if name in names]
    for name in [*first, *(experiment.keys.figures or names)]:
        variants = FIGURES[name].variants()
        found += [name, *(each.name for each in variants if each.along in axes)]
    return list(dict.fromkeys(found))


def read(folder: Path | str, metrics: tasks.Metrics = ()) -> FigureTables:
    return FigureTables(Path(folder), metrics)


def write(
    tables: Path | str,
    names: Iterable[str],
    folder: Path | str,
    processes: int = 1,
    published: Collection[str] = (),
    figure_format: FigureFormat | None = None,
    metrics: tasks.Metrics = (),
) -> None:
    """Draws figures from the tables in one folder and writes them into another.

    Each gives {name}.svg, {name}.png and the {name}.csv that it was drawn from, unless it has
    nothing to show. `figures.json` lists those that were drawn, in order. All are drawn into a
    folder beside it, which then takes its place: it is never there in part. Those in `published`
    also show a document's numbers.

    Args:
        figure_format: Format of one more file per figure.
        metrics: User-defined metrics of the experiment.

    Raises:
        UserError: If a name is not registered.
    """
    import multiprocessing
    from concurrent.futures import ProcessPoolExecutor

    from batchscope import disk
    from batchscope.errors import UserError
    from batchscope.host import supervisor

    names = list(names)
    for name in names:
        if name not in FIGURES:
            known = ", ".join(FIGURES)
            raise UserError(f"figures: received {name!r}; one of {known} is expected.")
    _read_once.cache_clear()  # of tables that were there before
    with disk.atomic_folder(folder) as beside:
        numbers = [name in published for name in names]
        shared = repeat(beside), numbers, repeat(figure_format), repeat(metrics)
        given = (_write_figure, repeat(tables), names, *shared)
        if (workers := min(processes, len(names))) > 1:
            fork = multiprocessing.get_context("fork")
            with ProcessPoolExecutor(
                workers, fork, supervisor.set_parent_death_signal, (os.getpid(),)
            ) as pool:
                found = [*pool.map(*given)]
        else:
            found = [*map(*given)]
        lines = json.dumps(list(filter(None, found)), indent=1)
        (beside / LISTING).write_text(lines + "\n", encoding="utf-8")


def whole(folder: Path) -> bool:
    """Whether a folder has each file of the figures that it lists; one that is not there has."""
    if not folder.is_dir():
        return True
    try:
        listed = json.loads((folder / LISTING).read_text(encoding="utf-8"))
        names = {f"{each['name']}{suffix}" for each in listed for suffix in each["suffixes"]}
    except (OSError, ValueError, TypeError, KeyError):
        return False
    return names <= {path.name for path in folder.iterdir()}


_read_once = functools.cache(read)  # by each of the processes that share the figures


def _write_figure(
    tables: Path | str,
    name: str,
    folder: Path,
    published: bool,
    figure_format: FigureFormat | None,
    metrics: tasks.Metrics,
) -> dict[str, Any] | None:
    """Write a figure's files; return its line of the list, None if it shows nothing."""
    from batchscope.figures import rows
    from batchscope.figures.drawing import canvas
    from batchscope.tables import csv_tables

    read = _read_once(tables, metrics)
    figure = learned(name, read.tasks)
    frame = select(read, figure)
    if frame.empty:
        return None
    numbers = read.published[read.published["figure"] == name] if published else None
    svg, png = canvas.svg_and_png(draw(frame, figure, numbers), figure.title)
    csv_tables.guarded(frame).to_csv(folder / f"{name}.csv", index=False, lineterminator="\n")
    (folder / f"{name}.png").write_bytes(png)
    (folder / f"{name}.svg").write_text(svg, encoding="utf-8")
    suffixes = [*SUFFIXES]
    if figure_format:
        with canvas.page(figure_format):
            drawing = draw(frame, figure, numbers)
        suffixes.append(f".{figure_format.format}")
        content = canvas.pdf(drawing, figure.title, figure_format)
        (folder / f"{name}{suffixes[-1]}").write_bytes(content)
    said = {key: getattr(figure, key) for key in ("name", "title", "category", "caption", "table")}
    shown = [panel.column for panel in rows.filled(frame, figure)]
    said |= {"columns": shown, "of": figure.of or figure.name, "axis": figure.along}
    return {**said, "suffixes": suffixes}
