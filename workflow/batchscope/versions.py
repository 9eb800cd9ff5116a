"""Version strings of the costly steps; a new one recomputes a step and what follows.

Raise a string when the numbers of its step change, and only then: Snakemake carries it as the
step's one parameter, so that edits that change no number recompute nothing.
"""

VERSIONS = {
    "prepare_data": "prepare_data-v1",
    "train": "train-v1",
    "evaluate": "evaluate-v1",
    "sharpness": "sharpness-v1",
    "weight_distance": "weight_distance-v1",
    "time_epoch": "time_epoch-v1",
}
