"""The figures of an experiment: tidy tables in, SVG, PNG and CSV out.

This module holds the registry alone and imports no more than the standard library, so that the
workflow can list figures without paying for matplotlib. Each figure is one module beside it,
under the figure's name, with two functions, or three:

- `select(tables) -> DataFrame`: the rows and columns that the figure shows (its CSV);
- `draw(frame) -> matplotlib.figure.Figure`: the figure, from that frame alone;
- `found(frame) -> str`: what these runs say, in a sentence or two with their own numbers.
"""

from __future__ import annotations

import importlib
import json
from collections.abc import Iterable
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING

from batchscope.catalogue import measure_settings

if TYPE_CHECKING:
    import pandas
    from matplotlib.figure import Figure as Drawing

    from batchscope.study.plan import Experiment

REPORT = Path(__file__).parents[2] / "report"
SUFFIXES = (".svg", ".png", ".csv")
LISTING = "figures.json"


@dataclass(frozen=True)
class Figure:
    """A figure that can be drawn of every experiment with the right measures.

    Attributes:
        name: Name of its files, of its module, and of its caption under workflow/report.
        title: Words for headings.
        category: What it is listed under.
        measures: Measures that the experiment must have asked for; `a|b` is either.
        varied: Factors of which it must have several values.
        at_epochs: Whether it must read several numbers of epochs from each training.
        margins: Whether the experiment must state a margin.
    """

    name: str
    title: str
    category: str
    measures: tuple[str, ...] = ()
    varied: tuple[str, ...] = ()
    at_epochs: bool = False
    margins: bool = False

    @property
    def caption(self) -> str:
        """What the figure shows: the text of workflow/report/{name}.rst."""
        text = (REPORT / f"{self.name}.rst").read_text(encoding="utf-8")
        return " ".join(text.split())

    def select(self, tables: Tables) -> pandas.DataFrame:
        """Returns the rows and columns that the figure shows."""
        return _module(self.name).select(tables)

    def draw(self, frame: pandas.DataFrame) -> Drawing:
        """Returns the figure, drawn from what `select` returned."""
        from batchscope.figures.drawing import canvas

        with canvas.style():
            return _module(self.name).draw(frame)

    def found(self, frame: pandas.DataFrame) -> str:
        """Returns what the runs say, from what `select` returned; empty where nothing does."""
        tell = getattr(_module(self.name), "found", None)
        return tell(frame) if tell else ""


def _empty() -> pandas.DataFrame:
    import pandas

    return pandas.DataFrame()


@dataclass(frozen=True)
class Tables:
    """The tidy tables of one experiment, as batchscope.tables.run_table writes them: one {name}.csv each.

    Only some experiments have rows in the later ones, those of timings among them.
    """

    runs: pandas.DataFrame
    history: pandas.DataFrame
    layers: pandas.DataFrame
    updates: pandas.DataFrame
    alignment: pandas.DataFrame
    lines: pandas.DataFrame
    landscapes: pandas.DataFrame
    at_epochs: pandas.DataFrame = field(default_factory=_empty)
    margins: pandas.DataFrame = field(default_factory=_empty)
    limits: pandas.DataFrame = field(default_factory=_empty)
    throughput: pandas.DataFrame = field(default_factory=_empty)
    sweeps: pandas.DataFrame = field(default_factory=_empty)
    utilisation: pandas.DataFrame = field(default_factory=_empty)
    samples: pandas.DataFrame = field(default_factory=_empty)
    largest: pandas.DataFrame = field(default_factory=_empty)
    profiles: pandas.DataFrame = field(default_factory=_empty)
    training_times: pandas.DataFrame = field(default_factory=_empty)
    published: pandas.DataFrame = field(default_factory=_empty)


FIGURES: dict[str, Figure] = {
    figure.name: figure
    for figure in (
        Figure("loss_curves", "Loss curves", "Training"),
        Figure("best_losses", "Best losses", "Training"),
        Figure("learning_rate", "Learning rate", "Training", (), ("learning_rate",)),
        Figure(
            "best_learning_rate",
            "Best learning rate",
            "Quality",
            ("evaluate",),
            ("learning_rate",),
        ),
        Figure("accuracy", "Accuracy", "Quality", ("evaluate",)),
        Figure(
            "accuracy_by_epochs",
            "Accuracy by number of epochs",
            "Quality",
            ("evaluate",),
            at_epochs=True,
        ),
        Figure("generalisation_gap", "Generalisation gap", "Quality", ("evaluate",)),
        Figure(
            "batch_size_limits", "How large a batch may be", "Quality", ("evaluate",), margins=True
        ),
        Figure("time", "Time", "Time", ("time_epoch",)),
        Figure("throughput", "Throughput", "Time", ("throughput",)),
        Figure("step_time", "Time per step", "Time", ("throughput",)),
        Figure(
            "training_time",
            "Training time by number of epochs",
            "Time",
            ("time_epoch|throughput",),
            at_epochs=True,
        ),
        Figure("profile", "What the time goes to", "Time", ("profile",)),
        Figure("utilisation", "Utilisation and memory", "Machine", ("utilisation",)),
        Figure("utilisation_over_time", "Utilisation over time", "Machine", ("utilisation",)),
        Figure(
            "frameworks",
            "Usage by framework",
            "Machine",
            ("utilisation", "throughput"),
            ("framework",),
        ),
        Figure("max_batch_size", "Largest batch size", "Machine", ("max_batch_size",)),
        Figure(
            "weight_distance", "Distance from the initial weights", "Weights", ("weight_distance",)
        ),
        Figure(
            "weight_distance_by_layer",
            "Distance from the initial weights, by layer",
            "Weights",
            ("weight_distance",),
        ),
        Figure("displacement", "Number and size of the updates", "Weights", ("displacement",)),
        Figure("epoch_distance", "Distance within an epoch", "Weights", ("weight_distance",)),
        Figure("update_norms", "Sizes of the updates", "Weights", ("displacement",)),
        Figure(
            "gradient_alignment", "Alignment of gradients", "Gradients", ("gradient_alignment",)
        ),
        Figure("sharpness", "Sharpness", "Sharpness", ("sharpness",)),
        Figure("sam_sharpness", "Sharpness along the gradient", "Sharpness", ("sam_sharpness",)),
        Figure("hessian", "Curvature", "Sharpness", ("hessian",)),
        Figure("line", "Line between two minimisers", "Landscape", ("line",)),
        Figure("landscape", "Loss surface", "Landscape", ("landscape",)),
        Figure("landscape_lines", "Loss along random directions", "Landscape", ("landscape",)),
    )
}


def available(
    measures: Iterable[str],
    varied: Iterable[str] = (),
    at_epochs: Iterable[int] = (),
    margins: Iterable[str] = (),
) -> list[str]:
    """Returns the figures of an experiment, in the registry's order.

    Args:
        measures: What it measures.
        varied: Factors of which it crosses several values with all else.
        at_epochs: Numbers of epochs that it reads from each training.
        margins: Outcomes of which it states a margin.
    """
    measures, varied = set(measures), set(varied)
    read_early, bounded = bool(list(at_epochs)), bool(list(margins))
    trained = not measures or not measures <= set(measure_settings.TIMINGS)
    return [
        name
        for name, figure in FIGURES.items()
        if (trained or figure.measures)
        and all(measures & set(one.split("|")) for one in figure.measures)
        and varied.issuperset(figure.varied)
        and (read_early or not figure.at_epochs)
        and (bounded or not figure.margins)
    ]


def drawn(experiment: Experiment) -> list[str]:
    """Returns the figures of an experiment: those that it names, or all that it allows."""
    varied = [factor for factor, values in experiment.vary.items() if len(values) > 1]
    measured = {**experiment.measures, **experiment.timings}
    return list(experiment.figures) or available(
        measured, varied, experiment.at_epochs, experiment.margins
    )


def files(names: Iterable[str]) -> list[str]:
    """Returns the files that `write` makes of figures, by name; the list of them is the last."""
    return [*(f"{name}{suffix}" for name in names for suffix in SUFFIXES), LISTING]


def read(folder: Path | str) -> Tables:
    """Reads the tables of an experiment."""
    from batchscope.analysis import run_series

    return Tables(
        *(run_series.read(Path(folder) / f"{table.name}.csv") for table in fields(Tables))
    )


def write(tables: Path | str, names: Iterable[str], folder: Path | str) -> None:
    """Draws figures from the tables in one folder and writes them into another.

    Each gives {name}.svg, {name}.png and the {name}.csv that it was drawn from; `figures.json`
    lists them in order, with title, category, caption and what was found, for the report. All are
    drawn into a folder beside it, which then takes its place: it is never there in part.

    Raises:
        UserError: If a name is not registered.
    """
    from batchscope import disk
    from batchscope.errors import UserError

    names = list(names)
    for name in names:
        if name not in FIGURES:
            known = ", ".join(FIGURES)
            raise UserError(f"figures: received {name!r}; one of {known} is expected.")
    read_tables = read(tables)
    with disk.atomic_folder(folder) as beside:
        listing = [_write_figure(read_tables, FIGURES[name], beside) for name in names]
        (beside / LISTING).write_text(json.dumps(listing, indent=1) + "\n", encoding="utf-8")


def _write_figure(tables: Tables, figure: Figure, folder: Path) -> dict[str, str]:
    """Writes a figure's three files; returns its line of the list."""
    from batchscope.figures.drawing import canvas

    frame = figure.select(tables)
    svg, png = canvas.svg_and_png(figure.draw(frame), figure.title)
    frame.to_csv(folder / f"{figure.name}.csv", index=False, lineterminator="\n")
    (folder / f"{figure.name}.png").write_bytes(png)
    (folder / f"{figure.name}.svg").write_text(svg, encoding="utf-8")
    return {
        "name": figure.name,
        "title": figure.title,
        "category": figure.category,
        "caption": figure.caption,
        "found": figure.found(frame),
    }


def _module(name: str):
    return importlib.import_module(f"batchscope.figures.{name}")
