"""The figure of frameworks, from tables made up by hand."""

import math

import numpy as np
import pytest

from batchscope import figures
from batchscope.figures import frameworks
from batchscope.figures.drawing import canvas, timings
from batchscope.study import published_numbers
from batchscope.tables import run_table
from drawing import bars, hollow, legend, note, reread, texts, titles
from drawing import drawn as drawing_of
from made_sweeps import first, tables_of

pytestmark = pytest.mark.filterwarnings("error")
SIZES = (4, 16, 64, 256)
AT = np.log2(SIZES)
DOCUMENT = (
    published_numbers.Series(
        {"framework": "tensorflow"},
        (4, 64, 1024),
        {"utilisation_percent": (5.65, 36.17, 22.14), "memory_mb": (694.3, 694.6, 535.1)},
    ),
    published_numbers.Series(
        {"framework": "mxnet"}, (4, 1024), {"utilisation_percent": (22.13, 46.09)}
    ),
)


def sweep(framework, sizes=SIZES, base=20, memory=600, speed=50, status="", lost=(), **given):
    """Returns made-up rows of utilisation.csv and of throughput.csv.

    Args:
        base: Utilisation at batch size 1, %; 5 more per doubling, quartiles 2 below and 3 above.
        memory: Peak memory at batch size 0, MB; 1 MB more per example.
        speed: Examples per second and image, less for large batches; quartiles 5 % around it.
        status: Of every batch size, if not finished.
        lost: Batch sizes that ran out of memory.
        given: Machine and factors.
    """
    busy, fast = [], []
    of = first(framework=framework, **given)
    gpu = of["device"] == "gpu"
    name, held = (
        ("gpu_percent", "gpu_memory_peak_mb") if gpu else ("process_percent", "memory_peak_mb")
    )
    for size in sizes:
        row = {**of, "batch_size": size, "status": status or "finished"}
        if status or size in lost:
            row["status"] = status or "out_of_memory"
            busy.append(row)
            fast.append(row | {"blocks": 0, "disturbed_blocks": 0})
            continue
        level, rate = base + 5 * math.log2(size), speed * size**0.5
        busy.append({**row, "process_percent": 1.0, "memory_peak_mb": 1.0, held: memory + size})
        busy[-1] |= {name: level, f"{name}_q1": level - 2, f"{name}_q3": level + 3}
        fast.append(row | {"blocks": 7, "disturbed_blocks": 0, "images_per_second": rate})
        fast[-1] |= {"images_per_second_q1": 0.95 * rate, "images_per_second_q3": 1.05 * rate}
    return busy, fast


class Planned:
    """As much of a study as the table of published numbers needs."""

    def __init__(self, numbers):
        self.experiments = {"a": self}
        self.numbers = {"frameworks": numbers} if numbers else {}
        self.published = {"frameworks": {"figure": "Table 1"}}


def read_tables(*made, numbers=()):
    """Returns the tables of an experiment, as they are read back from CSV files."""
    busy, fast = ([row for part in made for row in part[position]] for position in (0, 1))
    published = reread(run_table.published("results", Planned(numbers), "a"))
    tables = tables_of(utilisation=busy, throughput=fast)
    tables.published = published
    return tables


def drawn(*made, numbers=(), rendered=False):
    """Returns the figure drawn from its own CSV alone, that frame, and what was found."""
    made = read_tables(*made, numbers=numbers)
    drawing, frame = drawing_of("frameworks", made, rendered)
    return drawing, frame, frameworks.found(frame)


TWO = (sweep("tensorflow"), sweep("pytorch", base=30, memory=300, speed=80))


def test_three_panels_with_medians_and_quartiles():
    drawing, frame, found = drawn(*TWO, rendered=True)
    assert titles(drawing) == ["Utilisation", "Memory", "Throughput"]
    assert legend(drawing) == ["TensorFlow", "PyTorch"]
    busy, memory, speed = drawing.axes
    for index, (base, least, rate) in enumerate(((20, 600, 50), (30, 300, 80))):
        x, y = busy.containers[index].lines[0].get_data()
        assert np.allclose(x, AT) and np.allclose(y, base + 5 * AT)
        ends = np.column_stack([base + 5 * AT - 2, base + 5 * AT + 3])
        assert np.allclose(bars(busy.containers[index])[:, :, 1], ends)
        assert np.allclose(memory.containers[index].lines[0].get_ydata(), least + np.array(SIZES))
        heights = speed.containers[index].lines[0].get_ydata()
        assert np.allclose(heights, rate * np.sqrt(SIZES))
        assert np.allclose(bars(speed.containers[index])[:, 0, 1], 0.95 * heights)
    assert busy.get_ylabel() == "CPU utilisation (%)" and busy.get_ylim()[0] == 0
    assert memory.get_ylabel() == "peak resident memory (MB)" and memory.get_ylim()[0] == 0
    assert speed.get_ylabel() == "examples/s" and speed.get_yscale() == "log"
    assert "Machine: laptop." in note(drawing) and "resident memory" in note(drawing)
    assert found == (
        "Median CPU utilisation was from 30.0 % (TensorFlow; 28.0 to 33.0 by quartiles) to 40.0 % "
        "(PyTorch; 38.0 to 43.0 by quartiles) at batch size 4, and from 60.0 % (TensorFlow; 58.0 "
        "to 63.0 by quartiles) to 70.0 % (PyTorch; 68.0 to 73.0 by quartiles) at 256. Peak "
        "resident memory changed from batch size 4 to 256 by a factor of 1.42 (TensorFlow), 1.83 "
        "(PyTorch). Highest median throughput of the CPU was 1280 examples/s at batch size 256 "
        "(PyTorch)."
    )
    assert {"machine", "device", "framework", "batch_size", "status"} <= set(frame.columns)


def test_a_training_that_others_disturbed_is_no_framework():
    made = sweep("tensorflow", base=20), sweep("pytorch", base=30)
    made[1][0][0]["disturbed"] = True  # of utilisation, at the smallest batch size
    drawing, _, found = drawn(*made)
    assert found.startswith("Median CPU utilisation was 30.0 % (TensorFlow; 28.0 to 33.0 by")
    assert "Disturbed by other processes (open markers) at batch size 4 (PyTorch)." in note(drawing)
    marks = hollow(drawing.axes[0])
    assert [(line.get_xdata()[0], line.get_ydata()[0]) for line in marks] == [(2, 40)]


def test_on_a_gpu_its_own_utilisation_and_memory():
    drawing, _, found = drawn(
        sweep("tensorflow", device="gpu"), sweep("jax", base=25, memory=900, device="gpu")
    )
    busy, memory, _ = drawing.axes
    assert busy.get_ylabel() == "GPU utilisation (%)"
    assert memory.get_ylabel() == "peak memory of the GPU (MB)"
    assert np.allclose(busy.containers[0].lines[0].get_ydata(), 20 + 5 * AT)
    assert np.allclose(memory.containers[1].lines[0].get_ydata(), 900 + np.array(SIZES))
    assert found.startswith("Median GPU utilisation was from 30.0 % (TensorFlow; 28.0 to 33.0 by")
    assert "Peak GPU memory changed" in found and "resident" not in note(drawing)


def test_what_is_not_installed_is_named():
    drawing, _, found = drawn(*TWO, sweep("mxnet", status="not_installed"))
    assert legend(drawing) == ["TensorFlow", "PyTorch", "MXNet: not installed"]
    assert "Not installed, and so not measured: MXNet." in note(drawing)
    assert "MXNet" not in found
    handle = drawing.legends[0].legend_handles[2]
    assert handle.get_linestyle() == "None"  # nothing is drawn of it


@pytest.mark.parametrize("numbers", [(), DOCUMENT])
def test_nothing_installed(numbers):
    absent = (sweep(name, status="not_installed") for name in ("pytorch", "mxnet"))
    drawing, _, found = drawn(*absent, numbers=numbers, rendered=True)
    assert found == "" and timings.EMPTY in texts(drawing)
    assert "Not installed, and so not measured: PyTorch, MXNet." in note(drawing)
    where = " here" if numbers else ""
    assert legend(drawing)[:2] == [f"PyTorch: not installed{where}", f"MXNet: not installed{where}"]
    alone, _, _ = drawn(sweep("jax", status="not_installed"))
    assert "Framework: JAX." in note(alone) and "not measured: JAX." in note(alone)


def test_a_row_of_what_is_not_installed_needs_no_batch_size():
    made = (*TWO, sweep("mxnet", sizes=(None,), status="not_installed"))
    drawing, _, _ = drawn(*made, rendered=True)
    assert "MXNet: not installed" in legend(drawing)
    sizes = [label.get_text() for label in drawing.axes[0].get_xticklabels()]
    assert sizes == ["4", "16", "64", "256"]


def test_one_framework_and_one_batch_size():
    drawing, _, found = drawn(sweep("tensorflow"))
    assert legend(drawing) == [] and "Framework: TensorFlow." in note(drawing)
    assert found.startswith(
        "Median CPU utilisation was 30.0 % (TensorFlow; 28.0 to 33.0 by quartiles) at batch size "
        "4, and 60.0 % (TensorFlow; 58.0 to 63.0 by quartiles) at 256."
    )
    drawing, _, found = drawn(sweep("tensorflow", (32,)), sweep("jax", (32,), speed=60))
    assert len(drawing.axes[0].containers[0].lines[0].get_xdata()) == 1
    assert found == (
        "Median CPU utilisation was 45.0 % in both series at batch size 32. Highest median "
        "throughput of the CPU was 339 examples/s at batch size 32 (JAX)."
    )


def test_memory_that_ran_out_is_marked():
    drawing, _, found = drawn(sweep("tensorflow", lost=(256,)), TWO[1], rendered=True)
    for axes in drawing.axes:
        (cross,) = [line for line in axes.lines if line.get_marker() == "x"]
        assert np.allclose(cross.get_xdata(), [8])
    assert "Out of memory (×) at batch size 256 (TensorFlow)." in note(drawing)
    assert "and 70.0 % (PyTorch; " in found
    assert "from batch size 4 to 64 by a factor of 1.1 (TensorFlow)" in found


def test_two_machines_are_never_compared():
    other = (
        sweep("tensorflow", machine="cluster", device="gpu", speed=9000),
        sweep("pytorch", machine="cluster", device="gpu", base=5, speed=8000),
    )
    drawing, _, found = drawn(*TWO, *other, numbers=DOCUMENT)
    assert legend(drawing) == [
        "CPU, TensorFlow, laptop",
        "CPU, PyTorch, laptop",
        "GPU, TensorFlow, cluster",
        "GPU, PyTorch, cluster",
        "TensorFlow (as published)",
        "MXNet (as published)",
    ]
    # A framework keeps its colour and marker on every machine and in the document.
    lines = [container.lines[0] for container in drawing.axes[0].containers]
    theirs = drawing.axes[3].lines[0]
    assert lines[0].get_color() == lines[2].get_color() == theirs.get_color()
    assert lines[0].get_marker() == lines[2].get_marker() == theirs.get_marker()
    assert lines[0].get_color() != lines[1].get_color()
    assert lines[0].get_linestyle() != lines[2].get_linestyle()
    assert drawing.axes[0].get_ylabel() == "utilisation (%)"
    assert found.startswith("Median CPU utilisation on laptop was from 30.0 % (TensorFlow; 28.0 to")
    assert "; median GPU utilisation on cluster was from 15.0 % (PyTorch; 13.0 to 18.0" in found
    assert "Highest median throughput of the CPU on laptop was 1280 examples/s" in found
    assert found.count(". ") == 2


def test_a_documents_numbers_have_a_row_of_their_own():
    made = (*TWO, sweep("mxnet", status="not_installed"))
    drawing, frame, found = drawn(*made, numbers=DOCUMENT, rendered=True)
    assert titles(drawing) == [
        *("Utilisation, here", "Memory, here", "Throughput, here"),
        *("Utilisation, as published", "Memory, as published"),  # of which it has numbers
    ]
    upper, lower = drawing.axes[:3], drawing.axes[3:]
    tensorflow, mxnet = lower[0].lines
    assert np.allclose(tensorflow.get_xdata(), [2, 6, 10])
    assert np.allclose(tensorflow.get_ydata(), [5.65, 36.17, 22.14])
    assert tensorflow.get_color() == canvas.line_style(0)["color"]
    assert mxnet.get_color() == canvas.line_style(2)["color"]
    assert not any(axes.containers for axes in lower)  # no bars: they would be ours
    assert all(len(axes.containers) == 3 for axes in upper)
    assert {axes.get_xlim() for axes in drawing.axes} == {lower[0].get_xlim()}
    assert legend(drawing) == ["TensorFlow", "PyTorch", "MXNet: not installed here"]
    assert "As published (shaded): Table 1." in note(drawing)
    own = frame[frame["document"].isna()].drop(columns=["document", "series"])
    assert found == frameworks.found(own) and "36.17" not in found


def test_what_else_is_varied_has_a_line_style():
    made = [sweep(name, threads=n) for name in ("tensorflow", "jax") for n in (1, 0)]
    drawing, _, _ = drawn(*made)
    assert legend(drawing)[:2] == ["1 thread, TensorFlow", "all threads, TensorFlow"]
    lines = [container.lines[0] for container in drawing.axes[0].containers]
    assert len({(line.get_color(), line.get_linestyle()) for line in lines}) == 4


@pytest.mark.parametrize("missing", [0, 1])
def test_one_of_both_timings_alone(missing):
    made = [[[] if at == missing else rows for at, rows in enumerate(part)] for part in TWO]
    drawing, _, found = drawn(*made)
    assert timings.EMPTY in texts(drawing)
    assert ("utilisation" in found) == (missing == 1) == ("throughput" not in found)


@pytest.mark.parametrize("numbers", [(), DOCUMENT])
def test_nothing_timed(numbers):
    drawing, _, found = drawn(numbers=numbers)
    assert found == "" and timings.EMPTY in texts(drawing)


@pytest.mark.slow
def test_the_same_bytes_for_the_same_data():
    figure = figures.FIGURES["frameworks"]
    frame = reread(figure.select(read_tables(*TWO, numbers=DOCUMENT)))
    files = [canvas.svg_and_png(figure.draw(frame), figure.entry.title) for _ in range(2)]
    assert files[0] == files[1]
