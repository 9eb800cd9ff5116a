"""The numbers of a tiny run stay what they were, or their step's version is raised.

`python tests/training/test_versions.py` writes the stored numbers anew.
"""

import json
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest

import digit_runs
from digit_runs import DIGITS, door, run_name

pytestmark = pytest.mark.slow

STORED = Path(__file__).parents[1] / "data" / "tiny_run.json"
RUN = run_name(epochs=3, batch_size=64, update_norms=True)
SETTINGS = {
    "evaluate": "default",
    "sharpness": "ex=300+it=3+st=2+dim=10",
    "weight_distance": "default",
    "displacement": "default",
}


def numbers(results: Path) -> dict[str, dict[str, float]]:
    """Returns step -> what it gives for one tiny run."""
    words = ("--dataset", RUN.split("+")[0], "--definition", json.dumps(DIGITS))
    assert door("prepare_data", "--results", str(results), *words).wait() == 0
    done = digit_runs.train(results, RUN)
    with np.load(results / "runs" / RUN / "final.npz") as weights:
        norm = float(np.sqrt(sum((weights[name] ** 2).sum() for name in weights.files)))
    train = {key: done[key] for key in ("best_validation_loss", "best_epoch", "steps_run")}
    result = {"train": {**train, "norm": norm}}
    for measure, settings in SETTINGS.items():
        output = results / f"{measure}.json"
        words = ("--run", RUN, "--settings", settings, "--output", str(output))
        assert door(measure, "--results", str(results), *words).wait() == 0
        result[measure] = json.loads(output.read_text())["values"]
    return result


@pytest.fixture(scope="module")
def now(tmp_path_factory) -> dict:
    return numbers(tmp_path_factory.mktemp("tiny") / "results")


@pytest.mark.parametrize("step", ["train", *SETTINGS])
def test_numbers_have_not_moved(now, step):
    from batchscope.study.registry import VERSIONS

    stored = json.loads(STORED.read_text())
    # Other processors round otherwise, which may turn one example over (1 of 355).
    moved = now[step] != pytest.approx(stored["numbers"][step], rel=1e-2, abs=1e-3)
    if VERSIONS[step] == stored["versions"][step]:
        assert not moved, f"bump {VERSIONS[step]}: {now[step]} was {stored['numbers'][step]}"
    else:
        pytest.fail(f"{VERSIONS[step]}: store its numbers: python tests/training/test_versions.py")


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[2] / "workflow"))
    from batchscope.study.registry import VERSIONS

    with tempfile.TemporaryDirectory() as folder:
        kept = {"versions": VERSIONS, "numbers": numbers(Path(folder) / "results")}
    STORED.write_text(json.dumps(kept, indent=1) + "\n")
