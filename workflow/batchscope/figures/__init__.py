"""The figures of an experiment: tidy tables in, SVG, PNG and CSV out.

This module holds the registry alone and imports no more than the standard library, so that the
workflow can list figures without paying for matplotlib. Each figure is one module beside it,
under the figure's name, with two functions:

- `select(tables) -> DataFrame`: the rows and columns that the figure shows (its CSV);
- `draw(frame) -> matplotlib.figure.Figure`: the figure, from that frame alone.
"""

from __future__ import annotations

import importlib
import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas
    from matplotlib.figure import Figure as Drawing

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
        measures: Measures that the experiment must have asked for.
    """

    name: str
    title: str
    category: str
    measures: tuple[str, ...] = ()

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
        from batchscope.figures import canvas

        with canvas.style():
            return _module(self.name).draw(frame)


@dataclass(frozen=True)
class Tables:
    """The tidy tables of one experiment, as batchscope.tables writes them."""

    runs: pandas.DataFrame
    history: pandas.DataFrame
    layers: pandas.DataFrame


FIGURES: dict[str, Figure] = {
    figure.name: figure
    for figure in (
        Figure("loss_curves", "Loss curves", "Training"),
        Figure("best_losses", "Best losses", "Training"),
        Figure("accuracy", "Accuracy", "Quality", ("evaluate",)),
        Figure("generalisation_gap", "Generalisation gap", "Quality", ("evaluate",)),
        Figure("time", "Time", "Time", ("time_epoch",)),
        Figure(
            "weight_distance", "Distance from the initial weights", "Weights", ("weight_distance",)
        ),
        Figure(
            "weight_distance_by_layer",
            "Distance from the initial weights, by layer",
            "Weights",
            ("weight_distance",),
        ),
        Figure("sharpness", "Sharpness", "Sharpness", ("sharpness",)),
    )
}


def available(measures: Iterable[str]) -> list[str]:
    """Returns the figures of an experiment with these measures, in the registry's order."""
    measures = set(measures)
    return [name for name, figure in FIGURES.items() if measures.issuperset(figure.measures)]


def read(folder: Path | str) -> Tables:
    """Reads runs.csv, history.csv and layers.csv of an experiment."""
    from batchscope import frames

    names = ("runs.csv", "history.csv", "layers.csv")
    return Tables(*(frames.read(Path(folder) / name) for name in names))


def write(tables: Path | str, names: Iterable[str], folder: Path | str) -> None:
    """Draws figures from the tables in one folder and writes them into another.

    Each gives {name}.svg, {name}.png and the {name}.csv that it was drawn from; `figures.json`
    lists them in order, with title, category and caption, for the report. Every file is written
    atomically, the list last.

    Raises:
        UserError: If a name is not registered.
    """
    from batchscope import records
    from batchscope.errors import UserError

    names = list(names)
    for name in names:
        if name not in FIGURES:
            known = ", ".join(FIGURES)
            raise UserError(f"figures: received {name!r}; one of {known} is expected.")
    read_tables = read(tables)
    for name in names:
        _write_figure(read_tables, FIGURES[name], Path(folder))
    listing = [
        {
            "name": name,
            "title": FIGURES[name].title,
            "category": FIGURES[name].category,
            "caption": FIGURES[name].caption,
        }
        for name in names
    ]
    records.write_text(Path(folder) / LISTING, json.dumps(listing, indent=1) + "\n")


def _write_figure(tables: Tables, figure: Figure, folder: Path) -> None:
    from batchscope import records
    from batchscope.figures import canvas

    frame = figure.select(tables)
    svg, png = canvas.svg_and_png(figure.draw(frame), figure.title)
    with records.atomic_path(folder / f"{figure.name}.csv") as temporary:
        frame.to_csv(temporary, index=False, lineterminator="\n")
    with records.atomic_path(folder / f"{figure.name}.png") as temporary:
        temporary.write_bytes(png)
    records.write_text(folder / f"{figure.name}.svg", svg)


def _module(name: str):
    return importlib.import_module(f"batchscope.figures.{name}")
