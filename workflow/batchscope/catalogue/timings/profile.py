"""Profile of a step: the entry."""

from batchscope.catalogue import shared_columns
from batchscope.catalogue.entries import Column, Figure, Integer, Table, Timing
from batchscope.catalogue.parameters import Parameter

_PROFILES = {
    "batch_size": Integer("Examples per step."),
    "status": shared_columns.STATUS,
    "compute": Column("Share of the time in which an operation computes."),
    "input": Column("Share in which training waits for data and nothing computes."),
    "host": Column("Share of neither: Python, dispatch, copies, idle."),
    "executor": Column(
        "The part of host in which a graph runs, but no operation that the trace shows."
    ),
    "steps": Integer("Profiled steps."),
    "steps_per_second": Column("Steps per second without the profiler."),
    "overhead": Column("Time that the profiler adds, as a share of the time without it."),
    "process_percent": Column(
        "CPU utilisation of the process during the steps without the profiler, % of "
        "its cores: median."
    ),
    "process_zero_share": shared_columns.PROCESS_ZERO_SHARE,
    **shared_columns.GPU,
    "memory_peak_mb": Column(
        "Peak resident memory of the process up to the last step, graph and profiler included, MB."
    ),
    "tensorflow_peak_mb": Column(
        "Peak of what TensorFlow's allocator gave out on the device, MB; on a CPU as "
        "in utilisation.csv."
    ),
    "gpu_memory_peak_mb": shared_columns.GPU_MEMORY_PEAK_MB,
    "foreign_cores": Column("Cores that other processes took, from building the graph on: mean."),
}

ENTRY = Timing(
    name="profile",
    version="profile-v1",
    doc=(
        "What the time of a step goes to, by TensorFlow's profiler; keeps a trace for TensorBoard."
    ),
    settings=(Parameter("steps", "st", "int", 20, "Profiled steps.", "steps", minimum=1),),
    batch_sizes="each",
    also_writes=("",),
    by_job=("profiles",),
    tables={"profiles": Table("timing_tables.profiles", _PROFILES, keys=())},
    figures=(
        Figure(
            "profile",
            "What the time goes to",
            "Time",
            caption=(
                "What the wall time of consecutive training steps goes to, by TensorFlow's "
                "profiler. Compute: at least one operation of the model runs, on a GPU at least "
                "one kernel. Waiting for input: none does, and training waits for its next batch. "
                "Neither: Python, dispatch, copies between devices, idle, and operations that "
                "TensorFlow takes for too cheap to record, so that compute is a lower bound where "
                "steps are short. At the right edge: steps per second without the profiler."
            ),
        ),
    ),
    minutes=30,
    order=5,
)
