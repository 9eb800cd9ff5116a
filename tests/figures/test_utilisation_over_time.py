"""Samples of one millisecond, where a training begins."""

from test_utilisation_figures import drawn, sampled, tables

from batchscope import figures


def _within_a_millisecond():
    """Samples of two trainings, the first of each with the time of the rest's last."""
    rows = []
    for row in sampled((8, 16), seconds=2.0, pause=1.0):
        if row["batch_size"] and not rows[-1]["batch_size"]:
            rows.append({**row, "seconds": rows[-1]["seconds"], "process_percent": 0.0})
        rows.append(row)
    return rows


def test_a_training_that_begins_with_a_sample_is_named_once():
    made = tables(samples=_within_a_millisecond())
    drawing, frame = drawn("utilisation_over_time", made)
    labels = [text.get_text() for text in drawing.axes[0].texts if text.get_text().isdigit()]
    assert labels == ["8", "16"]
    assert len(drawing.axes[0].patches) == 2
    assert "50.0 % while training and 2.0 % while resting" in figures.FIGURES[
        "utilisation_over_time"
    ].found(frame)
