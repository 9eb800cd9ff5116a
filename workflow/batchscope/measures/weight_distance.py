"""How far training moved the weights: the distance from the initial ones, by layer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from batchscope.store import records
from batchscope.training import distances


def measure_run(
    results: Path | str,
    run: str,
    settings: dict[str, Any],
    model_file: Path | str | None = None,
) -> tuple[dict[str, float | None], dict[str, Any]]:
    """Measures how far a finished run moved its weights; writes nothing.

    Args:
        results: The folder of all results.
        run: Name of the run.
        settings: Every setting, by full name.
        model_file: Not needed: the weights alone are read. Every measure takes it.

    Returns:
        Column -> value, and the details of the record.

    Raises:
        UserError: If the run or its weights are missing.
    """
    folder = records.run_folder(results, run)
    # Moving statistics are no parameters: only trainable weights count.
    initial, _ = records.read_weights(folder / "initial.npz")
    trained, _ = records.read_weights(folder / f"{settings['weights']}.npz")
    measured = distances.distances(initial, trained)
    values = {
        "weight_distance": measured["distance"],
        "weight_distance_relative": measured["relative"],
    }
    return values, {"layers": measured["layers"]}
