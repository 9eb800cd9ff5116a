"""After which epochs weights are kept, and who reads them."""

import pytest

from batchscope.study import snapshot_epochs


@pytest.mark.parametrize(
    ("epochs", "kept"),
    [(1, (1,)), (7, (1, 2, 3, 4, 5, 7)), (40, (1, 2, 3, 4, 5, 8, 16, 32, 40))],
)
def test_possible_epochs_of_run(epochs, kept):
    assert snapshot_epochs.possible_epochs_of_run(epochs) == kept


@pytest.mark.parametrize(
    ("epochs_run", "epoch"),
    [(10, 5), (24, 8), (26, 16), (3, 1), (2, 1), (1, None), (0, None)],
)
def test_the_middle_is_the_nearest_epoch_that_is_no_end(epochs_run, epoch):
    assert snapshot_epochs.middle_epoch(epochs_run) == epoch  # of 24 both are four off: the earlier


def test_only_epochs_that_a_measure_reads_are_kept():
    for has_ended in (False, True):
        assert snapshot_epochs.epochs_to_keep((), 8, has_ended=has_ended) == set()
    assert snapshot_epochs.epochs_to_keep((2, 7), 5, has_ended=False) == {2}
    assert snapshot_epochs.weights_name(3, 10) == "epochs/3"
    assert snapshot_epochs.weights_name(10, 10) == "final"


@pytest.mark.parametrize("last", [*range(20), 63, 64, 65])
def test_the_middle_of_every_end_was_kept_until_then(last):
    """A training learns its end when it comes: what it drops before is no later middle."""
    kept: set[int] = set()
    for epoch in range(1, last + 1):
        wanted = snapshot_epochs.epochs_to_keep((snapshot_epochs.MIDDLE,), epoch, has_ended=False)
        kept = {each for each in (*kept, epoch) if each in wanted}
        assert len(kept) <= 4
    wanted = snapshot_epochs.epochs_to_keep((snapshot_epochs.MIDDLE,), last, has_ended=True)
    assert wanted <= kept
    assert wanted == ({snapshot_epochs.middle_epoch(last)} - {None})


@pytest.mark.parametrize(
    ("measure", "epoch", "read"),
    [
        ("evaluate", 3, 3),
        ("evaluate", 5, None),  # the last weights are kept anyway
        ("evaluate", 0, None),
        ("gradient_alignment", 0, snapshot_epochs.MIDDLE),
        ("sharpness", 0, None),
    ],
)
def test_what_a_measure_reads_of_five_epochs(measure, epoch, read):
    assert snapshot_epochs.epoch_read_by(measure, epoch, 5) == read
