"""The heat map of batch size and learning rate: cells, failures, and the chosen rates."""

import math

import pandas
import pytest
from matplotlib.colors import to_hex, to_rgb
from matplotlib.patches import Rectangle

from batchscope import figures
from batchscope.figures.kinds import heat_map, primary
from batchscope.study.decision_columns import ADVICE, COMPARISONS
from drawing import drawn, legend, texts, titles

# Examples to a validation loss of 0.2, of two seeds; "d" diverged, "-" never reached it.
COST = {
    (16, 0.1): (100, 400),
    (16, 0.3): (100, "-"),
    (32, 0.1): (400, 400),
    (32, 0.3): (300, 300),
    (64, 0.1): ("-", "-"),
    (64, 0.3): ("d", "d"),
}
SERIES = {"dataset": "digits", "model": "small_cnn", "machine": "local"}
CHOSEN = {16: 0.1, 32: 0.3, 64: math.nan}
RATE_MAP = figures.FIGURES["rate_map"]


def tables(cost=COST, target=True):
    runs, evaluations = [], []
    for (size, rate), seeds in cost.items():
        for seed, examples in enumerate(seeds):
            run = {"run": f"{size}-{rate}-{seed}", "batch_size": size, "learning_rate": rate}
            run |= {**SERIES, "seed": seed, "effective_learning_rate": rate}
            status = "diverged" if examples == "d" else "finished"
            loss = {"d": math.nan, "-": 0.9}.get(examples, 0.1)
            runs.append({**run, "status": status, "best_validation_loss": loss})
            last = examples if isinstance(examples, int) else 500
            row = {"run": run["run"], "machine": "local", "status": status}
            for used, value in ((last // 2, 1.0), (last, loss if loss > 0.5 else 0.2)):
                used = {"examples": used, "updates": used // size}
                evaluations.append({**row, **used, "validation_loss": value})
    outcome = "examples" if target else "test_accuracy"
    advice = [{"item": "recommendation", "batch_size": 32, "sizes": "32"}]
    for size, rate in CHOSEN.items():
        advice.append({"item": "limit", "name": outcome, "batch_size": size})
        advice.append({"item": "size", "batch_size": size, "learning_rate": rate})
    compared = {"budget": "target" if target else "end", "outcome": "examples"}
    compared |= {"budget_value": 0.2, "budget_column": "validation_loss", "batch_size": 32}
    return figures.FigureTables(
        runs=pandas.DataFrame(runs),
        trajectories=pandas.DataFrame(evaluations),
        advice=pandas.DataFrame(advice, columns=[*ADVICE]).assign(**SERIES),
        comparisons=pandas.DataFrame([compared], columns=[*COMPARISONS]).assign(**SERIES),
    )


def test_runs_of_another_series_are_in_no_cell():
    """Rising batch sizes have no advice, but begin at a size and a rate of a constant one."""
    constant, rising = tables(), tables({(16, 0.1): (800, 900), (16, 0.3): (900, 900)})
    frames = {}
    for name in ("runs", "trajectories", "advice", "comparisons"):
        frames[name] = getattr(constant, name).assign(batch_schedule="constant")
        if "run" in frames[name]:
            rows = getattr(rising, name).assign(batch_schedule="seesaw")
            rows["run"] = "rising " + rows["run"]
            frames[name] = pandas.concat([frames[name], rows])
    frame = heat_map.select(figures.FigureTables(**frames), RATE_MAP)
    pandas.testing.assert_frame_equal(frame, heat_map.select(constant, RATE_MAP))


def test_the_title_names_an_outcome_that_all_cells_have():
    frame = heat_map.select(tables(), RATE_MAP)
    other = frame.assign(outcome="best_validation_loss")
    frames = (frame, other, pandas.concat([frame, other]))
    titles = [primary.with_title_and_caption(RATE_MAP, cells).title for cells in frames]
    assert len({*titles}) == 3 and [title.count("0.2") for title in titles] == [1, 0, 0]


def test_a_cell_is_the_mean_cost_of_its_seeds_or_counts_those_that_reached_the_target():
    frame = heat_map.select(tables(), RATE_MAP)
    cells = frame.set_index(["batch_size", "learning_rate"])
    assert cells.loc[(16, 0.1), "mean"] == pytest.approx(200)  # geometric
    assert cells.loc[(32, 0.3), "mean"] == pytest.approx(300)
    assert cells["finite"].tolist() == [2, 1, 2, 2, 0, 0]
    assert cells["failed"].tolist() == [0, 0, 0, 0, 0, 2]
    assert cells["mean"].isna().tolist() == [False, True, False, False, True, True]
    assert cells.index[cells["chosen"] == 1].tolist() == [(16, 0.1), (32, 0.3)]
    assert cells.index[cells["recommended"] == 1].tolist() == [(32, 0.3)]
    assert set(frame["outcome"]) == {"examples"} and set(frame["target_value"]) == {0.2}


def test_without_a_target_a_cell_is_the_lowest_validation_loss():
    frame = heat_map.select(tables(target=False), RATE_MAP)
    assert set(frame["outcome"]) == {"best_validation_loss"}
    assert frame["mean"].iloc[1] == pytest.approx(0.5)
    assert frame["finite"].tolist() == [2, 2, 2, 2, 2, 0]


def test_without_a_choice_of_rates_there_is_no_map():
    one_rate = {cell: seeds for cell, seeds in COST.items() if cell[1] == 0.1}
    assert heat_map.select(tables(one_rate), RATE_MAP).empty
    assert heat_map.select(figures.FigureTables(), RATE_MAP).empty


def test_colours_numbers_failures_and_frames():
    drawing, _ = drawn("rate_map", tables())
    (axes,) = drawing.axes
    rectangles = [patch for patch in axes.patches if isinstance(patch, Rectangle)]
    colours = {
        patch.get_xy(): to_hex(patch.get_facecolor()) for patch in rectangles if patch.get_fill()
    }
    assert colours[0, 0] == to_hex(heat_map._BEST_TO_WORST(0.0))
    assert to_rgb(colours[1, 0]) == pytest.approx(heat_map._BEST_TO_WORST(0.5)[:3], abs=0.01)
    assert colours[0, 1] == colours[2, 0] == colours[2, 1] == to_hex(heat_map._NO_MEAN)
    edges = [patch.get_edgecolor()[:3] for patch in rectangles if not patch.get_fill()]
    assert len(edges) == 3 and to_rgb("#007a58") in edges
    assert {"200", "400", "300", "1/2", "0/2", "failed"} <= texts(drawing)
    assert titles(drawing) == ["Examples to validation loss 0.2"]
    assert {"best", "chosen rate", "recommended"} < {*legend(drawing)}
    assert axes.get_ylabel() == "learning rate"
    scaled = tables()
    scaled.runs["effective_learning_rate"] *= scaled.runs["batch_size"] / 16
    (axes,) = drawn("rate_map", scaled)[0].axes
    assert axes.get_ylabel() == "learning rate before scaling"


def test_similar_losses_have_one_colour():
    shades = heat_map._cell_colours(pandas.Series([0.6926, 0.6930, math.nan]).to_numpy())
    first, second = (sum(to_rgb(shade)) for shade in shades[:2])
    assert first == pytest.approx(second, abs=0.02) and shades[2] == heat_map._NO_MEAN
    assert heat_map._cell_colours(pandas.Series([-1.0, 1.0]).to_numpy()) == [
        to_hex(heat_map._BEST_TO_WORST(end)) for end in (0.0, 1.0)
    ]


def test_series_have_a_panel_each():
    frame = heat_map.select(tables(), RATE_MAP)
    both = pandas.concat([frame.assign(optimizer=name) for name in ("sgd", "adam")])
    panels = [f"Examples to validation loss 0.2, {name}" for name in ("SGD", "Adam")]
    assert titles(figures.draw(both, RATE_MAP)) == panels
