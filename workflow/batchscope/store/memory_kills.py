"""What becomes of a run whose training the kernel killed for memory: a result, or another attempt.

Where a scheduler gives each attempt more memory, a kill is only noted, in the run's folder; an
attempt that has no more memory than the one that was killed makes the result.
"""

import os
from pathlib import Path

from batchscope import disk
from batchscope.errors import UserError
from batchscope.host import control_groups

NOTE = "memory_kill.json"
SCHEDULED = "BATCHSCOPE_SCHEDULED"  # in the environment of a job that a scheduler started


def record_or_retry(folder: Path, limit_mb: float | None) -> str | None:
    """Says what is to become of a run: a sentence for its record, or None to train it.

    Args:
        limit_mb: The limit at which its training was just killed, if so.

    Raises:
        UserError: If it was, and the scheduler's next attempt may have more memory.
    """
    scheduled, note = SCHEDULED in os.environ, folder / NOTE
    if limit_mb is None and scheduled and note.exists():
        noted = disk.read_json(note)["limit_mb"]
        if control_groups.limit_mb() <= noted:
            limit_mb, scheduled = noted, False
    if limit_mb is None:
        return None
    if scheduled:
        disk.write_json(note, {"limit_mb": limit_mb})
        raise UserError(
            f"{folder}: received at most {limit_mb:.0f} MB of memory, and the kernel killed the "
            "training for it; more is expected. An attempt with more goes on from the checkpoint; "
            "one with no more records the run as out_of_memory."
        )
    return f"The kernel killed the training for memory; its limit was {limit_mb:.0f} MB."
