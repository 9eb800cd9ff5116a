"""The tables of timings: their columns, and what each holds."""

from __future__ import annotations

from batchscope.analysis import step_cost
from batchscope.catalogue import sweep_names

# What a row is of: the machine, the sweep and its factors.
FIRST = (
    "machine",
    "sweep",
    "dataset",
    "dataset_digest",
    "model",
    "model_digest",
    *(name for name in sweep_names.FACTORS if name not in ("dataset", "model", "batch_size")),
)
QUARTILES = ("", "_q1", "_q3")
_OF_BLOCKS = {"": "median", "_q1": "lower quartile", "_q3": "upper quartile"}
_STATUS = "finished, diverged or out_of_memory."
_STATUS_HERE = (
    "finished, diverged, out_of_memory; or not_installed where the framework has no environment "
    "here, no_gpu where no GPU is within reach, or no_cores where it asks for more threads than "
    "there are cores, and the rest of the row is empty."
)
# What samples say of a GPU. NVML averages over up to a second: of shorter pieces it tells what
# came before them.
GPU_USED = {
    "gpu_percent": "GPU utilisation, % of the time in which a kernel ran: median; empty, as the "
    "three that follow, where nothing lasts longer than the 1 s that NVML averages over.",
    "gpu_zero_share": "Share of the time at 0 %.",
    "gpu_bandwidth_percent": "% of the time in which GPU memory was read or written: median.",
    "gpu_power_watts": "Mean power of the GPU, W.",
}
_GPU_MEMORY = "Peak memory in use on the GPU, by all processes, MB."

# Columns of each table beside those of FIRST, with what they hold.
THROUGHPUT: dict[str, str] = {
    "batch_size": "Images per step.",
    "status": _STATUS_HERE,
    "steps": "Steps of a block.",
    "blocks": "Timed blocks.",
    "disturbed_blocks": "Those during which other processes took more than 0.2 cores.",
    "foreign_cores": "Cores that other processes took during a block: median.",
    **{
        f"{name}{quartile}": f"{words}: {_OF_BLOCKS[quartile]} of the blocks."
        for name, words in (
            ("seconds_per_step", "Time of a step, s"),
            ("iterations_per_second", "Steps per second"),
            ("images_per_second", "Images per second"),
        )
        for quartile in QUARTILES
    },
    "train_examples": "Images of an epoch.",
    "seconds_per_epoch": "train_examples over images_per_second, whole batches throughout, s.",
    "process_percent": "CPU utilisation of the process during the blocks, % of its cores: median.",
    "process_zero_share": "Share of their time without work of the process on the CPU.",
    **GPU_USED,
}
SWEEPS: dict[str, str] = {
    "status": _STATUS_HERE,
    "used_threads": "Threads that the framework used: what `all` (0) stood for.",
    "train_examples": "Images of an epoch.",
    "sizes": "Batch sizes that were timed.",
    "blocks": "Timed blocks of all of them.",
    "disturbed_blocks": "Those during which other processes took more than 0.2 cores.",
    "fixed_seconds": "Fixed cost of a step: a of the fit t = a + b * batch size, s.",
    "fixed_seconds_low": "Lower end of its 95 % interval.",
    "fixed_seconds_high": "Upper end of its 95 % interval.",
    "seconds_per_image": "Cost per image: b of the fit, s.",
    "seconds_per_image_low": "Lower end of its 95 % interval.",
    "seconds_per_image_high": "Upper end of its 95 % interval.",
    "fixed_seconds_error": "Standard error of the fixed cost: that over sizes joined with that "
    "over rounds.",
    "fixed_seconds_without_delay": "Fixed cost of a step that was timed in the same turns without "
    "the delay, s; as what follows, only with a delay.",
    "recovered_delay_seconds": "What the delay added to the fixed cost of the fit: lines through "
    "the differences of a round at no image, their Hodges-Lehmann estimate over rounds, s.",
    "recovered_delay_seconds_low": "Lower end of its 95 % interval, over rounds of turns; from six "
    "on.",
    "recovered_delay_seconds_high": "Upper end of its 95 % interval.",
    "paired_delay_seconds": "What the delay added to a step, without the fit: Hodges-Lehmann "
    "estimate over the differences of all batch sizes and rounds, s.",
    "paired_delay_seconds_low": "Lower end of its 95 % interval, over these differences.",
    "paired_delay_seconds_high": "Upper end of its 95 % interval.",
    "half_batch": "Batch size a / b, at which half of a step is fixed cost.",
    "line_residual": "Relative root-mean-square residual of the fit.",
    "noise_floor": "Factor by which a batch size differs from itself; above "
    f"{step_cost.MOST_NOISE:g}, half_batch, plateau, knee, still_rising and ceiling are empty: "
    f"{step_cost.TOO_NOISY}.",
    "highest_images_per_second": "Highest median throughput.",
    "plateau_images_per_second": "Throughput that it tends to: 1 / b where the line fits, or else "
    "the median of the sizes from half the largest on, unless these still rise.",
    "knee_fitted": "Batch size 9 a / b, at which the fit reaches 90 % of 1 / b; where the line "
    "fits and it lies within the sizes.",
    "knee_fitted_low": "Lower end of its 95 % interval: delta method for its logarithm.",
    "knee_fitted_high": "Upper end of its 95 % interval.",
    "knee_batch_size": "Smallest batch size whose throughput reaches 90 % of the plateau and after "
    "which the upper quartile of none falls short of it.",
    "still_rising": "Whether 90 % of the plateau lies beyond the largest batch size.",
    "step_winner": "line, staircase, neither or not resolved: how the time of a step rises.",
    "step_q": "Images per step of the best staircase.",
    "step_alike": "Every q that fits as well, 1 for the line.",
    "step_difference": "AICc of the line less that of the best staircase.",
    "step_p": "How often a line with this noise gives so large a difference.",
    "step_p_holm": "The larger of it and the best rival's, adjusted over the experiment's rows.",
    "step_verdict": "The same in a sentence.",
    "matmul_flops_per_second": "Peak of a matrix product, FLOP/s: the highest that the table's "
    "timings measured on this machine, device, threads and type; in TensorFlow alone.",
    "matmul_flops_per_second_lowest": "The lowest of these.",
    "flops_per_image": "Operations of the model's products and convolutions per image and update.",
    "ceiling_images_per_second": "The one over the other.",
    "share_of_ceiling": "highest_images_per_second over it; above 1, the peak that was measured is "
    "no ceiling.",
    "max_batch_size": "Largest batch size that was seen to fit into memory.",
    "max_batch_size_bound": "resolved, most_fits (all that may be tried fits) or nothing_fits.",
    "memory_limit_mb": "Memory that it was allowed to take, MB.",
    "memory_fixed_mb": "Memory beside the batch: a fit over the sizes that were tried, MB.",
    "memory_mb_per_image": "Memory per image: the same fit, MB.",
}
UTILISATION: dict[str, str] = {
    "batch_size": "Images per step.",
    "status": _STATUS_HERE,
    "steps": "Steps of the training.",
    "seconds": "Its time, s.",
    "process_percent": "CPU utilisation of the process, % of its cores: median over time.",
    "process_percent_q1": "Lower quartile over time.",
    "process_percent_q3": "Upper quartile over time.",
    "process_cores": "Cores in use: median over time.",
    "process_zero_share": "Share of the time without work of the process on the CPU.",
    "machine_percent": "CPU utilisation of the whole machine, %: median over time.",
    "foreign_cores": "Cores that other processes took: mean.",
    "disturbed": "Whether that is more than 0.2 cores, after up to two repeats.",
    "memory_peak_mb": "Peak resident memory of the process, MB.",
    "tensorflow_peak_mb": "Peak of what the allocator of TensorFlow, or of PyTorch on a GPU, gave "
    "out on the device, MB; on a CPU without tensors below 256 KiB, and empty where all are.",
    "gpu_percent": "GPU utilisation, % of the time in which a kernel ran: median over time.",
    "gpu_percent_q1": "Lower quartile over time.",
    "gpu_percent_q3": "Upper quartile over time.",
    "gpu_zero_share": "Share of the time at 0 %.",
    "gpu_bandwidth_percent": "% of the time in which GPU memory was read or written: median.",
    "gpu_memory_peak_mb": "Peak memory in use on the GPU, by all processes, MB; TensorFlow gives "
    "nothing back, so that it does not fall with the batch size.",
    "gpu_power_watts": "Mean power of the GPU, W.",
    "gpu_energy_joules": "Energy of the GPU over the training, J.",
    "joules_per_epoch": "The same for the images of an epoch, J.",
}
SAMPLES: dict[str, str] = {
    "batch_size": "Batch size of the training at that time; empty between two.",
    "phase": "training; lead_in, the first steps after a change of batch size; repeated, a "
    "training that other processes disturbed and that was run again; empty while resting.",
    "seconds": "Time since the start, s.",
    "process_percent": "CPU utilisation of the process since the sample before, % of its cores.",
    "machine_percent": "CPU utilisation of the whole machine since then, %.",
    "memory_mb": "Resident memory of the process, MB.",
    "gpu_percent": "GPU utilisation, %.",
    "gpu_bandwidth_percent": "Memory-bandwidth utilisation of the GPU, %.",
    "gpu_memory_mb": "Memory in use on the GPU, MB.",
    "gpu_power_watts": "Power of the GPU, W.",
}
LARGEST: dict[str, str] = {
    "batch_size": "Batch size that was tried.",
    "outcome": "fits, out_of_memory, over_limit or killed.",
    "peak_mb": "Most memory taken, MB; of what did not fit a lower bound.",
    "baseline_mb": "The same before the batch was there, MB.",
    "seconds": "Time of the try, s.",
    "message": "Why it did not fit.",
    "process_percent_mean": "CPU utilisation over the try, its start and all its processes "
    "included, % of its cores: mean, since their clock ticks too slowly for a median.",
    **GPU_USED,
    "gpu_memory_peak_mb": _GPU_MEMORY,
    "foreign_cores": "Cores that other processes took during the try: mean.",
}
PROFILES: dict[str, str] = {
    "batch_size": "Images per step.",
    "status": _STATUS_HERE,
    "compute": "Share of the time in which an operation computes.",
    "input": "Share in which training waits for data and nothing computes.",
    "host": "Share of neither: Python, dispatch, copies, idle.",
    "executor": "The part of host in which a graph runs, but no operation that the trace shows.",
    "steps": "Profiled steps.",
    "steps_per_second": "Steps per second without the profiler.",
    "overhead": "Time that the profiler adds, as a share of the time without it.",
    "process_percent": "CPU utilisation of the process during the steps without the profiler, % of "
    "its cores: median.",
    "process_zero_share": "Share of their time without work of the process on the CPU.",
    **GPU_USED,
    "memory_peak_mb": "Peak resident memory of the process up to the last step, graph and profiler "
    "included, MB.",
    "tensorflow_peak_mb": "Peak of what TensorFlow's allocator gave out on the device, MB; on a "
    "CPU as in utilisation.csv.",
    "gpu_memory_peak_mb": _GPU_MEMORY,
    "foreign_cores": "Cores that other processes took, from building the graph on: mean.",
}
TRAINING_TIMES: dict[str, str] = {
    "batch_size": "Images per step.",
    "status": _STATUS,
    "at_epoch": "Number of epochs, as the experiment asks for.",
    "train_seconds": "at_epoch times the time of an epoch, validation apart, s.",
    "seconds_per_epoch_q1": "Lower quartile of the time of an epoch, s.",
    "seconds_per_epoch_q3": "Upper quartile of the time of an epoch, s.",
}
COLUMNS = {
    "throughput.csv": THROUGHPUT,
    "sweeps.csv": SWEEPS,
    "utilisation.csv": UTILISATION,
    "samples.csv": SAMPLES,
    "largest.csv": LARGEST,
    "profiles.csv": PROFILES,
    "training_times.csv": TRAINING_TIMES,
}
