"""What the time of a step goes to, by TensorFlow's profiler; keeps a trace for TensorBoard."""

from batchscope.catalogue import shared
from batchscope.catalogue.entries import Column, Figure, Integer, Percent, Table, Timing
from batchscope.catalogue.parameters import Parameter

_PROFILES = {
    shared.REPEAT: shared.WHICH,
    "batch_size": Integer("Examples per step."),
    "status": shared.STATUS,
    "compute": Column("Share of the time in which an operation computes."),
    "input": Column("Share in which training waits for data and nothing computes."),
    "host": Column("Share of neither: Python, dispatch, copies, idle."),
    "steps": Integer("Profiled steps."),
    "steps_per_second": Column("Steps per second without the profiler."),
    "process_percent": Percent(
        "CPU utilisation of the process during the steps without the profiler, % of "
        "its cores: median."
    ),
    "gpu_percent": Percent(
        "GPU utilisation meanwhile, % of the time in which a kernel ran: median; empty where the "
        "steps take less than the 1 s that NVML averages over."
    ),
}

ENTRY = Timing(
    version="profile-v1",
    settings=(Parameter("steps", "st", "int", 20, "Profiled steps.", "steps", minimum=1),),
    batch_sizes="each",
    also_writes=("",),
    tables={"profiles": Table(_PROFILES, keys=())},
    figures=(
        Figure(
            "profile",
            "Where a step's time goes",
            "Machine",
            "Shares of the wall time of training steps, by TensorFlow's profiler; where steps "
            "are short, compute is a lower bound. At the right: what was measured without the "
            "profiler.",
            kind="profile",
            table="profiles",
        ),
    ),
    minutes=30,
    order=5,
)
