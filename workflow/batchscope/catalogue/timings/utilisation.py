"""Utilisation of CPU and GPU, and memory, sampled while one batch size after another trains."""

from batchscope.catalogue import shared
from batchscope.catalogue.entries import (
    Column,
    Figure,
    Integer,
    Panel,
    Percent,
    Scale,
    Table,
    Text,
    Timing,
    interval,
)
from batchscope.catalogue.parameters import Parameter

_UTILISATION = {
    shared.REPEAT: shared.WHICH,
    "batch_size": Integer("Examples per step."),
    "status": shared.STATUS,
    "steps": Integer("Steps of the training."),
    "seconds": Column("Its time, s."),
    "process_percent": Percent(
        "CPU utilisation of the process, % of its cores: median over time.",
        "%",
        label="CPU utilisation",
    ),
    "process_percent_q1": Percent("Lower quartile over time."),
    "process_percent_q3": Percent("Upper quartile over time."),
    "process_zero_share": Column(
        "Share of the time without work of the process on the CPU.",
        "share",
        label="Share of the time without work on the CPU",
    ),
    "disturbed": Column(
        "Whether other processes took more than 0.2 cores on average, after up to two repeats."
    ),
    "memory_peak_mb": Column("Peak resident memory of the process.", "MB", label="Peak memory"),
    "tensorflow_peak_mb": Column(
        "Peak of what TensorFlow's allocator gave out on the device, MB; on a CPU without tensors "
        "below 256 KiB, and empty where all are."
    ),
    "gpu_percent": Percent(
        "GPU utilisation, % of the time in which a kernel ran: median over time.",
        "%",
        label="GPU utilisation",
    ),
    "gpu_percent_q1": Percent("Lower quartile over time."),
    "gpu_percent_q3": Percent("Upper quartile over time."),
    "gpu_zero_share": Column("Share of the time at 0 %."),
    "gpu_bandwidth_percent": Percent(
        "% of the time in which GPU memory was read or written: median.",
        "%",
        label="Share of the time in which GPU memory is read or written",
    ),
    "gpu_memory_peak_mb": Column(
        "Peak memory in use on the GPU, by all processes, MB; TensorFlow gives nothing "
        "back, so that it does not fall with the batch size."
    ),
    "joules_per_epoch": Column("Energy of the GPU for the examples of an epoch, J."),
    "memory_mb_per_image": Column(
        "Memory per example: slope of a line through the peaks of all batch sizes that exceed the "
        "lowest by 4 MB, where it is resolved; the same on every row.",
        "MB",
        label="Memory per example",
    ),
    **interval("memory_mb_per_image", "Lower end of its 95 % interval, over batch sizes."),
    "memory_of": Text(
        "Column of these peaks, the first of tensorflow_peak_mb, gpu_memory_peak_mb and "
        "memory_peak_mb that resolves it."
    ),
}
_SAMPLES = {
    "batch_size": Integer("Batch size of the training at that time; empty between two."),
    "phase": Text(
        "training; lead_in, the first steps after a change of batch size; repeated, a training "
        "that other processes disturbed and that was run again; empty while resting."
    ),
    "seconds": Column("Time since the start, s."),
    "process_percent": Percent(
        "CPU utilisation of the process since the sample before, % of its cores."
    ),
    "machine_percent": Percent("CPU utilisation of the whole machine since then, %."),
    "memory_mb": Column("Resident memory of the process, MB."),
    "gpu_percent": Percent("GPU utilisation, %."),
    "gpu_memory_mb": Column("Memory in use on the GPU, MB."),
}

UTILISATION = (
    Panel("process_percent", "CPU utilisation", "of its cores (%)", Scale.ZERO),
    Panel("gpu_percent", "GPU utilisation", "time with a kernel (%)", Scale.ZERO),
)
MEMORY = (
    Panel("memory_peak_mb", "Resident memory", "peak (MB)"),
    Panel("gpu_memory_peak_mb", "Memory of the GPU", "peak (MB)"),
)

ENTRY = Timing(
    version="utilisation-v2",
    settings=(
        Parameter.seconds("seconds", "sec", 5.0, "Training at every batch size.", above=0),
        Parameter.seconds("pause_seconds", "pau", 1.0, "Rest before each.", minimum=0),
        Parameter.seconds("interval", "int", 0.1, "Between two samples.", above=0),
    ),
    tables={
        "utilisation": Table(
            _UTILISATION,
            keys=(),
        ),
        "samples": Table(_SAMPLES),
    },
    figures=(
        Figure(
            "utilisation",
            "Utilisation and memory",
            "Machine",
            "How busy the machine was while it trained at every batch size, and the most "
            "memory held: medians and quartiles of samples within one training. 100 % of the "
            "CPU are the cores that the process was given.",
            kind="sweep",
            table="utilisation",
            panels=(
                *UTILISATION,
                Panel(
                    "gpu_bandwidth_percent",
                    "GPU memory traffic",
                    "time with traffic (%)",
                    Scale.ZERO,
                ),
                *MEMORY,
                Panel("tensorflow_peak_mb", "Memory of tensors", "peak (MB)"),
                Panel("process_zero_share", "CPU at zero", "share of time (%)", Scale.PERCENT),
                Panel("gpu_zero_share", "GPU at zero", "share of time (%)", Scale.PERCENT),
                Panel("joules_per_epoch", "Energy per epoch", "GPU energy (J)"),
            ),
            columns=(
                *("disturbed", "memory_mb_per_image", "memory_mb_per_image_low"),
                *("memory_mb_per_image_high", "memory_of"),
            ),
        ),
        Figure(
            "utilisation_over_time",
            "Utilisation over time",
            "Machine",
            "Samples through consecutive trainings of one job, which rests before each; shaded "
            "spans are the trainings. Every sample stands for the time since the one before it.",
            kind="utilisation_over_time",
            table="samples",
        ),
    ),
    order=3,
)
