"""The timings: one module per timing, which holds its entry and nothing that runs.

The module of the same name in batchscope.timing does the work.
"""

from batchscope.catalogue.entries import Timing, discover

TIMINGS: dict[str, Timing] = discover(__name__, __path__, Timing)
# Those of a training's configuration, asked for under `measure`, and of sweeps, under `timing`.
OF_TRAININGS = {name: entry for name, entry in TIMINGS.items() if entry.trains}
OF_SWEEPS = {name: entry for name, entry in TIMINGS.items() if not entry.trains}
# By which trainings have seconds.
OF_SECONDS = {name: entry for name, entry in TIMINGS.items() if entry.seconds}
