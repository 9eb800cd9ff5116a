"""What runs and data sets take in time and disk."""

from pathlib import Path

import pytest

from batchscope.store import estimates, paths
from batchscope.study import dataset_definitions, names


@pytest.mark.parametrize(
    ("known", "batch_size", "seconds"),
    [
        ({32: 4.0}, 32, 4.0),
        ({32: 4.0}, 16, 8.0),
        ({32: 4.0}, 64, 4.0),
        ({16: 8.0, 64: 2.0}, 32, 4.0),
    ],
)
def test_seconds_of_an_epoch_at_another_batch_size(known, batch_size, seconds):
    assert estimates.epoch_seconds(known, batch_size) == pytest.approx(seconds)


def test_bytes_of_data(tmp_path):
    def size(**raw):
        return dataset_definitions.read(raw).prepared_bytes()

    split = {"train": 0.8, "validation": 0.1, "test": 0.1}
    assert size(source="mnist") == 70000 * 788
    assert size(source="digits") == 1797 * 68
    cats = {"source": "cats_vs_dogs", "image_size": 64, "split": split}
    assert size(**cats, per_class=100) == 64 * 64 * 3 * 200
    folder = {"source": "image_folder", "path": "x", "image_size": 8, "split": split}
    assert size(**folder) is None
    Path(tmp_path / "x.npz").write_bytes(bytes(77))
    assert size(source="npz", path=str(tmp_path / "x.npz")) == 77


def test_what_a_few_steps_tell_serves_until_a_run_has_finished(tmp_path):
    """Between two sizes, beyond them, and no other setting; a damaged note tells nothing."""
    factors = names.parse_run("d-1f0a93c2+mlp+bs=8+lr=0.1+opt=sgd+ep=10+seed=0")
    for size, seconds in ((8, 4.0), (32, 1.0)):
        estimates.note_epoch(tmp_path, {**factors, "batch_size": size}, seconds)
    known = estimates.History(tmp_path, {estimates.subject(factors)})
    found = [known.seconds({**factors, "batch_size": size}) for size in (4, 8, 16, 64)]
    assert found == pytest.approx([80, 40, 20, 10])
    assert known.seconds({**factors, "optimizer": "adam"}) is None
    # A run of one size says nothing of what another was found to take.
    known._times[estimates.setting(factors)] = {32: [1.0]}
    assert [known.seconds({**factors, "batch_size": size}) for size in (8, 32)] == [40, 10]
    paths.epoch_seconds_note(tmp_path).write_text("{")
    assert estimates.History(tmp_path, set()).seconds(factors) is None
