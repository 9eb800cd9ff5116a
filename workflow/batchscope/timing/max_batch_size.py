"""The largest batch size that fits into memory: the file layer of `largest`."""

from __future__ import annotations

import json
import math
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

from batchscope import machine, names, records
from batchscope.sweeps import Sweep
from batchscope.timing import largest
from batchscope.versions import VERSIONS

DOOR = Path(__file__).resolve().parents[2] / "run.py"


def command(
    results: Path | str,
    sweep: Sweep,
    batch_size: int,
    memory_mb: float | None,
    model_file: Path | str | None,
) -> list[str]:
    """Returns the command line that tries one batch size."""
    words = [sys.executable, str(DOOR), "try_batch", "--results", str(results)]
    words += ["--sweep", sweep.name, "--batch-size", str(batch_size)]
    if memory_mb is not None:
        words += ["--memory-mb", json.dumps(memory_mb)]
    return [*words, *(["--model-file", str(model_file)] if model_file else [])]


def write(
    results: Path | str,
    machine_name: str,
    sweep: Sweep,
    settings: str,
    output: Path | str,
    model_file: Path | str | None = None,
) -> None:
    """Searches for the largest batch size and writes the record, every try in it.

    Args:
        results: The folder of all results.
        machine_name: Name of this machine in the configuration.
        sweep: The configuration.
        settings: Name of the settings.
        output: The record's file.
        model_file: The user's model file, where the model is not built in.

    Raises:
        UserError: If a try failed for another reason than memory.
    """
    from batchscope.errors import UserError

    parsed = names.parse_settings("max_batch_size", settings)
    device = sweep.factors["device"]
    limits = largest.limits_now(device, parsed["limit_mb"])
    before = machine.load()
    found = largest.find(
        lambda size: command(results, sweep, size, limits.memory_mb, model_file),
        limits,
        start=sweep.factors["replicas"],
        most=parsed["most"],
        step=sweep.factors["replicas"],
        resolution=parsed["resolution"],
    )
    if found.stopped == largest.FAILED:
        last = found.tries[-1]
        raise UserError(f"max_batch_size: batch size {last.batch_size}: {last.message}")
    fixed, per_image = largest.memory_per_image(found.tries)
    values: dict[str, Any] = {
        "largest": found.largest,
        "refused": found.refused,
        "bound": found.stopped,
        "limit_mb": limits.memory_mb,
        "memory_fixed_mb": None if math.isnan(fixed) else fixed,
        "memory_mb_per_image": None if math.isnan(per_image) else per_image,
    }
    record = records.measure_record(
        "max_batch_size",
        sweep.name,
        parsed,
        records.FINISHED,
        {},
        **values,
        version=VERSIONS["max_batch_size"],
        factors=sweep.factors,
        limits=asdict(limits),
        tries=[asdict(entry) for entry in found.tries],
        threads=sweep.factors["threads"],
        device=device,
        load={"before": before, "after": machine.load()},
        versions=machine.versions(),
        machine={"name": machine_name, **machine.describe()},
    )
    records.write_json(output, record)
