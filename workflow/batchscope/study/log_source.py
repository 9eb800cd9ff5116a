"""Formats and places of logs, as an experiment states them."""

from dataclasses import dataclass

AUTO = "auto"
CLOCKS = ("wall_time", "Wall time")  # clocks also run between trainings
# Format -> its name for people.
FORMATS = {
    "csv": "CSV",
    "keras": "Keras CSVLogger",
    "lightning": "Lightning CSVLogger",
    "huggingface": "Hugging Face trainer_state.json",
    "tensorboard": "TensorBoard event files",
    "wandb": "Weights & Biases chart",
    "nanogpt": "nanoGPT output",
    "llm_c": "llm.c log",
    "json_lines": "JSON lines",
}


@dataclass(frozen=True)
class Source:
    """Logs to read, and their format."""

    files: tuple[str, ...]  # paths, and patterns with `{name}`, `*`, `**`, `?`
    format: str = AUTO
    columns: tuple[tuple[str, str], ...] = ()  # our name -> name in the log
    examples_per_epoch: float | None = None
    pattern: str = ""  # factors in paths, or in names of runs
    metrics: tuple[str, ...] = ()  # user-defined metrics


def escaped(path: str) -> str:
    """Return a path without placeholders as a pattern."""
    return path.replace("{", "{{").replace("}", "}}")
