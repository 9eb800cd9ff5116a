"""Version strings of the costly steps; a new one recomputes a step and what follows.

Raise a string when the numbers of its step change, and only then: Snakemake carries it as the
step's one parameter, so that edits that change no number recompute nothing.
"""

VERSIONS = {
    "prepare_data": "prepare_data-v2",
    "train": "train-v3",
    "evaluate": "evaluate-v1",
    "sharpness": "sharpness-v1",
    "weight_distance": "weight_distance-v1",
    "time_epoch": "time_epoch-v2",
    "displacement": "displacement-v1",
    "gradient_alignment": "gradient_alignment-v3",
    "hessian": "hessian-v1",
    "sam_sharpness": "sam_sharpness-v1",
    "landscape": "landscape-v1",
    "line": "line-v1",
    "throughput": "throughput-v3",
    "utilisation": "utilisation-v2",
    "max_batch_size": "max_batch_size-v1",
    "profile": "profile-v1",
}
