"""After which epochs weights are kept."""

import pytest

from batchscope.catalogue import kept_epochs


@pytest.mark.parametrize(
    ("epochs", "kept"),
    [
        (1, (1,)),
        (3, (1, 2, 3)),
        (5, (1, 2, 3, 4, 5)),
        (7, (1, 2, 3, 4, 5, 7)),
        (8, (1, 2, 3, 4, 5, 8)),
        (10, (1, 2, 3, 4, 5, 8, 10)),
        (40, (1, 2, 3, 4, 5, 8, 16, 32, 40)),
    ],
)
def test_kept_epochs(epochs, kept):
    assert kept_epochs.kept_epochs(epochs) == kept


@pytest.mark.parametrize("epochs", range(1, 70))
def test_what_is_promised_is_what_training_stores(epochs):
    stored = tuple(epoch for epoch in range(1, epochs + 1) if kept_epochs.is_stored(epoch))
    assert kept_epochs.stored_epochs(epochs) == stored
    assert set(kept_epochs.kept_epochs(epochs)) == {*stored, epochs}


def test_where_weights_lie():
    assert kept_epochs.weights_name(3, 10) == "epochs/3"
    assert kept_epochs.weights_name(10, 10) == "final"
