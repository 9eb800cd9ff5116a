"""Rates are chosen over all seeds, never one with a failed run, and read without flattery."""

import numpy as np
import pandas
import pytest

from batchscope.analysis import chosen_rates
from batchscope.analysis.trainings import Trainings

NAN, INF = float("nan"), float("inf")


@pytest.mark.parametrize(
    ("losses", "index", "on_edge"),
    [
        ([[0.5, 0.5], [0.2, 0.4], [0.1, 0.9]], 1, False),  # means .5 .3 .5
        ([[0.1, 0.3], [0.3, 0.3], [0.4, 0.4]], 0, True),  # means .2 .3 .4: on the lower edge
        ([[0.9, 0.9], [0.8, 0.8], [0.1, 0.2]], 2, True),  # on the upper edge
        ([[0.5, 0.6], [0.1, INF], [0.1, NAN]], 0, True),  # never one with a failed or missing run
        ([[INF, INF], [0.3, INF], [NAN, 0.2]], -1, False),
        ([[NAN, NAN], [0.2, 0.2], [0.3, 0.3]], 1, True),  # of the two that were tried the lower
        ([[0.5], [0.2], [INF]], 1, False),  # beside one that diverged it is inside of the grid
        ([[0.5, 0.4]], 0, False),  # a single rate is no edge
        ([[0.4, NAN], [0.3, NAN]], 1, True),  # a seed without any run of a size is no seed of it
        ([[0.2], [0.2], [0.2]], 0, True),  # among equals the lowest rate
    ],
)
def test_the_lowest_mean_over_all_seeds_is_chosen(losses, index, on_edge):
    chosen = chosen_rates.index_of_lowest_loss([losses])
    edges = chosen_rates.is_on_edge(chosen, [losses])
    assert (chosen.tolist(), edges.tolist()) == ([index], [on_edge])


def test_other_data_are_read_where_a_run_failed_at_every_rate_and_not_where_one_is_missing():
    found = [
        [[0.5, 0.5, 0.5], [0.4, 0.4, 0.4]],
        [[0.3, INF, INF], [INF, 0.5, 0.6]],  # at the second most got there
        [[INF, INF, INF], [INF, INF, INF]],
        [[0.2, 0.2, NAN], [NAN, 0.3, 0.05]],  # means over other seeds: there is none to choose
        [[0.2, INF, 0.2], [NAN, 0.3, 0.05]],
        [[NAN, NAN, NAN], [NAN, NAN, NAN]],
    ]
    assert chosen_rates.index_for_other_data(found).tolist() == [1, 1, 0, -1, -1, -1]
    # A single rate is no choice.
    assert chosen_rates.index_for_other_data([[[NAN, NAN]], [[INF, 0.3]]]).tolist() == [0, 0]


SEEDS = np.arange(6) % 3 / 100  # by how much the losses of seeds differ at the same rate
SWAPPED = SEEDS[::-1]  # the same at another rate
MISSED = np.where(np.arange(6) == 1, INF, 1.0)  # one seed of six misses the target


@pytest.mark.parametrize(
    ("losses", "taken", "index", "on_edge"),
    [
        # The second rate is twice as fast, and its loss is higher.
        ([0.2 + SEEDS, 0.3 + SWAPPED], [100.0, 50.0], 0, True),
        # The losses are not distinguished: the faster rate, or the lower loss if none is faster.
        ([0.2 + SEEDS, 0.201 + SWAPPED], [100.0, 50.0], 1, True),
        ([0.2 + SEEDS, 0.201 + SWAPPED], [105.0, 100.0], 0, True),
        # A rate on the edge counts only if none between the edges does as well.
        ([0.2 + SEEDS, 0.201 + SWAPPED, 0.3 + SEEDS], [100.0, 105.0, 100.0], 0, False),
        ([0.2 + SEEDS, 0.3 + SWAPPED, 0.4 + SEEDS], [100.0, 100.0, 100.0], 0, True),
        ([0.2 + SEEDS, 0.1 + SWAPPED, [INF] * 6], [100.0, 100.0, [INF] * 6], 1, False),
        # One seed that missed the target at the other rates decides nothing.
        ([0.202 + SEEDS, 0.2 + SWAPPED, 0.201 + SEEDS], [90.0, 90 * MISSED, 90 * MISSED], 1, False),
        ([0.202 + SEEDS, 0.201 + SWAPPED, 0.2 + SEEDS], [INF, 90 * MISSED, 90 * MISSED], 1, False),
        # A rate between the edges at which every seed reached the target comes first.
        (
            [0.4 + SEEDS, 0.2 + SWAPPED, 0.201 + SEEDS, 0.4 + SEEDS],
            [90, 90 * MISSED, 90, 90],
            2,
            False,
        ),
        # Without a target the losses alone choose.
        ([0.4 + SEEDS, 0.2 + SWAPPED, 0.201 + SEEDS], [NAN, NAN, NAN], 1, False),
        # Two seeds distinguish nothing: the lowest mean.
        ([[0.9, 0.8], [0.3, 0.4], [0.2, 0.35]], [NAN, NAN, NAN], 2, False),
    ],
)
def test_the_rate_of_all_data_is_the_best_of_those_that_do_equally_well(
    losses, taken, index, on_edge
):
    losses = np.array([losses], float)
    taken = [[np.broadcast_to(each, losses.shape[2]) for each in taken]]
    found, edges = chosen_rates.index_for_all_data(losses, taken, 0.1)
    assert (found.tolist(), edges.tolist()) == ([index], [on_edge])


def test_each_seed_is_read_at_the_rate_that_the_others_choose():
    values = [[[10.0, 20.0, 30.0], [24.0, 24.0, 15.0]]]
    # All: 20 and 21. Without seed 0: 25 and 19.5; without 1: 20 and 19.5; without 2: 15 and 24.
    read, index = chosen_rates.leave_one_out(values)
    assert index.tolist() == [[1, 1, 0]]
    assert read.tolist() == [[24.0, 24.0, 30.0]]


def test_runs_that_never_reach_the_target_are_read_as_such():
    read, index = chosen_rates.leave_one_out(
        [
            [[3.0, 5.0, INF, INF], [NAN] * 4],  # a single rate: no choice
            [[3.0, 5.0, 7.0, INF], [INF, INF, INF, 2.0]],  # no rate got all there
            [[9.0, 9.0, 9.0, 9.0], [1.0, 1.0, INF, 1.0]],  # a rate that failed once
            [[INF] * 4, [INF] * 4],
            [[3.0, 5.0, 7.0, INF], [1.0, 1.0, INF, INF]],  # those with the fewest failures are left
        ]
    )
    assert read[0].tolist() == [3.0, 5.0, INF, INF]
    assert read[1].tolist() == [3.0, 5.0, 7.0, INF]
    # Seed 2 alone failed at the fast rate: no seed chooses it.
    assert read[2].tolist() == [9.0] * 4 and index[2].tolist() == [0] * 4
    assert read[3].tolist() == [INF] * 4 and index[3].tolist() == [-1] * 4
    assert read[4].tolist() == [3.0, 5.0, 7.0, INF] and index[4].tolist() == [0] * 4


def of(*rows):
    """Returns trainings of rows of batch size, rate, seed, status and loss."""
    names = ["batch_size", "learning_rate", "seed", "status", "train_loss"]
    runs = pandas.DataFrame(rows, columns=names)
    return Trainings({}, runs, runs[:0].assign(run=""))


def test_runs_are_read_as_a_cube():
    found = of(
        (16, 0.1, 0, "finished", 1.0),
        (16, 0.2, 1, "diverged", 9.0),
        (8, 0.1, 1, "missing", 3.0),
    )
    assert found.axes == ([8, 16], [0.1, 0.2], [0, 1]) and found.has_several_rates
    expected = [[[NAN, NAN]] * 2, [[1.0, NAN], [NAN, INF]]]
    assert np.array_equal(found.column_cube("train_loss"), expected, equal_nan=True)
    assert not of((8, 0.1, 0, "finished", 1.0), (16, 0.2, 0, "finished", 1.0)).has_several_rates


def test_a_seed_is_read_at_the_rate_of_all_or_at_that_of_the_others():
    """At .1 seed 0 alone is best; without it .2 is better."""
    losses = {(0.1, 0): 0.1, (0.1, 1): 0.6, (0.2, 0): 0.4, (0.2, 1): 0.5}
    each = of(*((8, *key, "finished", loss) for key, loss in losses.items()))
    cube = each.column_cube("train_loss")
    for found in (each.choose_by_losses(cube, cube, True), each.choose_by_costs(cube)):
        assert found.rates.tolist() == [0.1] and found.on_edge.all() and found.tuned.all()
        assert each.rates_at(found.rate_index).tolist() == [[0.2, 0.1]]
        assert found.values.tolist() == [[0.4, 0.6]]
    found = each.choose_by_losses(cube, -cube, False)
    assert found.values.tolist() == [[-0.1, -0.6]] and found.tuned.all()
