"""Loss and accuracy on every split, dropout off, and the generalisation gap as a difference and as
a ratio.
"""

from __future__ import annotations

from batchscope.catalogue.entries import Column, Figure, Measure, Panel, Positive, Scale, Share
from batchscope.catalogue.shared import WEIGHTS, epoch

_KESKAR = "Keskar et al. 2017, arXiv 1609.04836"
_TITLES = {"train": "Training", "validation": "Validation", "test": "Test"}


def _of_split(split: str, **stated: str) -> dict[str, Column]:
    """Returns loss and accuracy on a split, with what is stated of the accuracy."""
    loss, accuracy = f"{_TITLES[split]} loss", f"{_TITLES[split]} accuracy"
    right = f"Share of the {split} split that is classified rightly, dropout off."
    return {
        f"{split}_loss": Positive(f"Mean loss over the {split} split, dropout off.", label=loss),
        f"{split}_accuracy": Share(right, "share", label=accuracy, **stated),
    }


ENTRY = Measure(
    version="evaluate-v1",
    settings=(WEIGHTS, epoch("`weights`")),
    columns={
        **_of_split("train"),
        **_of_split("validation"),
        **_of_split("test", direction="falls", source=_KESKAR),
        "generalisation_gap": Column(
            "test_loss - train_loss.",
            label="Generalisation gap",
            direction="rises",
            source=_KESKAR,
        ),
        "generalisation_gap_accuracy": Column("train_accuracy - test_accuracy.", unit="share"),
        "generalisation_gap_ratio": Column(
            "test_loss / train_loss; empty where the training loss is no more than rounding."
        ),
    },
    at_epochs=True,
    figures=(
        Figure(
            "accuracy",
            "Accuracy",
            "Quality",
            "Accuracy on the training, validation and test data. Pale bars: the 95 % binomial "
            "error of an accuracy counted on so many examples, which no number of seeds undoes.",
            panels=tuple(
                Panel(
                    f"{split}_accuracy",
                    title,
                    "accuracy (%)",
                    Scale.PERCENT,
                    counted_on=f"{split}_examples",
                )
                for split, title in _TITLES.items()
            ),
            own=("train_accuracy|validation_accuracy|test_accuracy",),
        ),
        Figure(
            "generalisation_gap",
            "Generalisation gap",
            "Quality",
            "How much worse a model is on test data than on its training data, in loss and in "
            "accuracy.",
            panels=(
                Panel("generalisation_gap", "Loss, difference", "test − training loss (nats)"),
                Panel("generalisation_gap_ratio", "Loss, ratio", "test loss / training loss"),
                Panel(
                    "generalisation_gap_accuracy",
                    "Accuracy, difference",
                    "training − test accuracy (points)",
                    Scale.PERCENT,
                ),
            ),
            own=("generalisation_gap|generalisation_gap_accuracy",),
        ),
    ),
    memory_mb=2000,
    order=1,
)
