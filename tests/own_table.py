"""A table of trainings that were made elsewhere, of known B_crit: a row per evaluation."""

import math
from pathlib import Path

import numpy as np
import pandas

SIZES = (8, 32, 128)
RUNS = {"files": "own_runs.csv", "factors": ["variant"]}
CRITICAL = {"plain": 40.0, "lookahead": 160.0}


def rows(variants=tuple(CRITICAL), seeds=6, seconds=False, **more) -> pandas.DataFrame:
    """Trainings whose loss falls as exp(-updates), until a floor that grows with the batch."""
    rng, found = np.random.default_rng(0), []
    for variant in variants:
        for size in SIZES:
            for seed in range(seeds):
                scale = 10 * (1 + CRITICAL[variant] / size) * math.exp(rng.normal(0, 0.02))
                for updates in range(20, 801, 60):
                    loss = 2 * math.exp(-updates / scale) + 0.05 + 0.001 * size
                    row = {"variant": variant, "batch_size": size, "seed": seed}
                    row |= {"updates": updates, "validation_loss": loss}
                    row |= {"test_accuracy": round(1 - loss / 4 + rng.normal(0, 0.002), 4)}
                    row |= {"seconds": updates * (0.01 + 0.001 * seed)} if seconds else {}
                    found.append({**row, **more})
    return pandas.DataFrame(found)


def write(folder: Path, frame: pandas.DataFrame, name: str = "own_runs.csv") -> Path:
    """Writes a table beside a study."""
    frame.to_csv(folder / name, index=False)
    return folder / name


def study(**experiment) -> dict:
    """A study of own runs alone."""
    return {"study": "mine", "experiments": {"a": {"runs": RUNS, **experiment}}}
