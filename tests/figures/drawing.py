"""What tests of figures share: a frame as its CSV gives it back, and what a drawing says."""

import io

import matplotlib.text
import numpy as np

from batchscope import figures
from batchscope.figures import canvas
from batchscope.tables import csv_tables


def reread(frame):
    """Returns a frame as it is read back from its CSV file."""
    return csv_tables.read(io.StringIO(frame.to_csv(index=False, lineterminator="\n")))


def drawn(name, made, rendered=False):
    """Returns a figure drawn from its own CSV alone, and that frame."""
    figure = figures.FIGURES[name]
    frame = reread(figures.select(made, figure))
    drawing = figures.draw(frame, figure)
    if rendered:
        with canvas.style():
            drawing.draw_without_rendering()
    return drawing, frame


def texts(drawing):
    """Returns every text of a drawing."""
    found = drawing.findobj(matplotlib.text.Text)
    return {text.get_text() for text in found if text.get_text()}


def lines(drawing):
    """Returns every line of text of a drawing."""
    return {line for text in texts(drawing) for line in text.split("\n") if line}


def titles(drawing):
    """Returns the title of every panel."""
    return [axes.get_title("left") for axes in drawing.axes]


def legend(drawing):
    """Returns the labels of a drawing's legend."""
    return [text.get_text() for found in drawing.legends for text in found.get_texts()]


def hollow(axes):
    """Returns the lines of a panel whose markers are white."""
    return [line for line in axes.lines if line.get_markerfacecolor() in ("white", canvas.PAPER)]


def bars(container):
    """Returns the ends of error bars, shape (points, 2 ends, x and y)."""
    return np.array(container.lines[2][0].get_segments())


def note(drawing):
    """Returns what stands below a drawing, in one line."""
    return drawing.get_supxlabel().replace("\n", " ")
