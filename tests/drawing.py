"""What tests of figures share: a frame as its CSV gives it back, and what a drawing says."""

import io

import matplotlib.text

from batchscope import figures
from batchscope.analysis import run_series
from batchscope.figures.drawing import canvas


def reread(frame):
    """Returns a frame as it is read back from its CSV file."""
    return run_series.read(io.StringIO(frame.to_csv(index=False, lineterminator="\n")))


def drawn(name, made, rendered=False):
    """Returns a figure drawn from its own CSV alone, and that frame."""
    figure = figures.FIGURES[name]
    frame = reread(figure.select(made))
    drawing = figure.draw(frame)
    if rendered:
        with canvas.style():
            drawing.draw_without_rendering()
    return drawing, frame


def texts(drawing):
    """Returns every text of a drawing."""
    found = drawing.findobj(matplotlib.text.Text)
    return {text.get_text() for text in found if text.get_text()}


def note(drawing):
    """Returns what stands below a drawing, in one line."""
    return drawing.get_supxlabel().replace("\n", " ")
