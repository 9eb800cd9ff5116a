"""The figures of an experiment: tidy tables in, SVG, PNG and CSV out.

What a figure is called, needs and shows stands in the catalogue; this module imports no more than
the standard library, so that the workflow can list figures without paying for matplotlib. A figure
of columns of runs.csv against batch size is drawn from its entry alone. Any other is one module
beside this one, under the figure's name, with two functions, or three:

- `select(tables) -> DataFrame`: the rows and columns that the figure shows (its CSV); of a figure
  with `over` in its entry, `select(tables, along)` does so over another axis than epochs;
- `draw(frame) -> matplotlib.figure.Figure`: the figure, from that frame alone;
- `found(frame) -> str`: what these runs say, in a sentence or two with their own numbers.

No figure fits, tests, pairs seeds or makes an interval: `analysis` does.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import json
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field, make_dataclass
from itertools import repeat
from pathlib import Path
from typing import TYPE_CHECKING, Any

from batchscope.catalogue import entries, figure_names, horizons, run_names
from batchscope.catalogue import figures as figure_entries
from batchscope.catalogue import tables as table_entries
from batchscope.catalogue.timings import OF_SWEEPS

if TYPE_CHECKING:
    import pandas
    from matplotlib.figure import Figure as Drawing

    from batchscope.study.plan import Experiment

SUFFIXES = (".svg", ".png", ".csv")
LISTING = "figures.json"
LOGARITHMIC = "logarithmic axis: "  # in the words of a figure, before what such an axis shows


@dataclass(frozen=True)
class Figure:
    """A figure, as it is drawn.

    Attributes:
        entry: What the catalogue says of it.
    """

    entry: entries.Figure

    def select(self, tables: Tables) -> pandas.DataFrame:
        """Returns the rows and columns that the figure shows."""
        along = (self.entry.along,) if self.entry.along else ()
        return self._drawer().select(tables, *along)

    def draw(self, frame: pandas.DataFrame) -> Drawing:
        """Returns the figure, drawn from what `select` returned."""
        from batchscope.figures.drawing import canvas

        with canvas.style():
            return self._drawer().draw(frame)

    def found(self, frame: pandas.DataFrame) -> str:
        """Returns what the runs say, from what `select` returned; empty where nothing does."""
        describe = getattr(self._drawer(), "found", None)
        return describe(frame) if describe else ""

    def _drawer(self) -> Any:
        """Returns the figure's module, or what draws its columns against batch size."""
        if not self.entry.columns:
            return importlib.import_module(f"{__name__}.{self.entry.module}")
        from batchscope.figures.drawing import against_batch_size

        return against_batch_size.Columns(self.entry.columns)


def _empty() -> pandas.DataFrame:
    import pandas

    return pandas.DataFrame()


Tables = make_dataclass(
    "Tables",
    [(name, "pandas.DataFrame", field(default_factory=_empty)) for name in table_entries.TABLES],
    frozen=True,
)
Tables.__doc__ = "The tidy tables of one experiment, one {name}.csv each; empty where not given."


class _Stored(Tables):
    """The tables in a folder: a figure waits for no other than those that it shows."""

    def __init__(self, folder: Path) -> None:
        self.__dict__["_folder"] = folder

    def __getattr__(self, name: str) -> pandas.DataFrame:
        """Reads a table, once."""
        from batchscope.analysis import run_series

        if name not in table_entries.TABLES:
            raise AttributeError(name)
        self.__dict__[name] = run_series.read(self._folder / f"{name}.csv")
        return self.__dict__[name]


FIGURES: dict[str, Figure] = {name: Figure(entry) for name, entry in figure_entries.FIGURES.items()}


def available(
    measures: Iterable[str],
    varied: Iterable[str] = (),
    at_epochs: Iterable[int] = (),
    margins: Iterable[str] = (),
    evaluated: bool = False,
    batch_sizes: int = 0,
    timed: bool = False,
    falling: bool = False,
    own: Collection[str] | None = None,
) -> list[str]:
    """Returns the figures of an experiment, in the registry's order.

    Args:
        varied: Factors of which it crosses several values with all else.
        at_epochs: Numbers of epochs that it reads from each training.
        evaluated: Whether all its trainings have `evaluate_every`.
        own: Columns of a table of trainings that were made elsewhere; None for trainings here.
    """
    measures, varied = set(measures), set(varied)
    read_early, bounded = bool(list(at_epochs)), bool(list(margins))
    trained = not measures or not measures <= set(OF_SWEEPS)
    return [
        name
        for name, figure in figure_entries.FIGURES.items()
        if (trained or figure.measures)
        and not figure.along
        and (own is not None or all(measures & set(one.split("|")) for one in figure.measures))
        and varied.issuperset(figure.varied)
        and (read_early or not figure.at_epochs)
        and (bounded or not figure.margins)
        and (evaluated or not figure.trajectories)
        and batch_sizes >= figure.batch_sizes
        and (timed or not figure.timed)
        and not (falling and figure.prefixes)
        and (own is None or not figure_names.of_own_runs(name, {*own, *varied}))
    ]


def drawn(experiment: Experiment) -> list[str]:
    """Returns the figures of an experiment: those that it names, or all that it allows.

    With one over epochs comes the same over the other budgets at which batch sizes are compared:
    the report switches between them.
    """
    varied = [factor for factor, values in experiment.vary.items() if len(values) > 1]
    if experiment.own.path and not experiment.figures:
        own, margins = experiment.own, experiment.trainings.margins
        return available(
            (),
            varied,
            (),
            margins,
            evaluated=own.evaluated,
            batch_sizes=len(experiment.vary["batch_size"]),
            timed="seconds" in own.columns,
            falling=own.falling,
            own=own.columns,
        )
    measured = {**experiment.trainings.measures, **experiment.times.timings}
    runs = [run_names.parse_run(run) for run in experiment.trainings.runs]
    batch_sizes = len({run["batch_size"] for run in runs})
    timed = "time_epoch" in measured or bool(experiment.trainings.beside)
    names = experiment.figures or available(
        measured,
        varied,
        experiment.at_epochs,
        experiment.trainings.margins,
        evaluated=all(run["evaluate_every"] for run in runs),
        batch_sizes=batch_sizes,
        timed=timed,
        falling=any(map(horizons.falling, runs)),
    )
    # One batch size makes as many updates in every epoch.
    axes = ("updates", *(["seconds"] if timed else [])) if batch_sizes > 1 else ()
    return list(dict.fromkeys(over for name in names for over in (name, *_over(name, axes))))


def _over(name: str, axes: Collection[str]) -> list[str]:
    """Returns a figure over epochs as it is called over other axes; none of any other."""
    variants = figure_entries.FIGURES[name].variants()
    return [each.name for each in variants if each.along in axes]


def files(names: Iterable[str]) -> list[str]:
    """Returns the files that `write` makes of figures, by name; the list of them is the last."""
    return [*(f"{name}{suffix}" for name in names for suffix in SUFFIXES), LISTING]


def read(folder: Path | str) -> Tables:
    """Returns the tables of an experiment, each of which is read when it is asked for."""
    return _Stored(Path(folder))


def write(tables: Path | str, names: Iterable[str], folder: Path | str, processes: int = 1) -> None:
    """Draws figures from the tables in one folder and writes them into another.

    Each gives {name}.svg, {name}.png and the {name}.csv that it was drawn from; `figures.json`
    lists them in order, with title, category, caption, what was found and the words in it, for the
    report. All are drawn into a folder beside it, which then takes its place: it is never there in
    part.

    Args:
        processes: How many processes share the figures.

    Raises:
        UserError: If a name is not registered.
    """
    from concurrent.futures import ProcessPoolExecutor

    from batchscope import disk
    from batchscope.errors import UserError

    names = list(names)
    for name in names:
        if name not in FIGURES:
            known = ", ".join(FIGURES)
            raise UserError(f"figures: received {name!r}; one of {known} is expected.")
    _read_once.cache_clear()  # of tables that were there before
    with disk.atomic_folder(folder) as beside, contextlib.ExitStack() as stack:
        each: Callable[..., Iterable[dict[str, Any]]] = map
        if min(processes, len(names)) > 1:
            each = stack.enter_context(ProcessPoolExecutor(min(processes, len(names)))).map
        listing = list(each(_write_figure, repeat(tables), names, repeat(beside)))
        (beside / LISTING).write_text(json.dumps(listing, indent=1) + "\n", encoding="utf-8")


_read_once = functools.cache(read)  # by each of the processes that share the figures


def _write_figure(tables: Path | str, name: str, folder: Path) -> dict[str, Any]:
    """Writes a figure's three files; returns its line of the list."""
    from batchscope.figures.drawing import canvas

    figure = FIGURES[name]
    entry, frame = figure.entry, figure.select(_read_once(tables))
    drawing = figure.draw(frame)
    texts = canvas.texts(drawing)
    svg, png = canvas.svg_and_png(drawing, entry.title)
    frame.to_csv(folder / f"{entry.name}.csv", index=False, lineterminator="\n")
    (folder / f"{entry.name}.png").write_bytes(png)
    (folder / f"{entry.name}.svg").write_text(svg, encoding="utf-8")
    return {
        "name": entry.name,
        "title": entry.title,
        "category": entry.category,
        "caption": entry.caption,
        "found": figure.found(frame),
        "texts": texts,
    }
