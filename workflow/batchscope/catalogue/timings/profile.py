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
    "executor": Column(
        "The part of host in which a graph runs, but no operation that the trace shows."
    ),
    "steps": Integer("Profiled steps."),
    "steps_per_second": Column("Steps per second without the profiler."),
    "overhead": Column("Time that the profiler adds, as a share of the time without it."),
    "process_percent": Percent(
        "CPU utilisation of the process during the steps without the profiler, % of "
        "its cores: median."
    ),
    "process_zero_share": shared.PROCESS_ZERO_SHARE,
    **shared.GPU,
    "memory_peak_mb": Column(
        "Peak resident memory of the process up to the last step, graph and profiler included, MB."
    ),
    "tensorflow_peak_mb": Column(
        "Peak of what TensorFlow's allocator gave out on the device, MB; on a CPU as "
        "in utilisation.csv."
    ),
    "gpu_memory_peak_mb": shared.GPU_MEMORY_PEAK_MB,
    "foreign_cores": Column("Cores that other processes took, from building the graph on: mean."),
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
